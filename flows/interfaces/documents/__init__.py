"""What `--json` prints: one document for each command, which Python returns too.

In: releases, ledgers and plans. Out: JSON of public facts.
"""
