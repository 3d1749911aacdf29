"""Replays recorded vectors of HAMi v2.10.0 through this product's own code, on a cluster and a database made for it.

The format is described in `docs/compatibility.md`. Nothing here decides: it feeds the views and services, and reads
back what they answered and what the ledger then holds.
"""
