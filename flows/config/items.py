"""The `items` section: the public catalogue."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BeforeValidator, Field, PrivateAttr, StringConstraints, model_validator

from hushrank.flows.config.items_file import read_items
from hushrank.flows.config.places import LocalPath
from hushrank.flows.config.problems import refuse
from hushrank.flows.config.section import Section
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.plain_text import hidden_character

_LONG = "longer than 1000 characters"
MOST_CHARACTERS = 1000  # most characters of a name
MAX_ITEMS = 1_000_000  # the matrix of wins has this squared; more is a typing error


def _integer_as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


ItemName = Annotated[
    str,
    StringConstraints(min_length=1, strip_whitespace=True),
    BeforeValidator(_integer_as_text),
]


class ItemsConfig(Section):
    """The public catalogue, in one of three forms. It must not be made from the answers.

    Attributes:
        names: the items.
        count: how many items there are; their names are 0 to count - 1.
        file: a text file with one name a line, a CSV or Parquet file with a column `item` or
            `name`, or a PrefLib file, of which only the header is read. With both columns, `item`
            is what stands in the rows and `name` what people read in place of it.
    """

    names: Annotated[tuple[ItemName, ...], Field(strict=False)] | None = Field(
        default=None, examples=["[London, Paris]"]
    )
    count: int | None = Field(default=None, ge=2, le=MAX_ITEMS, examples=["6"])
    file: LocalPath | None = Field(default=None, examples=["items.csv"])

    _catalogue: Catalogue = PrivateAttr()
    _labels: dict[str, str] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _read(self) -> Self:
        given = [key for key in ("names", "count", "file") if getattr(self, key) is not None]
        if len(given) != 1:
            refuse(("", "needs exactly one of names, count and file"))
        try:
            self._catalogue = self._made_catalogue()
        except ValueError as error:
            refuse((given[0], str(error)))
        for name in (*self._catalogue.names, *self._labels.values()):
            if hidden := hidden_character(name):
                refuse((given[0], f"an item's name holds {hidden}, which nobody sees; rename it"))
            if len(name) > MOST_CHARACTERS:
                refuse((given[0], f"item {name[:40]}… is {_LONG}; shorten it"))
        return self

    def _made_catalogue(self) -> Catalogue:
        if self.count is not None:
            return Catalogue.of_count(self.count)
        if self.file is not None:
            read = read_items(self.file)
            self._labels = read.labels
            return Catalogue(read.names)
        return Catalogue(self.names or ())

    def catalogue(self) -> Catalogue:
        """The items, as they were read when the configuration was loaded."""
        return self._catalogue

    def labels(self) -> dict[str, str]:
        """The name that people read, for each item that has one besides its own."""
        return self._labels
