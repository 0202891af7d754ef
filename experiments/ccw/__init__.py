"""The experiments of [CCW], rerun.

In: an experiment's name and a number of replicates. Out: a table, and the paper's figures.
"""
