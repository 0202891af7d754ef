"""Estimates from comparisons whose ties are outcomes of their own.

In: noisy counts of three outcomes a pair. Out: scores, how often equals tie, and intervals of both.
"""
