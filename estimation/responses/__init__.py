"""Estimators on responses to test items: the spectral method of the Rasch model.

In: pairwise differential measurements. Out: difficulties with intervals.
"""
