"""Names and positions become codes; whatever is neither becomes UNKNOWN, never another item."""

from __future__ import annotations

import pickle
import re
import unicodedata

import pyarrow as pa
import pytest

from hushrank.transforms.common.catalogue import UNKNOWN, Catalogue

CITIES = Catalogue(("Paris", "St.Gallen", "São Paulo"))
NUMBERED = Catalogue(("101", "205", "-3"))
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
UNSIGNED = [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]


def codes(catalogue: Catalogue, values, type_=None) -> list[int]:
    return catalogue.codes(pa.array(values, type_)).tolist()


@pytest.mark.parametrize(
    "type_",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.uint32(), pa.large_string()),
    ],
)
def test_text_means_the_name_or_else_the_position(type_):
    texts = ["St.Gallen", " Paris\t", "São Paulo", "paris", "", "2", "3", "-1", None]
    assert codes(CITIES, texts, type_) == [1, 0, 2, UNKNOWN, UNKNOWN, 2, UNKNOWN, UNKNOWN, UNKNOWN]


@pytest.mark.parametrize("type_", [pa.binary(), pa.large_binary()])
def test_bytes_are_utf8_text(type_):
    texts = ["São Paulo".encode(), "São Paulo".encode("latin-1"), b" Paris ", None]
    assert codes(CITIES, texts, type_) == [2, UNKNOWN, 0, UNKNOWN]


@pytest.mark.parametrize("type_", INTEGERS + UNSIGNED)
def test_integers_are_positions_where_no_name_is_an_integer(type_):
    assert codes(CITIES, [2, 0, 1], type_) == [2, 0, 1]
    assert codes(CITIES, [2, 3, 100, None], type_) == [2, UNKNOWN, UNKNOWN, UNKNOWN]


@pytest.mark.parametrize("type_", INTEGERS)
def test_negative_integers_are_no_positions(type_):
    assert codes(CITIES, [-1, 1, -3], type_) == [UNKNOWN, 1, UNKNOWN]


@pytest.mark.parametrize("type_", INTEGERS[1:])
def test_integers_are_names_where_names_are_integers(type_):
    found = codes(NUMBERED, [205, -3, 101, 1, None], type_)
    assert found == [1, 2, 0, UNKNOWN, UNKNOWN]
    assert codes(NUMBERED, ["205", "0", "-3"]) == [1, UNKNOWN, 2]


def test_integers_above_the_signed_range_are_not_taken_for_negative_names():
    assert codes(NUMBERED, [2**64 - 3, 101, 2**63 + 205], pa.uint64()) == [UNKNOWN, 0, UNKNOWN]
    large = Catalogue((str(2**53), str(2**53 + 1)))
    assert codes(large, [2**53 + 1, 2**53], pa.uint64()) == [1, 0]


def test_where_some_names_are_integers_others_have_no_position():
    mixed = Catalogue(("0", "1", "Paris"))
    assert codes(mixed, [0, 1, 2]) == [0, 1, UNKNOWN]
    assert codes(mixed, ["0", "Paris", "2"]) == [0, 2, UNKNOWN]


def test_numbers_that_are_not_written_as_integers_are_names():
    odd = Catalogue(("007", "1.0", "99999999999999999999"))
    assert codes(odd, ["007", "1.0", "99999999999999999999", "7"]) == [0, 1, 2, UNKNOWN]
    assert codes(odd, [0, 7, 2]) == [0, UNKNOWN, 2]


def test_a_count_names_items_by_position():
    assert Catalogue.of_count(3).names == ("0", "1", "2")
    assert codes(Catalogue.of_count(3), [2, 0, 3]) == [2, 0, UNKNOWN]


def test_blanks_around_a_name_in_the_catalogue_do_not_count():
    assert codes(Catalogue((" Paris ", "Bern")), ["Paris", " Paris "]) == [0, 0]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_an_accent_may_be_a_character_of_its_own_in_either_place(form):
    names = ("Müller", "Weiß", "Zoë")
    of_files = Catalogue(tuple(unicodedata.normalize(form, name) for name in names))
    for written in ("NFC", "NFD"):
        rows = [unicodedata.normalize(written, name) for name in names]
        assert codes(of_files, rows) == [0, 1, 2]
        assert codes(of_files, [row.encode() for row in rows]) == [0, 1, 2]
    with pytest.raises(ValueError, match="occurs 2 times"):
        Catalogue(("Zoë", unicodedata.normalize("NFD", "Zoë")))


def test_a_dictionary_with_as_many_values_as_its_index_type_can_number():
    many = Catalogue(tuple(f"item {code}" for code in range(128)))
    column = pa.DictionaryArray.from_arrays(
        pa.array([127, None, 0], pa.int8()), pa.array(many.names)
    )
    assert many.codes(column).tolist() == [127, UNKNOWN, 0]


def test_a_slice_and_an_empty_column():
    column = pa.array(["Paris", "Bern", "St.Gallen", None])
    assert CITIES.codes(column[2:]).tolist() == [1, UNKNOWN]
    assert CITIES.codes(column[:0]).tolist() == []
    assert CITIES.codes(pa.array([], pa.int64())).tolist() == []


def test_a_catalogue_that_was_used_can_be_sent_to_workers():
    assert codes(CITIES, ["Paris"]) == [0]
    sent = pickle.loads(pickle.dumps(CITIES))
    assert sent == CITIES
    assert codes(sent, ["Paris"]) == [0]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((), "a ranking needs at least 2 items, got 0"),
        (("a",), "a ranking needs at least 2 items, got 1"),
        (("a", "  "), "an item's name is empty"),
        (("a", "b", "a"), "item a occurs 2 times; each item must have a name of its own"),
        (("a", " a"), "item a occurs 2 times; each item must have a name of its own"),
    ],
)
def test_a_catalogue_that_breaks_a_rule_is_refused(names, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Catalogue(names)
