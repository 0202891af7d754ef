"""Votes of people whose rows are rankings or test answers: who votes, once, and how far one moves.

Every form of rows is enumerated: all that a person can write with at most two rows, beside others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from hushrank.pipelines.reduce import reduce
from hushrank.pipelines.reduce.rankings_job import CountRankings
from hushrank.pipelines.reduce.reduction_job import Reduction, read_tally, read_votes
from hushrank.pipelines.reduce.responses_job import ReduceResponses
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.pilot_query import votes_sensitivity
from hushrank.privacy.randomness import BitSource
from hushrank.privacy.units import Adjacency, PrivacyParams, Unit
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.rankings.ranking_columns import RankColumns, WideRankColumns
from hushrank.transforms.responses.answer_sheets import Duplicates
from hushrank.transforms.responses.responses import ResponseColumns, WideColumns
from hushrank.transforms.storage.files import list_files
from hushrank.transforms.storage.window import Window

FITS, UNFIT, SILENT = "fits", "unfit", "silent"  # kinds of one row; silent: an empty cell
# Of each form: the header, and a row of each kind, with the person for {}.
FORMS = {
    "long ranking": ("user,item,rank", {FITS: "{},a,1", UNFIT: "{},zz,1", SILENT: "{},b,"}),
    "wide ranking": ("user,a,b", {FITS: "{},1,2", UNFIT: "{},1,x", SILENT: "{},,"}),
    "nameless ranking": ("a,b", {FITS: "1,2", UNFIT: "1,x"}),
    "long test": ("user,item,correct", {FITS: "{},a,1", UNFIT: "{},zz,1", SILENT: "{},b,NA"}),
    "wide test": ("user,a,b", {FITS: "{},1,0", UNFIT: "{},7,0"}),
}
PERSON, MOST_ROWS = "zoe", 2
OTHERS = (("ann", FITS), ("ann", UNFIT), ("bob", UNFIT), ("cy", FITS), ("cy", FITS))


def job_of(form: str, path: Path, work: Path) -> Reduction:
    files = tuple(list_files([str(path)]))
    user = None if form.startswith("nameless") else "user"
    more: dict[str, Any] = {
        "files": files,
        "catalogue": Catalogue(("a", "b")),
        "key": SecretKey(bytes(range(32)), BitSource.SEEDED),
        "confidential": str(work),
        "people_vote": True,
    }
    if form.endswith("test"):
        columns: Any = ResponseColumns(user="user", item="item", correct="correct")
        if form.startswith("wide"):
            columns = WideColumns(user="user", items=("a", "b"))
        return ReduceResponses(columns=columns, max_answers=2, duplicates=Duplicates.REFUSE, **more)
    ranks: Any = RankColumns(user="user", item="item", rank="rank")
    if not form.startswith("long"):
        ranks = WideRankColumns(user=user, items=(("a", "a"), ("b", "b")))
    bounds = {"max_length": 2, "max_rankings": 1, "break_ties": False}
    return CountRankings(columns=ranks, contest=None, **bounds, **more)


def votes_of(form: str, rows: list[str], folder: Path, window: Window | None = None) -> np.ndarray:
    """The votes as the steps of a reduction count them, without the engine between the steps."""
    folder.mkdir()
    header = FORMS[form][0] if window is None else f"{FORMS[form][0]},{window.column}"
    (folder / "log.csv").write_text("\n".join([header, *rows, ""]))
    job = job_of(form, folder / "log.csv", folder / "work")
    files = tuple(replace(file, window=window) for file in job.files)
    kind = reduce.kind_of(replace(job, files=files))
    tally, waiting = Counter[str](), defaultdict(list)
    for split in kind.splits():
        for read in reduce.read_split(split):
            each = [kind.encode(read.rows, 0, split)]
            if read.timeless is not None:
                each.append(kind.votes_against(read.timeless, split))
            for found in each:
                tally.update(found.tally)
                for place, shuffle_block in (
                    kind.pack([found.rows], 3, None) if kind.meets_owners else ()
                ):
                    waiting[place].append(shuffle_block)
    for shuffle_blocks in waiting.values():
        for bounded in kind.bound(shuffle_blocks, None):
            tally.update(bounded.tally)
    return np.array([tally["people_fit"], tally["people_unfit"]])


def vote_by_hand(form: str, kinds: tuple[str, ...]) -> np.ndarray:
    """One person's vote: fits, or does not, or none."""
    if not kinds:
        return np.array([0, 0])
    fit, unfit = kinds.count(FITS), kinds.count(UNFIT)
    if form == "long ranking":  # all rows are one ranking
        return np.array([0, 1]) if unfit or not fit else np.array([1, 0])
    return np.array([1, 0]) if fit and fit >= unfit else np.array([0, 1])


def bundles(form: str) -> Iterator[tuple[str, ...]]:
    """All that a person can write; of a file that names nobody a ranking is a person's."""
    most = 1 if form.startswith("nameless") else MOST_ROWS
    for size in range(most + 1):
        yield from combinations_with_replacement(FORMS[form][1], size)


@pytest.mark.parametrize("form", FORMS)
def test_each_person_votes_once_and_moves_the_votes_by_no_more_than_is_stated(form, tmp_path):
    lines = FORMS[form][1]
    others = [lines[kind].format(who) for who, kind in OTHERS]
    found: dict[tuple[str, ...], np.ndarray] = {}
    for number, bundle in enumerate(bundles(form)):
        own = [lines[kind].format(PERSON) for kind in bundle]
        found[bundle] = votes_of(form, [*others, *own], tmp_path / str(number))
    alone = np.array([3, 2] if form.startswith("nameless") else [2, 1])
    if form == "long ranking":  # one of ann's two rows does not fit
        alone = np.array([1, 2])
    for bundle, votes in found.items():
        np.testing.assert_array_equal(
            votes, alone + vote_by_hand(form, bundle), err_msg=str(bundle)
        )
    for adjacency in Adjacency:
        params = PrivacyParams(
            unit=Unit.USER, adjacency=adjacency, epsilon=1.0, max_contributions=1, look=0.1
        )
        replaced = adjacency is Adjacency.REPLACE_ONE
        against = [each for each in found if each] if replaced else [()]
        moved = max(
            int(np.abs(found[one] - found[other]).sum())
            for one in found
            if one
            for other in against
        )
        assert moved == votes_sensitivity(params).l1


@pytest.mark.parametrize("form", [form for form in FORMS if not form.startswith("nameless")])
def test_rows_that_name_nobody_have_no_vote(form, tmp_path):
    lines = FORMS[form][1]
    named = [lines[FITS].format("ann"), lines[UNFIT].format("bob")]
    nobodys = [line.format("") for line in lines.values()] * 3
    votes = votes_of(form, [*named, *nobodys, "no row"], tmp_path / "rows")
    assert votes.tolist() == [1, 1]


@pytest.mark.parametrize("form", FORMS)
def test_a_row_whose_time_cannot_be_read_does_not_fit(form, tmp_path):
    """Its person is named; rows of other nights have no vote, whatever they say."""
    lines = FORMS[form][1]
    timed = {"2026-11-03 10:00": (FITS, "ann"), "11/3/2026": (FITS, "bob"), "": (FITS, "cy")}
    timed["2026-11-04"] = (UNFIT, "eve")
    rows = [f"{lines[kind].format(who)},{time}" for time, (kind, who) in timed.items()]
    window = Window.of("at", date(2026, 11, 3), ZoneInfo("UTC"))
    votes = votes_of(form, rows, tmp_path / "rows", window)
    assert votes.tolist() == [1, 2]


@pytest.mark.parametrize("form", ["long ranking", "long test"])
def test_counts_are_the_same_with_votes_beside_them(form, tmp_path):
    lines = FORMS[form][1]
    text = [lines[kind].format(f"p{k}") for k in range(30) for kind in (FITS, UNFIT, FITS)]
    (tmp_path / "log.csv").write_text("\n".join([FORMS[form][0], *text, ""]))
    job = job_of(form, tmp_path / "log.csv", tmp_path / "with")
    reduce.run(job)
    reduce.run(replace(job, people_vote=False, confidential=str(tmp_path / "without")))
    with (
        np.load(tmp_path / "with/exact.npz") as one,
        np.load(tmp_path / "without/exact.npz") as two,
    ):
        assert {name: one[name].tolist() for name in one} == {
            name: two[name].tolist() for name in two
        }
    assert "people_fit" not in read_tally(str(tmp_path / "without"))
    fit = 0 if form == "long ranking" else 30  # two of three rows do; of a ranking all must
    assert read_votes(str(tmp_path / "with"), Unit.USER).tolist() == [fit, 30 - fit]
