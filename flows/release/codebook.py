"""Noisy counts of releases as a table for statisticians, and what each column of a table means."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from hushrank.flows.release.history import ABILITIES, DIF, SCHEMA
from hushrank.flows.release.release import Release

COUNTS = pa.schema(
    [
        ("day", pa.date32()),
        ("release_id", pa.string()),
        ("name", pa.string()),
        ("board", pa.string()),
        ("what", pa.string()),
        ("item", pa.string()),
        ("other", pa.string()),
        ("count", pa.float64()),
        ("sd_noise", pa.float64()),
        ("asked", pa.bool_()),
    ]
)
CODEBOOK = pa.schema(
    [(name, pa.string()) for name in ("table", "column", "type", "unit", "meaning")]
)
OF_ITEM = "the item alone"
MEANINGS: Mapping[str, tuple[str, str]] = {  # column: its unit, what it means
    "day": ("", "day of the release, or the night that it ranks"),
    "created": ("", "time of the release, UTC"),
    "release_id": ("", "identity of the release"),
    "name": ("", "population whose budget paid"),
    "method": ("", "ranking method"),
    "epsilon": ("nats", "privacy loss of the release"),
    "delta": ("probability", "chance that the promise of epsilon fails"),
    "safe": ("", "false: a test release that protects nobody"),
    "item": ("", "the item, as in the rows"),
    "label": ("", "text that people read instead of the item"),
    "rank": ("places", "1 is best; equal items share the mean of their ranks"),
    "score": ("as unit", "estimated score; higher is better, of a test: harder"),
    "low": ("as unit", f"lower end of the 95 % interval of the score, for {OF_ITEM}"),
    "high": ("as unit", f"upper end of the 95 % interval of the score, for {OF_ITEM}"),
    "rank_low": ("places", f"best rank that the item may have, with 95 %, for {OF_ITEM}"),
    "rank_high": ("places", f"worst rank that the item may have, with 95 %, for {OF_ITEM}"),
    "group": ("", "number of a group of items, or name of a group of people that is compared"),
    "noisy_wins": ("comparisons", "comparisons that the item won, noise included"),
    "unit": ("", "unit of score, low, high and se"),
    "low_all": ("as unit", "lower end; these intervals hold for all items at once, with 95 %"),
    "high_all": ("as unit", "upper end; these intervals hold for all items at once, with 95 %"),
    "rank_low_all": ("places", "best rank; these ranges hold for all items at once, with 95 %"),
    "rank_high_all": ("places", "worst rank; these ranges hold for all items at once, with 95 %"),
    "surely_above": ("", "lines of the ranking, from 1, whose items this one is reliably above"),
    "p_best": ("probability", "chance to be the best"),
    "p_top": ("probability", "chance to be among the best `top`"),
    "top": ("items", "the k of p_top"),
    "job": ("", "identity of the configuration"),
    "se": ("as unit", "standard error of the score, which low and high allow for"),
    "se_noise": ("as unit", "part of se by privacy noise"),
    "se_chance": ("as unit", "part of se by who answered how; se^2 = se_noise^2 + se_chance^2"),
    "booklet": ("", "booklet of the test"),
    "ability": ("log odds", "ability of a person with this raw score"),
    "standard_error": ("log odds", "standard error of the estimate beside it"),
    "against": ("", "the group with which `group` is compared"),
    "difference": ("log odds", "difficulty in `group` less difficulty in `against`"),
    "z": ("standard errors", "difference divided by its standard error"),
    "size": ("", "size of the difference by the classes of ETS"),
    "differs": ("", "whether the difference is certain, for all items at once with 95 %"),
    "board": ("", "group of people that was counted by itself; empty: everybody"),
    "what": (
        "",
        "what was counted: wins, losses, above (rankings), margins, nets; or beside the ranking:"
        " people and answers that count, people who are contradicting themselves or consistent",
    ),
    "other": ("", "the item that `item` is set against; empty: all others"),
    "count": ("answers", "noisy count; it may be negative or a fraction, which is right"),
    "sd_noise": ("answers", "standard deviation of the noise in count; its mean is zero"),
    "asked": ("", "whether it is public that people were asked about the pair; empty: not stated"),
}
# of columns whose meaning differs in one table
SPECIAL = {
    ("abilities", "score"): ("points", "raw score of a person"),
    ("dif", "low"): ("log odds", "lower end of the 95 % interval of the difference"),
    ("dif", "high"): ("log odds", "upper end of the 95 % interval of the difference"),
    ("dif", "group"): ("", "group of people"),
    ("ranking", "group"): ("", "items with one number are not reliably ordered among themselves"),
}
TABLES = {"ranking": SCHEMA, "counts": COUNTS, "abilities": ABILITIES, "dif": DIF}


def codebook_table() -> pa.Table:
    """A row for each column of each table that `export` writes."""
    rows = [
        {
            **{"table": table, "column": field.name, "type": str(field.type)},
            **dict(zip(("unit", "meaning"), _meaning(table, field.name), strict=True)),
        }
        for table, schema in TABLES.items()
        for field in schema
    ]
    return pa.Table.from_pylist(rows, schema=CODEBOOK)


def _meaning(table: str, column: str) -> tuple[str, str]:
    return SPECIAL.get((table, column)) or MEANINGS[column]


def counts_table(releases: Iterable[Release]) -> pa.Table:
    """A row for each noisy count of an item, of an ordered pair of items, or beside the ranking.

    Counts are in answers: a number as published, divided by what one answer adds. `sd_noise` is
    that of the same unit. All groups together have the noise of each of them.
    """
    rows = [row for release in releases for row in _counts_of(release)]
    return pa.Table.from_pylist(rows, schema=COUNTS)


def _counts_of(release: Release) -> Iterator[dict[str, Any]]:
    noiseless = release.privacy.mechanism == "none"
    shared = {"day": release.day, "release_id": release.release_id, "name": release.name}
    boards = [("", release), *((group.name, board) for group, board in release.boards())]
    for name, board in boards:
        variance = 0.0 if noiseless else board.noise_variance
        for each in board.released.counts():
            yield {
                **shared,
                "board": name,
                "what": each.what,
                "item": each.item,
                "other": each.other,
                "count": each.number / each.weight,
                "sd_noise": None if variance is None else math.sqrt(variance) / each.weight,
                "asked": each.asked,
            }
    for name, number in ({} if release.counts is None else release.counts.numbers).items():
        about = {"board": "", "what": name, "item": None, "other": None, "asked": None}
        yield {**shared, **about, "count": number.count, "sd_noise": number.deviation}
