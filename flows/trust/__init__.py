"""Evidence for people who do not trust the run: certificates, audits, recovery of a lost ledger."""
