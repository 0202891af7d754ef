"""Estimators on private rankings: Kemeny, Borda, Bradley-Terry, personalised scores, an attack.

In: counts of private rankings. Out: consensus orders, scores and their evidence.
"""
