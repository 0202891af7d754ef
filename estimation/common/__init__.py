"""Tools that estimators share: reduced matrices, link functions, uncertainty, estimates.

In: released numbers. Out: scores, intervals, rank intervals and groups.
"""
