"""The only door to the Kubernetes API: requests as values, one client, list-watch, leases.

Must not know: the ledger, Django, devices, or why a request is made.
"""
