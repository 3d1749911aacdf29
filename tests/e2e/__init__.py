"""Acceptance tests on a real control plane: one file per theme, each test in namespaces of its own."""
