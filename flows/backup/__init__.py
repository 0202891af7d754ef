"""One consistent copy of what a survey must not lose, and how a survey goes on from it.

`bundle` is the copy on disk, `contents` says what belongs to it, `backup` makes it and `restore`
puts it back. Nothing here spends budget or draws noise.
"""
