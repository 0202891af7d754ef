"""One run of a job: the steps from reservation to commit, of a release or a night of a stream.

In: a configuration file. Out: a published release and a spend in the ledger, or neither.
"""
