"""A real Kubernetes control plane and the platform's own processes, as test equipment."""
