"""The collector: it takes private answers over HTTP and writes them where the night reads them.

In: a survey's YAML file, and batches of private answers over HTTP. Out: a part for each night, in
the folder that the survey's `input.paths` names.
"""
