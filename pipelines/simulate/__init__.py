"""Simulated surveys of any size, with their true scores and a job file.

In: a specification and a seed. Out: files of rows, a catalogue, the true scores.
"""
