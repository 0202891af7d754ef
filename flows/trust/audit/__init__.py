"""Black-box audits of the mechanism that a job configures, on synthetic neighbours.

In: a configuration, of which no input file is read. Out: lower bounds on epsilon beside the stated
one, and a document that a certificate can take. Nothing is released and no ledger is touched.
"""
