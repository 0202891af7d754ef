"""The command line: one module for each group of commands.

In: arguments. Out: text at the terminal and an exit code; everything slow is imported inside a
command.
"""
