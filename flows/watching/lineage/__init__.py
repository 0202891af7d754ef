"""OpenLineage events of runs: which inputs became which release, under which guarantee.

In: public facts of a job and of its release. Out: one JSON object for each event, to a file or to
an HTTP endpoint. Nothing in it was computed from rows.
"""
