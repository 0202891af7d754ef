"""Watching: what other systems learn of a run. Public facts only.

In: steps of a run. Out: events in other systems' formats.
"""
