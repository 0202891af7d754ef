"""Certificates: what each release proves of itself, in exact numbers that anybody can check.

In: what a release was drawn by, the ledger up to its entry, the configuration, the running code.
Out: `certificate.json`, and certificates read back.
"""
