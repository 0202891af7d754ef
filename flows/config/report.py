"""The `report` section: how what is released is shown.

None of it changes what is drawn, so none of it makes another job. It holds for releases to come.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from hushrank.flows.config.model import USED_BY
from hushrank.flows.config.section import Section

LINKED = tuple(name for name, keys in USED_BY.items() if "link" in keys)
LOGISTIC_ALWAYS = ("bradley-terry",)


class ReportConfig(Section):
    """How scores are written.

    Attributes:
        scale: `elo`: as ratings like those of chess players, the mean item at 1000; `method`: on
            the scale of the method. Elo needs scores of a logistic link.
    """

    scale: Literal["method", "elo"] = Field(default="method", examples=["elo"])

    def problems_with(self, method: str, link: str) -> Iterable[tuple[str, str]]:
        """Key and rule of what does not suit `method` and its link."""
        if self.scale != "elo" or method in LOGISTIC_ALWAYS:
            return
        if method not in LINKED:
            yield (
                "scale",
                f"elo needs scores of a logistic link, and method: {method} has no link; remove it,"
                f" or choose among the methods {', '.join((*LINKED, *LOGISTIC_ALWAYS))}",
            )
        elif link != "logistic":
            yield "scale", f"elo needs model.link: logistic, got {link}; change one of the two"
