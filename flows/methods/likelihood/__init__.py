"""Methods that draw their noise inside the fit of a likelihood: scores, and effects of covariates.

In: exact counts of pairs. Out: scores that carry noise, and intervals.
"""

KIND = "comparisons"  # kind of input
