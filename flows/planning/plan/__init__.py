"""Prediction of a job's accuracy before any answer is read: `hushrank plan`.

In: a configuration or numbers on the command line, never a row. Out: predicted errors, as table
and picture.
"""
