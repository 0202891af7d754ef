"""The report of a release: one self-contained HTML page with its figures.

In: releases, which are public. Out: HTML and SVG text.
"""
