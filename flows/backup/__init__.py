"""Consistent copy of what a survey must not lose, and how a survey goes on from it.

In: a configuration and its places, or a backup. Out: a backup in a folder of its own, or those
places as they were. It reads no input, spends no budget and draws no noise.
"""
