"""Planning: the file that a survey starts from, and what a job would give before a row is read.

In: headers of files, public facts, a configuration. Out: a proposed configuration, and simulated
errors of each method.
"""
