"""Patterns of object names: `*` and `?` stand for anything but a slash, `**` for anything."""

from __future__ import annotations

import re

MAGIC = re.compile(r"[*?\[]")
_TOKEN = re.compile(
    r"(?P<folders>\*\*/)|(?P<all>\*\*)|(?P<some>\*)|(?P<one>\?)|\[(?P<set>[^\]]+)\]"
)


def as_regex(pattern: str) -> str:
    """The regular expression of the names that `pattern` matches whole."""
    parts, end = [], 0
    for token in _TOKEN.finditer(pattern):
        parts.append(re.escape(pattern[end : token.start()]))
        end = token.end()
        if token["set"] is not None:
            chosen = token["set"].replace("\\", "\\\\").replace("^", "\\^")
            parts.append(f"[{'^' if chosen[0] == '!' else ''}{chosen.removeprefix('!')}]")
        else:
            kinds = {"folders": "(?:.*/)?", "all": ".*", "some": "[^/]*", "one": "[^/]"}
            parts.append(kinds[token.lastgroup or ""])
    return "".join(parts) + re.escape(pattern[end:])
