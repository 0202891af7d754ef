"""Fits of scores to pairs of items: penalised likelihoods and their solvers.

In: weights of pairs. Out: scores and their errors, or `ConvergenceError`.
"""
