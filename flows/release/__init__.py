"""Published releases: `release.json`, the released statistics, and the folders that keep them.

In: an estimate, a privacy record, released statistics. Out: files in the output folder, and
releases read back. What an input and a release are is keyed by contents, not by place or date.
"""
