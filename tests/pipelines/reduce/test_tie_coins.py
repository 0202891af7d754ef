"""Under one key, ties of other people fall as they did, whatever row is added, removed or moved.

Small logs are counted by Beam's stand-in, as a run counts them, and on Beam where they are cut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hushrank.pipelines.inspect.inspect_log import look
from hushrank.pipelines.reduce import reduce, reduce_rankings
from hushrank.pipelines.reduce.rankings_job import CountRankings
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import BitSource
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.rankings.ranking_columns import RankColumns, WideRankColumns
from hushrank.transforms.storage import preflib, split
from hushrank.transforms.storage.files import list_files
from tests.flows.small_jobs import SMALL_JOBS
from tests.pipelines.reduce.test_reduce_rankings import assert_same
from tests.statistics import FALSE_POSITIVE_RATE, binomial_p_value

ITEMS = ("ants", "bees", "cats", "dogs")
CELLS = tuple((name, name) for name in ITEMS)
LINES = 40
Lines = list[str]


@dataclass(frozen=True)
class Form:
    """How rankings are written: `line` is a ranking of person n whose items have these ranks."""

    columns: RankColumns | WideRankColumns
    ending: str
    header: str
    line: Callable[[int, tuple[int, ...]], str]
    broken: tuple[str, ...]

    def write(self, path: Path, lines: Lines) -> Path:
        path.parent.mkdir(exist_ok=True, parents=True)
        header = self.header.format(voters=1_000_000)
        path.write_text("\n".join([header, *lines, ""]))
        return path


def _ballot(_: int, ranks: tuple[int, ...]) -> str:
    groups = [[k + 1 for k, own in enumerate(ranks) if own == rank] for rank in sorted({*ranks})]
    return "1: " + ",".join("{" + ",".join(map(str, group)) + "}" for group in groups)


NAMED = Form(
    WideRankColumns(items=CELLS, user="user"),
    "csv",
    ",".join(("user", *ITEMS)),
    lambda n, ranks: ",".join(map(str, (f"p{n}", *ranks))),
    ("eve,1,2,3,4,5", "eve,1,x,3,4", "eve,,,,", ",1,1,2,2", "eve", '"', "eve,1,inf,1,1"),
)
NAMELESS = Form(
    WideRankColumns(items=CELLS),
    "csv",
    ",".join(ITEMS),
    lambda _, ranks: ",".join(map(str, ranks)),
    ("1,2,3,4,5", "1,x,3,4", ",,,", "1", '"', "1,inf,1,1"),
)
BALLOTS = Form(
    RankColumns(user="user", item="item", rank="rank"),
    "toi",
    "# DATA TYPE: toi\n# NUMBER VOTERS: {voters}\n# NUMBER ALTERNATIVES: 4\n"
    + "\n".join(f"# ALTERNATIVE NAME {k}: {name}" for k, name in enumerate(ITEMS, 1)),
    _ballot,
    ("1: 1,5", "x", "0: 1", "1: {1,1}", "# a note", "9999999: {1,2}", "3:"),
)
FORMS = {"named": NAMED, "nameless": NAMELESS, "ballots": BALLOTS}


def ranks_of(number: int) -> tuple[int, ...]:
    """Ranks of person `number`: many ties, and each ranking several times."""
    return tuple((number // 2**k) % 2 + 1 for k in range(len(ITEMS)))


def good_lines(form: Form) -> Lines:
    return [form.line(n, ranks_of(n % 11)) for n in range(LINES)]


def a_job(form: Form, paths: list[Path], work: Path, key: int = 0, **more: Any) -> CountRankings:
    return CountRankings(
        files=tuple(list_files([str(path) for path in paths])),
        columns=form.columns,
        catalogue=Catalogue(ITEMS),
        key=SecretKey(bytes([key] * 32), BitSource.SYSTEM),
        confidential=str(work),
        **({"contest": None, "max_length": 4, "max_rankings": 1, "break_ties": True} | more),
    )


def counted(
    form: Form, paths: list[Path], work: Path, *, on_beam: bool = False, **more: Any
) -> dict[str, np.ndarray]:
    run = reduce.run if on_beam else SMALL_JOBS.run
    run(a_job(form, paths, work, **more))
    with np.load(work / "exact.npz") as stored:
        return dict(stored)


@pytest.fixture
def count(tmp_path):
    """Count the rankings in some lines."""
    number = iter(range(1000))

    def run(form: Form, lines: Lines, name: str = "a", **more: Any) -> dict[str, np.ndarray]:
        folder = tmp_path / f"{next(number)}"
        path = form.write(folder / f"{name}.{form.ending}", lines)
        return counted(form, [path], folder / "work", **more)

    return run


def is_one_ranking(wins: np.ndarray, ranks: tuple[int, ...]) -> bool:
    """Whether `wins` are those of one strict ranking that agrees with `ranks` where they differ."""
    each = all(wins[a, b] + wins[b, a] == 1 for a, b in combinations(range(len(ranks)), 2))
    agrees = all(wins[a, b] == 1 for a, b in product(range(4), repeat=2) if ranks[a] < ranks[b])
    order = sorted(wins.sum(axis=1).tolist()) == [0, 1, 2, 3]
    return bool(each and agrees and order and (wins >= 0).all())


@pytest.mark.parametrize("form", FORMS)
def test_a_row_that_breaks_a_rule_changes_no_coin(form, count):
    form = FORMS[form]
    lines = good_lines(form)
    expected = count(form, lines)
    assert expected["lengths"].sum() == LINES
    scattered = list(lines)
    for number, broken in enumerate(form.broken):
        scattered.insert(number * 5, broken)
    assert_same(count(form, scattered), expected)
    assert_same(count(form, [*form.broken[:1], *lines]), expected)


@pytest.mark.parametrize("form", FORMS)
def test_a_row_that_is_added_or_removed_changes_its_own_contribution_alone(form, count):
    """Copies of the first two rankings that are added are there already, of the others none."""
    form = FORMS[form]
    lines = good_lines(form)
    before = count(form, lines)
    for place, ranks in (
        (0, (1, 1, 1, 1)),
        (9, (2, 2, 1, 1)),
        (0, (1, 2, 2, 3)),
        (20, (1, 2, 3, 4)),
    ):
        more = count(form, [*lines[:place], form.line(1000, ranks), *lines[place:]])
        assert is_one_ranking(more["wins"] - before["wins"], ranks)
    for place in (0, LINES // 2):
        less = count(form, [*lines[:place], *lines[place + 1 :]])
        assert is_one_ranking(before["wins"] - less["wins"], ranks_of(place % 11))


@pytest.mark.parametrize("form", FORMS)
def test_files_their_names_and_order_and_how_they_are_cut_do_not_matter(
    form, tmp_path, monkeypatch, count
):
    form = FORMS[form]
    lines = good_lines(form)
    expected = count(form, lines)
    other_key = count(form, lines, key=1)
    assert (other_key["wins"] != expected["wins"]).any()
    monkeypatch.setattr(reduce_rankings, "PARTITION_ITEMS", 8)
    monkeypatch.setattr(reduce_rankings, "CROWD", 1)  # partitions come in slices, too
    monkeypatch.setattr(reduce_rankings, "BLOCK_RANKINGS", 3)
    monkeypatch.setattr(reduce, "CHUNK_ROWS", 5)
    monkeypatch.setattr(split, "BLOCK_BYTES", 64)
    monkeypatch.setattr(split, "SPAN_BYTES", 100)
    monkeypatch.setattr(preflib, "BLOCK_BYTES", 64)
    monkeypatch.setattr(preflib, "BATCH_ROWS", 7)
    for files in (1, 3):
        order = np.random.default_rng(files).permutation(LINES)
        folder = tmp_path / f"in {files}"
        for number, part in enumerate(np.array_split(order, files)):
            path = folder / f"{9 - number}.{form.ending}"
            form.write(path, [lines[k] for k in part])
        found = counted(form, [folder], tmp_path / f"work {files}", on_beam=True)
        assert_same(found, expected)


def test_a_line_for_several_people_is_as_many_lines(count):
    one_by_one = count(BALLOTS, ["1: {1,2},3"] * 3 + ["1: {4,3,1}"] * 2)
    for lines in (["3: {1,2},3", "2: {4,3,1}"], ["1: {2,1},3", "2: {1,3,4}", "2: {1,2}, 3"]):
        assert_same(count(BALLOTS, lines), one_by_one)


def test_ballots_beside_a_file_that_names_people(tmp_path):
    """Somebody who takes the name of a ballot does not meet it."""
    ballots = BALLOTS.write(tmp_path / "x.toi", ["2: {1,2},3", "1: 4"])
    alone = counted(BALLOTS, [ballots], tmp_path / "alone")
    named = tmp_path / "y.csv"
    named.write_text(f"user,item,rank\n{ballots}#1,ants,7\n{ballots}#1,bees,8\nbob,cats,1\n")
    beside = counted(BALLOTS, [named], tmp_path / "beside")
    both = counted(BALLOTS, [ballots, named], tmp_path / "both")
    assert_same(both, {name: alone[name] + beside[name] for name in alone})
    assert alone["lengths"].sum() == 3
    assert beside["lengths"].sum() == 2


@pytest.mark.parametrize("form", ["nameless", "ballots"])
def test_equal_rankings_of_people_without_names_have_own_coins(form, count):
    """One coin for all copies would give every win to one item."""
    people, form = 2_000, FORMS[form]
    wins = count(form, [form.line(0, (1, 1, 2, 2))] * people)["wins"]
    assert wins[0, 2] == wins[1, 3] == people
    for first, second in ((0, 1), (2, 3)):
        assert binomial_p_value(int(wins[first, second]), people, 0.5) > FALSE_POSITIVE_RATE
        assert binomial_p_value(int(wins[first, second]), people, 0.62) < FALSE_POSITIVE_RATE
    assert binomial_p_value(people, people, 0.5) < FALSE_POSITIVE_RATE


def test_equal_rankings_of_one_person_have_own_coins_within_the_bound(count):
    """Of one ranking given by 300 people three times each, all copies count."""
    people = 300
    lines = [NAMED.line(n % people, (1, 1, 2, 3)) for n in range(4 * people)]
    found = count(NAMED, lines, max_rankings=3)
    wins = found["wins"]
    assert found["lengths"].sum() == 3 * people
    assert binomial_p_value(int(wins[0, 1]), 3 * people, 0.5) > FALSE_POSITIVE_RATE
    assert binomial_p_value(int(wins[0, 1]), 3 * people, 0.65) < FALSE_POSITIVE_RATE
    copies = count(NAMED, [NAMED.line(7, (1, 1, 2, 3))] * 30, max_rankings=30)
    assert 0 < copies["wins"][0, 1] < 30  # for all keys but one in 2^29; this one is fixed


@pytest.mark.parametrize("form", FORMS)
def test_what_inspect_shows_is_what_a_run_counts(form, tmp_path):
    form = FORMS[form]
    path = form.write(tmp_path / f"x.{form.ending}", [*good_lines(form), *form.broken])
    job = a_job(form, [path], tmp_path / "work")
    found = look(job)
    assert (found.contributions, found.kept, found.dropped) == (LINES, LINES, 0)
    assert not found.refused
    assert found.appearances.tolist() == [LINES] * 4
    assert found.people == (None if form is NAMELESS else {1: LINES})


@pytest.mark.parametrize("ties", [True, False])
def test_ballots_that_break_a_rule_of_the_job_are_set_aside(ties, tmp_path):
    lines = ["2: {1,2},4", "3: 1,2,3,4", "1: 3", "1: 4"]
    path = BALLOTS.write(tmp_path / "x.toi", lines)
    more = {"max_length": 3, "break_ties": ties, "catalogue": Catalogue((*ITEMS[:3], "emus"))}
    job = a_job(BALLOTS, [path], tmp_path / "work")
    job = CountRankings(**{n: getattr(job, n) for n in job.__dataclass_fields__} | more)
    reduce.run(job)
    with np.load(tmp_path / "work" / "exact.npz") as stored:
        assert stored["lengths"].sum() == (6 if ties else 4)
