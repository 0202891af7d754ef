"""One run of a job, and the nights of a schedule: the steps, their order, and reports on them.

In: a configuration file. Out: a published release and a spend in the ledger, or neither.
"""
