"""JSON documents that `--json` prints, one for each command; Python returns them too.

In: releases, ledgers and plans. Out: JSON of public facts.
"""
