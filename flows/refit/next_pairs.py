"""`hushrank next-pairs`: which pairs of items to ask about next, from a release alone.

The choice is made from published scores and errors, so it costs no epsilon and anybody can repeat
it (`estimation.comparisons.next_pairs`). It makes answers to some pairs more frequent on purpose.
So it is for methods whose fit conditions on who met whom; a method that counts wins, or wins less
losses, would rank an item by whom it was asked against.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

from pydantic import Field

from hushrank.estimation.common.links import link_named
from hushrank.estimation.common.pair_separation import ScoreErrors
from hushrank.estimation.comparisons import next_pairs as choice
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.registry import facts_of_methods
from hushrank.flows.refit.model import release_file
from hushrank.flows.release.archive import RELEASE
from hushrank.flows.release.boards import MOST_LISTED
from hushrank.flows.release.release import Release, load_release
from hushrank.flows.release.scale import SCALE_OF_LINK, Scale
from hushrank.flows.statement.record import Record
from hushrank.transforms.common.plain_text import write_cell
from hushrank.transforms.storage.places import Place, write_whole

USUAL_BEST = 5
MOST_TIMES = 100.0
LINK_OF = {scale: link for link, scale in SCALE_OF_LINK.items()} | {Scale.ELO: "logistic"}
REFUSED = (
    "{}: its method is {}; next-pairs is for {} with input.design: any, whose scores do not depend"
    " on which pairs are asked. Nothing was spent."
)
NO_ERRORS = (
    "{}: does not say how far its scores may be off together (errors), so nobody can tell which"
    f" pairs teach most: nothing was learned, it has more than {MOST_LISTED} items, or an older"
    " version made it. Ask all pairs evenly."
)
SAYS = (
    "Chosen from release {} alone: no row was read and nothing was spent. Ask about the pairs at"
    " random with these shares, and rank with input.design: any."
)


class NextPair(Record):
    """One pair of items.

    Attributes:
        left, right: the items.
        share: part of the next answers that should be about them.
    """

    left: str
    right: str
    share: float = Field(gt=0, le=1)


class NextPairs(Record):
    """Pairs to ask about next.

    Attributes:
        release: id of the release from which they follow.
        top: number of the best items that they tell from the others.
        says: sentence on what was done.
        spent: epsilon that the choice cost: always 0.
        pairs: all pairs of items, the largest share first; shares add up to 1.
    """

    release: str
    top: int
    says: str
    spent: float = 0.0
    pairs: tuple[NextPair, ...]

    def to_csv(self) -> str:
        """The pairs as a table with the columns `left`, `right` and `share`."""
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(["left", "right", "share"])
        for each in self.pairs:
            table.writerow([write_cell(each.left), write_cell(each.right), f"{each.share:.9f}"])
        return text.getvalue()


def next_pairs(
    source: str | Path,
    load_config: Callable[[Path], SurveyConfig],
    *,
    top: int | None = None,
    more: float = 1.0,
) -> NextPairs:
    """Choose the pairs that tell the best items from the others; see `hushrank.next_pairs`.

    Args:
        source: folder of a release, its `release.json`, or the YAML file of its job.
        load_config: reads a YAML file.
        top: number of the best items that are sought; None: 5, or half of fewer than 10 items.
        more: answers to come, as a multiple of those that the release counted.

    Raises:
        ConfigError: there is no release, its method does not condition on who met whom, or it does
            not say how far its scores may be off.
    """
    if not 0 < more <= MOST_TIMES:
        raise ConfigError(f"more: must be above 0 and at most {MOST_TIMES:g}, got {more}")
    if top is not None and top < 1:
        raise ConfigError(f"top: must be at least 1, got {top}; write the best items you seek")
    file = _file_of(source, load_config)
    release = load_release(file)
    _check_method(file, release.method)
    if release.errors is None or not release.informative or release.scale not in LINK_OF:
        raise ConfigError(NO_ERRORS.format(file))
    n = len(release.ranking)
    k = min(USUAL_BEST, n // 2) if top is None else top
    if not 1 <= k < n:
        raise ConfigError(f"top: must be from 1 to {n - 1}, got {k}; write the best items you seek")
    return _chosen(release, release.errors.on_link(release.scale), k, more)


def _chosen(release: Release, errors: ScoreErrors, k: int, more: float) -> NextPairs:
    link = link_named(LINK_OF[release.scale])
    found = choice.next_pairs(errors, link, k, more)
    items = [line.item for line in release.ranking]
    return NextPairs(
        release=release.release_id,
        top=k,
        says=SAYS.format(release.release_id),
        pairs=tuple(
            NextPair(left=items[a], right=items[b], share=float(share))
            for a, b, share in zip(
                found.left.tolist(), found.right.tolist(), found.share, strict=True
            )
        ),
    )


def _file_of(source: str | Path, load_config: Callable[[Path], SurveyConfig]) -> Place:
    place = Path(source)
    if place.suffix not in (".yaml", ".yml"):
        return release_file(place)
    config = load_config(place)
    _check_method(place, config.method)
    return config.output / RELEASE


def _check_method(place: Place, method: str) -> None:
    """Refuse a method that does not take as given who met whom."""
    takes = [name for name, facts in facts_of_methods("comparisons").items() if facts.any_pairs]
    if method not in takes:
        raise ConfigError(REFUSED.format(place, method, " and ".join(takes)))


def write_pairs(pairs: NextPairs, out: Path) -> None:
    """Write the table of pairs, whole or not at all.

    Raises:
        ConfigError: the file cannot be written.
    """
    try:
        write_whole(str(out), pairs.to_csv().encode())
    except OSError as error:
        raise ConfigError(f"{out}: cannot be written ({error.strerror}).") from None
