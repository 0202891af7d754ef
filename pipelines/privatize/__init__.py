"""Files of answers or rankings in, privatised files out; the holder of the answers runs this.

In: a file and an epsilon. Out: a file of the same form, private row by row.
"""
