"""Evidence for people who do not trust the run: certificates, audits, recovery of a lost ledger.

In: a release and its draws, a mechanism, a ledger. Out: files and findings that others can check.
"""
