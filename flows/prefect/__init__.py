"""Runs as Prefect flows: a task for each step, artifacts for people, the scheduled flow.

In: a job. Out: what `flows.run` gives, shown by a Prefect server.
"""
