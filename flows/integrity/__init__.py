"""What shows that somebody changed a ledger: signatures of its lines, and anchors in other places.

In: a ledger's backend, a key, a place. Out: the same backend, which refuses a ledger that is not
signed with the key, or that is shorter than its anchor says or differs from it.
"""
