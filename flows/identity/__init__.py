"""What an input and a release are, whatever their place, their date and the version that reads.

In: files, the job's hash, the ledger's key. Out: texts and keyed names for contents, inputs and
releases.
"""
