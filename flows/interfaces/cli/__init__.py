"""The command line: one module for each group of commands.

In: arguments. Out: text at the terminal and an exit code. A command imports slow modules only when
it runs.
"""
