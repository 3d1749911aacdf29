"""The simulated kube-scheduler. Talks to the API server and to an extender over HTTP; knows nothing of GPUs."""
