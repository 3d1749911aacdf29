"""The simulated kubelet's parts. They speak the device plugin protocol and the API server's; they know no GPUs."""
