"""Memory of a ledger in the archive and the confidential area, and how a run goes on without it.

In: a configuration, its ledger, its places. Out: what the ledger forgot, and entries that make up
for it. It draws and publishes nothing.
"""
