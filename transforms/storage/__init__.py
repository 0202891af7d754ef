"""Files on disk and in Cloud Storage: how to list them, read parts of them and write them whole.

In: paths and formats. Out: Arrow batches of the columns that a job needs.
"""
