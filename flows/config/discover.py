"""Section `items.discover`: names of items that are found in the rows, released with noise."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from hushrank.flows.config.section import Section, Text
from hushrank.flows.config.yaml_file import refuse
from hushrank.privacy.units import MOST_NAMES_FOUND, MOST_SHARE_OF_NAMES

NOT_FOUND = ("an item", "another item")  # stands for names until they are found


class DiscoverConfig(Section):
    """Names that enough people write in the rows, released with noise before the ranking.

    Names are compared in lower case and without repeated blanks. The same budget pays for names and
    ranking (`privacy.discovered_names`). Needs comparisons, unit `user` and Gaussian noise.

    Attributes:
        most_items: the most distinct names of one person that count, 1 to 100; further ones are
            left out at random, and a person with fewer names gives each of them more weight.
        share: share of the budget, as rho, for the names; the ranking has the rest.
        deny: patterns (RE2, in lower case) of texts that are never published, such as `@`. They are
            public, and are compared before anything is counted.
    """

    most_items: int = Field(default=20, ge=1, le=MOST_NAMES_FOUND, examples=["20"])
    share: float = Field(default=0.2, gt=0, le=MOST_SHARE_OF_NAMES, examples=["0.2"])
    deny: Annotated[tuple[Text, ...], Field(strict=False)] = Field(
        default=(), examples=['["@", "[0-9]{6}"]']
    )

    @model_validator(mode="after")
    def _check_patterns(self) -> Self:
        from hushrank.transforms.common.written_names import require_pattern

        for pattern in self.deny:
            try:
                require_pattern(pattern)
            except ValueError as error:
                refuse(("deny", str(error)))
        return self
