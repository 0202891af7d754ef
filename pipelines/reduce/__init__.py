"""Reductions: from the files of a log to the exact arrays in the confidential area.

In: a job, which says which rows and which bounds. Out: `exact.npz`, rejects and diagnostics,
confidential.
"""
