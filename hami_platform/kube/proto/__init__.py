"""The kubelet's device plugin protocol: our .proto and the stubs made from it. Knows nothing of its users."""
