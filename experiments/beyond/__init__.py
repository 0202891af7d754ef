"""What hushrank does beyond the papers: each mechanism against the ways that there were before.

In: simulated answers. Out: one table and one figure a module with a `FIGURE`.
"""
