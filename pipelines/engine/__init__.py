"""Engines: where a graph runs, with which options, memory and job server.

In: the runner of a configuration. Out: Beam's options, and limits of memory.
"""
