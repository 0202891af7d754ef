"""Lines of a configuration that is proposed to a person."""

from __future__ import annotations

import re

import yaml

_COMMENT_COLUMN = 32


def choose(key: str, what: str) -> str:
    """A line that a person has to complete."""
    return line(key, "", f"CHOOSE: {what}")


def line(key: str, value: str, comment: str = "") -> str:
    """A setting, with a comment for those who read the file."""
    setting = f"{key}: {value}".rstrip()
    return f"{setting:<{_COMMENT_COLUMN}} # {comment}" if comment else setting


def scalar(text: str) -> str:
    """`text` as YAML reads it back: plain if there can be no doubt, else quoted."""
    if re.fullmatch(r"[A-Za-z/][\w./-]*", text, re.ASCII) and text.lower() not in _YAML_WORDS:
        return text
    quoted: str = yaml.safe_dump(text, default_style='"', allow_unicode=True, width=len(text) * 10)
    return quoted.strip()


_YAML_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
