"""Names that people write: their normal form, the bound of each person, and parts that add up."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from hushrank.privacy.discovered_names import ONE
from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.transforms.common.catalogue import UNKNOWN, Catalogue
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.common.written_names import NameRules, require_pattern, shown_name
from hushrank.transforms.comparisons.mentions import (
    Mentions,
    NameWeightsFn,
    mentions_of_blob,
    mentions_of_rows,
    rows_of_lists,
)

HASH = KeyedHash(bytes(range(32)))
RULES = NameRules()


def written(*names: str | None) -> list[str | None]:
    found = RULES.names(pa.array(names, pa.string())).to_pylist()
    return [None if each is None else shown_name(each) for each in found]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("  Green \t\u00a0 Tea ", "green tea"),
        ("Cafe\u0301", "café"),
        ("CAFÉ", "café"),
        ("\u00c5ngstr\u00f6m", "ångström"),
        ("A\u030angstro\u0308m", "ångström"),
        ("한국", "한국"),
        ("7", "7"),
        ("", None),
        (" N/A ", None),
        ("a\u200bb", None),
        ("a\u202eb", None),
        ("Tea \u2615\ufe0f", "tea \u2615"),
        ("a\u0378b", None),  # no character yet
        ("a\u3164b", None),
        ("\u2800", None),
        ("a\U000e0141b", None),
        ("x" * 80, "x" * 80),
        ("x" * 81, None),
        (None, None),
    ],
)
def test_a_text_has_one_normal_form_or_is_no_name(text, name):
    assert written(text) == [name]


def test_denied_texts_are_no_names_however_they_are_written():
    rules = NameRules(("@", "^caf\u00e9$", "Secret"))
    texts = pa.array(["me@x.org", "CAFE\u0301", "café au lait", "a SECRET"])
    assert rules.names(texts).is_valid().to_pylist() == [False, False, True, False]


def test_a_pattern_that_is_none_is_refused():
    require_pattern("[0-9]{6}")
    with pytest.raises(ValueError, match="is no pattern"):
        require_pattern("(")


def test_rows_are_matched_with_found_names_by_the_same_rules_and_never_by_position():
    catalogue = Catalogue(("café", "tea"), written=RULES)
    texts = ["Cafe\u0301", " TEA", "0", "1", "coffee"]
    for column in (pa.array(texts), pa.array(texts).dictionary_encode()):
        assert catalogue.codes(column).tolist() == [0, 1, UNKNOWN, UNKNOWN, UNKNOWN]
    assert catalogue.codes(pa.array([0, 1])).tolist() == [UNKNOWN, UNKNOWN]
    assert Catalogue(("7", "tea"), written=RULES).codes(pa.array([7, 0])).tolist() == [0, UNKNOWN]


def mentions(people: dict[str, list[str]], *, coded: bool = False) -> Mentions:
    rows = [(user, name) for user, names in people.items() for name in names]
    name = pa.array([name for _, name in rows])
    user = pa.array([user for user, _ in rows])
    batch = pa.RecordBatch.from_pydict(
        {"user": user, "item": name.dictionary_encode() if coded else name}
    )
    return mentions_of_rows(batch, "user", ["item"], RULES, HASH)


def weights(found: Mentions, most: int) -> dict[str, int]:
    table = found.bounded(most).weighted()
    return dict(zip(*(table[name].to_pylist() for name in ("name", "weight")), strict=True))


@pytest.mark.parametrize("coded", [False, True])
def test_a_person_shares_weight_among_distinct_names(coded):
    people = {"a": ["tea", "TEA", " tea"], "b": ["tea", "mate", "tea"], "c": []}
    half = math.isqrt(ONE**2 // 2)
    assert weights(mentions(people, coded=coded), 20) == {"tea": ONE + half, "mate": half}


def test_lists_of_names_are_mentions_of_their_person():
    lists = [["tea", "TEA", "mate"], None, ["tea"], []]
    column = pa.array(lists, pa.list_(pa.string()))
    batch = pa.RecordBatch.from_pydict({"user": ["a", "a", "b", None], "named": column})
    found = mentions_of_rows(rows_of_lists(batch, "user", "named"), "user", ["named"], RULES, HASH)
    half = math.isqrt(ONE**2 // 2)
    assert weights(found, 20) == {"tea": ONE + half, "mate": half}


def test_rows_of_nobody_and_cells_without_a_name_are_left_out():
    batch = pa.RecordBatch.from_pydict({"user": ["a", None, ""], "item": [None, "tea", "tea"]})
    assert len(mentions_of_rows(batch, "user", ["item"], RULES, HASH)) == 0


@pytest.mark.parametrize("most", [1, 3, 20])
def test_a_persons_names_are_bounded_and_their_squares_add_up_to_one(most):
    found = mentions({"a": [f"name {k}" for k in range(50)]}).bounded(most)
    told = weights(found, most)
    assert len(told) == most
    assert sum(each**2 for each in told.values()) <= ONE**2


@pytest.mark.parametrize("most", [1, 4])
def test_what_is_kept_does_not_depend_on_how_rows_are_cut(most):
    """Bounds are enforced on each part already, and again where the parts meet."""
    rng = np.random.default_rng(5)
    people = {f"p{k}": [f"n{i}" for i in rng.integers(0, 30, 12)] for k in range(25)}
    whole = weights(mentions(people), most)
    parts = [
        mentions({user: names[start::3] for user, names in people.items()}).bounded(most)
        for start in range(3)
    ]
    assert weights(Mentions.concatenated(parts), most) == whole
    packed = [blob for part in parts for blob in part.blobs(4)]
    tables = []
    for place in range(4):
        blobs = [mentions_of_blob(blob) for partition, _, blob in packed if partition == place]
        assert all(len(blob) % 8 == 0 for *_, blob in packed)
        if blobs:
            tables.append(Mentions.concatenated(blobs).bounded(most).weighted())
    total = NameWeightsFn(1000).merge_accumulators(tables)
    assert dict(zip(*(total[n].to_pylist() for n in ("name", "weight")), strict=True)) == whole


def test_the_choice_is_by_chance():
    """Of two names each is kept by about half of the people; wrong with probability 1e-6."""
    people = {f"p{k}": ["one", "two"] for k in range(4_000)}
    told = weights(mentions(people), 1)
    assert abs(told["one"] / ONE - 2_000) < 5 * math.sqrt(1_000)


def test_more_names_than_memory_holds_are_refused_in_words():
    table = mentions({"a": ["x", "y", "z"]}).bounded(20).weighted()
    assert len(NameWeightsFn(3).merge_accumulators([table])) == 3
    with pytest.raises(InputError, match="more than 2 distinct names"):
        NameWeightsFn(2).add_input(NameWeightsFn(2).create_accumulator(), table)
