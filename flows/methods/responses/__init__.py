"""Methods on answers to test items: noise on counts of pairs of items, or on every answer.

In: counts of who was right on which items. Out: difficulties.
"""

KIND = "responses"  # of input
