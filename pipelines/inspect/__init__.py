"""Exact counts of a log, for its holder alone: nothing is written or released.

In: the job of a reduction. Out: a `Look` in memory, confidential.
"""
