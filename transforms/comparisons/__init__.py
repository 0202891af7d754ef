"""Comparisons: the rows of a person meet, are bounded or privatised, and are summed.

In: encoded batches. Out: integer matrices of wins and comparisons.
"""
