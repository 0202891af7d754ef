"""The Beam that transforms are written against, and its few parts for small inputs.

In: a graph of transforms. Out: the same results with Beam, or without loading it.
"""
