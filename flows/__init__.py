"""Parts that a person touches: configuration, budget ledger, nightly flow, report, command line."""
