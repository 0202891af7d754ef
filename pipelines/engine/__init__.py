"""Engines: where a graph runs, and its options, memory and job server.

In: the runner of a configuration. Out: Beam's options, and memory limits.
"""
