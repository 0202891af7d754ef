"""`hushrank reference`: every key of the YAML file."""

from __future__ import annotations

import typer


def reference() -> None:
    """Print every key of the YAML file: type, default, rule and meaning, in Markdown."""
    from hushrank.flows.config.reference import config_reference

    typer.echo(config_reference(), nl=False)
