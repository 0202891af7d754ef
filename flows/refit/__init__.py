"""Fits of another model to counts that are public already.

In: the noisy counts of a finished release, or a public table of pairs.
Out: a ranking in the shape of a release's. It is post-processing: no row is read, no noise is drawn
and nothing is spent.
"""
