"""Interfaces: the command line, the Python functions, and the JSON that commands print.

In: what a person types or calls. Out: text, tables and exit codes.
"""
