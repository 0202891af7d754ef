"""One name is one person and one event, whatever the type of its column."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.transforms.common import encode
from hushrank.transforms.common.catalogue import Catalogue, Naming, integers_in, integers_of_floats
from hushrank.transforms.common.encode import encode_comparisons, hashes_by_type, pseudonyms
from hushrank.transforms.common.schema import ComparisonColumns

HASH = KeyedHash(bytes(range(32)))
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
TEXTS = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.binary(),
    pa.large_binary(),
    pa.binary_view(),
]
VIEWS = (pa.string_view(), pa.binary_view())  # readers make other columns of them
TYPES = [
    *map(pa.type_for_alias, INTEGERS),
    *TEXTS,
    *(pa.dictionary(pa.int8(), kind) for kind in (pa.uint8(), pa.int64(), pa.string())),
]
SHARED = [0, 7, 10, 100, 127]  # in every type
EDGES = [-(2**63), -(2**63) + 1, -128, -10, -1, 9, 10**18, 10**19, 2**63 - 1, 2**63, 2**64 - 1]
OTHERS = [
    "007",
    "+7",
    "7.",
    "7.0",
    "7e0",
    "0x7",
    "-0",
    "-07",
    "-",
    "+0",
    "00",
    "-7-",
    "1_0",
    "٧",
    "18446744073709551616",
    "99999999999999999999",
    "-9223372036854775809",
    "123456789012345678901",
    "anna",
    "7a",
    "a7",
    "12:34567",
    "1234/678",
    "123456789a",
]
OTHERS += ["", " 7", "7 ", "7\n", "7\0"]
# What earlier versions made of 7 and of "7" under this key.
OLD_INTEGER = (4844160155212643684, 8263404446911696948)
OLD_TEXT = (17188345666411936662, 6836772089062083703)


def column_of(kind: pa.DataType, values: list[int]) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return column_of(kind.value_type, values).dictionary_encode()
    return pa.array(list(map(str, values))).cast(kind) if kind in TEXTS else pa.array(values, kind)


def hashes(column: pa.Array, naming: Naming = Naming.BARE) -> list[tuple[int, ...]]:
    return [tuple(each) for each in pseudonyms(column, HASH, naming).tolist()]


@pytest.mark.parametrize("naming", Naming)
def test_one_name_has_one_hash_whatever_its_type(naming):
    known = {tuple(hashes(column_of(kind, SHARED), naming)) for kind in TYPES}
    assert len(known) == 1
    assert len(set(known.pop())) == len(SHARED)


@pytest.mark.parametrize("naming", Naming)
def test_no_two_names_share_a_hash(naming):
    others = [each for each in OTHERS if naming is not Naming.BARE or each.strip() == each]
    as_text = hashes(pa.array([*map(str, EDGES), *others]), naming)
    assert len(set(as_text)) == len(EDGES) + len(others)
    signed = [each for each in EDGES if each < 2**63]
    unsigned = [each for each in EDGES if each >= 0]
    found = dict(zip(EDGES, as_text[: len(EDGES)], strict=True))
    assert hashes(pa.array(signed, pa.int64()), naming) == [found[each] for each in signed]
    assert hashes(pa.array(unsigned, pa.uint64()), naming) == [found[each] for each in unsigned]


def test_streams_of_earlier_versions_keep_their_pseudonyms():
    texts, integers = pa.array([*map(str, SHARED), "anna"]), pa.array(SHARED)
    assert (pseudonyms(texts, HASH, Naming.TEXTS) == hashes_by_type(texts, HASH)).all()
    assert (pseudonyms(integers, HASH) == hashes_by_type(integers, HASH)).all()
    assert hashes(pa.array([7]))[0] == OLD_INTEGER
    assert hashes(pa.array(["7"]), Naming.TEXTS)[0] == OLD_TEXT


@given(st.lists(st.text("+-0123456789 a", max_size=22), max_size=30), st.integers(0, 3))
def test_a_text_is_an_integer_only_as_a_computer_writes_it(texts, start):
    column = pa.array(["7", "x", "-1", *texts], pa.large_string()).cast(pa.large_binary())[start:]
    places, words, above = integers_in(column)
    written = [each.as_py().decode() for each in column]
    wanted = [
        (place, int(text))
        for place, text in enumerate(written)
        if re.fullmatch("0|-?[1-9][0-9]*", text) and -(2**63) <= int(text) < 2**64
    ]
    assert places.tolist() == [place for place, _ in wanted]
    assert words.tolist() == [number % 2**64 for _, number in wanted]
    assert above.tolist() == [number >= 2**63 for _, number in wanted]


def test_one_text_that_is_no_number_changes_the_name_of_nobody_else(monkeypatch):
    """As `pandas.read_csv` does, which makes all of a column text then."""
    numbers = np.arange(50)
    alone = hashes(pa.array(numbers))
    for at_once in (7, 1 << 17):  # names that are looked at together
        monkeypatch.setattr(encode, "AT_ONCE", at_once)
        for place in (0, 20, 50):
            texts = np.insert(numbers.astype(str).astype(object), place, "anna")
            with_anna = hashes(pa.array(texts))
            assert with_anna[:place] + with_anna[place + 1 :] == alone
            assert with_anna[place] not in alone


def test_nulls_leave_the_names_beside_them_as_they_are():
    for column in (pa.array(["7", None, "x", "-3"]), pa.array([7, None, 5, -3])):
        found = hashes(column)
        assert (found[0], found[3]) == tuple(hashes(pa.array([7, -3])))


@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind not in VIEWS], ids=str)
def test_events_are_one_whatever_their_type(kind):
    names = {"user": "who", "left": "a", "right": "b", "outcome": "y", "winner": None}
    columns = ComparisonColumns(**names, event="id")
    rows = {"a": [0] * 5, "b": [1] * 5, "y": [1] * 5}
    batch = pa.record_batch({"who": column_of(kind, SHARED), "id": column_of(kind, SHARED), **rows})
    found = encode_comparisons(batch, columns, Catalogue.of_count(2), HASH).rows
    wanted = pseudonyms(pa.array(SHARED), HASH)
    assert found.user is not None
    assert found.event is not None
    assert (found.user == wanted).all()
    assert (found.event == wanted).all()


@pytest.mark.parametrize(("kind", "digits"), [("f2", 11), ("f4", 24), ("f8", 53)])
def test_a_float_is_an_integer_only_if_it_is_no_rounding_of_another(kind, digits):
    most = 2.0**digits
    values = [7.0, -0.0, most - 1, 1 - most, None, np.nan, 7.5, most, -most, np.inf, -np.inf]
    null = np.array([value is None for value in values])
    column = pa.array(np.array([value or 0 for value in values], kind), mask=null)
    for each in (column, *([column.dictionary_encode()] if kind != "f2" else [])):
        integers, nameless = integers_of_floats(each)
        assert integers.to_pylist() == [7, 0, int(most) - 1, 1 - int(most), *[None] * 7]
        assert nameless.tolist() == [False] * 6 + [True] * 5
