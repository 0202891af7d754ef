"""Rankings: the pieces of a person's ranking meet, are privatised one by one, and are counted.

In: encoded batches. Out: counts of private rankings.
"""
