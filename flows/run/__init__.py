"""One run of a job, and the nights of a schedule: steps, their order, what is told of them.

In: a configuration file. Out: a published release and a spend in the ledger, or neither.
"""
