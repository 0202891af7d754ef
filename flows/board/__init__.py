"""Static site of all published releases of a population (`hushrank board`).

In: archived releases, which are public. Out: pages, feeds and a table, with nothing that no release
says. Reads no row, and writes the whole site or nothing.
"""
