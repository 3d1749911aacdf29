"""Everything that changes the ledger, one module per noun. Keyword-only functions, each one ledger transaction."""
