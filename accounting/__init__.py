"""The ledger: who holds which share of which device, which quotas bind, and every change of it."""
