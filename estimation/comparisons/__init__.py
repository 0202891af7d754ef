"""Estimators on comparisons: noisy counts and pairs, perturbed maximum likelihood, their errors.

In: counts and a calibrated law. Out: a release, and an estimate made of it alone.
"""
