"""Methods that release counts of comparisons, or the best items by them, with noise after counting.

One module for each method; rows in groups, with weights, with ties and on nights stand beside them.
In: exact counts. Out: noisy counts, and scores or an order that follow from them.
"""

KIND = "comparisons"  # kind of input
