"""Streams of nights: what is remembered of people and of counts from one night to the next.

In: the people and the counts of a night. Out: who counts on it, and the files of the next night's
memory. All of it is confidential and stays on the protected side.
"""
