"""Guarantee of a release: calibrated mechanisms, a record of numbers, a statement in words.

In: a mechanism and the public settings. Out: `PrivacyRecord`, which every other part of a release
reads.
"""
