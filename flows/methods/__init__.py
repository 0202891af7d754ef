"""Methods that rank: a folder for each family of them, and what all families share.

`base` says what a method is, `registry` finds them, `draws` and `formulas` are the words of their
certificates. In: a configuration, then exact arrays. Out: a mechanism, a reduction job, noisy
arrays, a conclusion.
"""
