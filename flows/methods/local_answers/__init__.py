"""Methods on comparisons whose every answer is privatised before it is counted.

In: sums of private answers. Out: scores, for `debiased-rr` and for the baselines of plans.
"""

KIND = "comparisons"  # kind of input
LOCAL = True  # no method is for another unit
