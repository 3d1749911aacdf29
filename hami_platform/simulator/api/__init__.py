"""The simulated API server: storage, admission and the REST protocol. Knows nothing of schedulers or kubelets."""
