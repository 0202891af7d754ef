"""`hushrank init`: a first configuration for a file that a person has.

In: column names and a few rows, on the machine of their holder. Out: YAML text with marked lines
that the person completes.
"""
