"""Files, on disk and in Cloud Storage: listing them, reading shares of them, writing them whole.

In: paths and formats. Out: Arrow batches of the columns that a job needs.
"""
