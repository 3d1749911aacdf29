"""The process edge towards Kubernetes: admission webhook and scheduler extender.

Reads requests, calls one service each, and writes answers. Must not know: how a decision is made.
"""
