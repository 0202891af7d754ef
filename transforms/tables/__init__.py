"""Tables and object stores that optional libraries read: Iceberg, Delta, BigQuery, S3, Azure.

In: the URL of a table, or of objects. Out: the data files of one snapshot, open files, or streams
of rows. Credentials are found by each library's own ways, and stand in no object of this room.
"""
