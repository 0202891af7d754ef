"""`import hushrank`: rank a table, read releases and ledgers, from Python.

In: any table of Arrow's C stream or of the data-frame protocol, or paths, and keywords that stand
for keys of the YAML file. They become the same configuration, and the same steps run.
Out: objects that a notebook shows: releases, balances, plans. Mistakes raise one sentence.
"""
