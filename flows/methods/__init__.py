"""The ranking methods: one module each, and the registry that names them.

In: a configuration, then exact arrays. Out: a mechanism, a reduction job, noisy arrays, a
conclusion.
"""
