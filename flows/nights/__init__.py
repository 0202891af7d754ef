"""Nights: which are due, late files, Prefect's flow and schedule, and what is deleted when.

In: a configuration with a schedule. Out: what `flows.run` gives for each night.
"""
