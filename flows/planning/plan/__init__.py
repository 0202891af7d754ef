"""What a job would find out, before anybody's answer is read: `hushrank plan`.

In: a configuration or numbers on the command line, never a row. Out: predicted errors, as table
and picture.
"""
