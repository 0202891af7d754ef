"""The Beam that transforms use: Apache Beam itself, or a small stand-in for it.

In: a graph of transforms. Out: the same results with Beam, or without loading it.
"""
