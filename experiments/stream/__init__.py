"""One budget for a stream of nights against a budget a night: noise, answers left out, errors.

In: how often people answer. Out: tables and figures.
"""
