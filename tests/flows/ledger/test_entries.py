import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.flows.errors import LedgerError
from hushrank.flows.ledger.entries import (
    LINE_START,
    Chain,
    Commit,
    Draw,
    Open,
    Reserve,
    Unsafe,
    read_chain,
    write_lines,
)
from hushrank.privacy.accounting import Spend, epsilon_of
from hushrank.privacy.units import Adjacency, Unit

EMPTY = read_chain(b"", "ledger")
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
OPEN = Open(
    epsilon=10, delta=1e-6, refresh="monthly", unit=Unit.USER, adjacency=Adjacency.REPLACE_ONE
)
EVENTS = [
    OPEN,
    Reserve(release_id="a", attempt=1, spend=Spend(epsilon=0.1 + 0.2), config_hash="c0ffee"),
    Draw(release_id="a", attempt=1),
    Commit(release_id="a", attempt=1),
    Unsafe(release_id="b", why='no "noise",\nas ordered: ü\u2028'),
]
RESTORE = (
    "Put back an unchanged copy of the ledger and never edit it;"
    " without a copy, count this budget as spent."
)


def lines_of(events, chain: Chain = EMPTY) -> bytes:
    return write_lines(chain, events, population="campus", operator="anna", time=NOON)


LEDGER = lines_of(EVENTS)


def refusal(content: bytes) -> str:
    with pytest.raises(LedgerError) as caught:
        read_chain(content, "l.jsonl")
    return str(caught.value)


def test_entries_come_back_as_they_were_written():
    chain = read_chain(LEDGER, "l.jsonl")
    assert [entry.what for entry in chain.entries] == EVENTS
    assert [entry.seq for entry in chain.entries] == [1, 2, 3, 4, 5]
    assert {(entry.population, entry.operator, entry.time) for entry in chain.entries} == {
        ("campus", "anna", NOON)
    }


def test_a_ledger_written_in_one_go_is_the_one_written_line_by_line():
    content = b""
    for event in EVENTS:
        content += lines_of([event], read_chain(content, "l.jsonl"))
    assert content == LEDGER


def test_a_line_is_one_flat_json_object():
    fields = json.loads(LEDGER.splitlines()[1])
    assert (
        fields.items()
        >= {
            "hushrank_ledger": 1,
            "seq": 2,
            "time": "2026-11-21T12:00:00Z",
            "population": "campus",
            "operator": "anna",
            "event": "reserve",
            "release_id": "a",
            "attempt": 1,
            "config_hash": "c0ffee",
        }.items()
    )
    nothing = {"delta": 0.0, "rho": None, "l2_squared": 1}
    assert fields["spend"] == {"epsilon": 0.1 + 0.2, **nothing}
    assert fields["previous"] == json.loads(LEDGER.splitlines()[0])["hash"]


def test_gaussian_noise_of_before_is_read_as_that_of_the_least_sensitivity():
    before = {"epsilon": 0.0, "delta": 0.0, "rho": 0.1}
    entry = Reserve(release_id="a", attempt=1, spend=before, config_hash="c0ffee")
    assert entry.spend == Spend(rho=0.1, l2_squared=1)
    for more in (2, 26, 10**6):  # whatever it was, it costs no more than that
        known = Spend(rho=0.1, l2_squared=more)
        assert epsilon_of(known, 1e-6) < epsilon_of(entry.spend, 1e-6)


def test_every_line_begins_alike():
    assert all(line.startswith(LINE_START) for line in LEDGER.splitlines())


@given(place=st.integers(0, len(LEDGER) - 1), byte=st.integers(0, 255))
def test_any_changed_byte_is_found(place, byte):
    changed = LEDGER[:place] + bytes([byte]) + LEDGER[place + 1 :]
    if changed != LEDGER:
        assert "l.jsonl: line " in refusal(changed)


@given(permutation=st.permutations(range(5)), kept=st.integers(1, 5))
def test_any_removed_or_moved_line_is_found_unless_it_is_the_end(permutation, kept):
    lines = LEDGER.splitlines(keepends=True)
    order = permutation[:kept]
    content = b"".join(lines[index] for index in order)
    if order == list(range(kept)):
        assert len(read_chain(content, "l.jsonl").entries) == kept
    else:
        assert "does not follow the line above it" in refusal(content)


@pytest.mark.parametrize("place", range(2, 5))
def test_a_line_of_another_ledger_is_found_though_its_number_and_its_hash_fit(place):
    """A cheaper release in line 2: every later line holds the hash of the one above it."""
    cheaper = EVENTS[1].model_copy(update={"spend": Spend(epsilon=0.01)})
    other = lines_of([OPEN, cheaper, *EVENTS[2:]]).splitlines(keepends=True)
    spliced = [*other[:place], *LEDGER.splitlines(keepends=True)[place:]]
    told = refusal(b"".join(spliced))
    assert f"l.jsonl: line {place + 1} does not follow the line above it" in told


def test_the_refusal_names_the_line_and_what_to_do():
    lines = LEDGER.splitlines(keepends=True)
    edited = lines[1].replace(b"0.30000000000000004", b"0.1")
    assert edited != lines[1]
    assert refusal(b"".join([lines[0], edited, *lines[2:]])) == (
        f"l.jsonl: line 2 was changed after it was written: its hash does not match. {RESTORE}"
    )
    assert refusal(lines[0] + lines[2]) == (
        "l.jsonl: line 2 does not follow the line above it: a line was removed, added or moved."
        f" {RESTORE}"
    )
    assert refusal(lines[0] + lines[1][40:] + lines[2]) == (
        f"l.jsonl: line 2 is damaged: it is not an entry of a ledger. {RESTORE}"
    )


@pytest.mark.parametrize(
    "content", [b"user,left,right\n1,a,b\n", b"\n", b"{}\n", b"[1]\n", b"\x89PNG\x00", b"12"]
)
def test_another_file_is_not_taken_for_a_ledger(content):
    assert refusal(content) == (
        "l.jsonl: line 1 is not an entry of a hushrank ledger. If this file never was a ledger,"
        f" correct ledger.path. {RESTORE}"
    )


def test_another_version_is_refused():
    newer = LEDGER.replace(b'{"hushrank_ledger":1,', b'{"hushrank_ledger":2,', 1)
    assert refusal(newer) == (
        "l.jsonl: line 1 is of ledger version 2, but this hushrank reads version 1."
        " Use the hushrank that wrote it, or a newer one."
    )


def test_a_valid_hash_does_not_excuse_a_wrong_field():
    wrong = OPEN.model_copy(update={"refresh": "hourly"})
    assert refusal(lines_of([wrong])) == (
        f"l.jsonl: line 1 is not an entry of a ledger: see what.open.refresh. {RESTORE}"
    )


def test_infinity_is_never_written():
    with pytest.raises(ValueError, match="not JSON compliant"):
        lines_of(
            [Reserve(release_id="a", attempt=1, spend=Spend(epsilon=float("inf")), config_hash="")]
        )
