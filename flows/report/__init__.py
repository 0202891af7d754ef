"""The report of a release: one self-contained HTML page with its figures.

In: releases, public from here on. Out: HTML and SVG text.
"""
