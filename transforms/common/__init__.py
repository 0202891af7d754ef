"""Tools for all kinds of answers: schema, catalogue, codes of items and people, sorting.

In: Arrow batches of rows as people write them. Out: codes, pseudonyms, and the rows that break a
rule.
"""
