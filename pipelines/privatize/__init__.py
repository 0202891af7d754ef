"""Files of answers or rankings in, files of privatised ones out: what whoever holds them runs.

In: a file and an epsilon. Out: a file of the same form, private row by row.
"""
