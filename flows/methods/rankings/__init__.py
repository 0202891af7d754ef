"""Methods on whole rankings: each ranking privatised before it is counted, or counts with noise.

In: counts of rankings. Out: a consensus order, or scores.
"""

KIND = "rankings"  # of input
