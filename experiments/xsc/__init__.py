"""The experiments of [XSC], rerun.

In: an experiment's name and a number of replicates. Out: a table, a comparison with the paper,
and figures.
"""
