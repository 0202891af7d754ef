"""Lines of a proposed configuration."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import yaml

_COMMENT_COLUMN = 32


def about_lines() -> Iterator[str]:
    """Yield the section that tells readers who was asked what, for the person to fill in.

    All lines are comments, because a job runs without them; the page then says "not stated".
    """
    yield "# Description of the survey for the page. Remove the # and fill in what you can:"
    yield "# report:"
    yield "#   about:"
    for key, value in (
        ("title", "Canteen survey 2026"),
        ("question", "Which of these two dishes do you like better?"),
        ("who", "students of Example University"),
        ("how_recruited", "by a link in the newsletter of May"),
        ("sample", "open"),
        ("dates", "4 to 18 May 2026"),
        ("contact", "survey@example.org"),
    ):
        about = "or everybody, all of them were asked; or drawn, a random sample was"
        yield f"#     {line(key, value, about if key == 'sample' else '')}"


def choose(key: str, what: str) -> str:
    """Write a line that the person has to complete."""
    return line(key, "", f"CHOOSE: {what}")


def line(key: str, value: str, comment: str = "") -> str:
    """Write a setting, with a comment for readers of the file."""
    setting = f"{key}: {value}".rstrip()
    return f"{setting:<{_COMMENT_COLUMN}} # {comment}" if comment else setting


def scalar(text: str) -> str:
    """Write `text` as a YAML scalar: plain if it cannot be misread, else quoted."""
    if re.fullmatch(r"[A-Za-z/][\w./-]*", text, re.ASCII) and text.lower() not in _YAML_WORDS:
        return text
    quoted: str = yaml.safe_dump(text, default_style='"', allow_unicode=True, width=len(text) * 10)
    return quoted.strip()


def flow(words: Iterable[str]) -> str:
    """Write texts as a YAML list on one line."""
    return f"[{', '.join(map(scalar, words))}]"


_YAML_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
