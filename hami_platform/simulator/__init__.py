"""A simulated cluster over real wires: API server, scheduler loop, kubelets, scenarios.

The demo and the tests use the same one. It speaks HTTP and gRPC as the real parts do, and it is as strict as they
are; it knows nothing of the platform's database, services or pages.
"""
