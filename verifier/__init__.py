"""A program that checks releases without the rest of hushrank: `verify_release`."""
