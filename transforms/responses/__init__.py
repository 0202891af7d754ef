"""Responses to test items: the answer sheets of a person meet, are bounded, and are multiplied.

In: encoded batches. Out: pairwise differential measurements, exact or of randomised answers.
"""
