"""Terms that belong to a key: what a run, a forger and two officers at once cannot do."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hushrank.flows.errors import LedgerError
from hushrank.flows.ledger.approval import changes_of, read_approved
from hushrank.flows.ledger.entries import Accept, read_chain, write_lines
from hushrank.flows.ledger.guards import Guards
from hushrank.flows.ledger.keys import KeySigner, load_signer, make_key, sealed
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.ledger.local_file import Snapshot
from hushrank.flows.ledger.operator import operator_name
from hushrank.flows.trust import recovery
from tests.ledgers import pure, release

Opened = Callable[..., Ledger]
WHY = "board of 3 May"


@pytest.fixture
def officer(tmp_path: Path) -> KeySigner:
    make_key(tmp_path / "officer.pem")
    return load_signer(tmp_path / "officer.pem")


@pytest.fixture
def job(officer: KeySigner) -> Guards:
    """What the YAML file of a job names: the public half."""
    return Guards(terms_key=officer.public)


@pytest.fixture
def office(job: Guards, officer: KeySigner) -> Guards:
    return replace(job, officer=officer)


def path_of(tmp_path: Path) -> Path:
    return tmp_path / "budget" / "ledger.jsonl"


def refusal(call: Callable[..., object], *arguments: object) -> str:
    with pytest.raises(LedgerError) as caught:
        call(*arguments)
    return str(caught.value)


def set_terms(ledger: Ledger, reason: str = WHY) -> bool:
    return ledger.set_terms(reason, ledger.book().account.terms)


def test_only_the_holder_opens_the_budget(tmp_path, opened: Opened, job: Guards, office: Guards):
    for call in (
        lambda: opened(job).reserve("a", pure(1)),
        lambda: opened(job).check(pure(1)),
        lambda: opened(job).record_unsafe("a", "why"),
        lambda: set_terms(opened(job)),
    ):
        assert job.terms_key.key_id in refusal(call)
    assert not path_of(tmp_path).exists()
    assert set_terms(opened(office))
    release(opened(job), "a", 1)
    assert opened(job).balance().remaining_epsilon == 9
    assert not set_terms(opened(office))  # as they are: nothing is written
    assert len(path_of(tmp_path).read_text().splitlines()) == 4


@pytest.mark.parametrize(
    "change", [{"epsilon": 1000.0}, {"epsilon": 1.0}, {"delta": 0.1}, {"refresh": None}]
)
@pytest.mark.parametrize("names_the_key", [True, False])
def test_a_run_cannot_change_the_terms_even_if_its_file_forgets_the_key(
    tmp_path, opened: Opened, job: Guards, office: Guards, change, names_the_key
):
    set_terms(opened(office))
    release(opened(job), "a", 1)
    before = path_of(tmp_path).read_bytes()
    edited = opened(job if names_the_key else Guards(), **change)
    for call in (
        lambda: edited.reserve("b", pure(1)),
        lambda: edited.check(pure(1)),
        lambda: edited.record_unsafe("b", "why"),
    ):
        assert "The terms belong to the holder of a key" in refusal(call)
    assert path_of(tmp_path).read_bytes() == before
    told = edited.balance()  # the recorded terms count, whatever the file says
    assert (told.total, told.remaining_epsilon) == (10, 9)


def test_the_holder_changes_the_total_and_everybody_sees_it(
    opened: Opened, job: Guards, office: Guards, officer: KeySigner
):
    set_terms(opened(office))
    assert set_terms(opened(office, epsilon=20.0), "second wave")
    ledger = opened(job, epsilon=20.0)
    release(ledger, "a", 15)
    first, second = ledger.balance().changes
    assert f"opened at epsilon 10, delta 0, monthly, by {operator_name()}" in first
    assert "changed from epsilon 10, delta 0, monthly to epsilon 20, delta 0, monthly" in second
    assert f"approved with key {officer.key_id}. Reason: second wave" in second
    assert [row.note for row in ledger.history() if row.state == "terms"] == [
        f"epsilon 10, delta 0, monthly: {WHY}",
        "epsilon 20, delta 0, monthly: second wave",
    ]


def test_another_population_of_the_ledger_is_opened_by_the_holder_alone(
    opened: Opened, job: Guards, office: Guards
):
    set_terms(opened(office))
    for guards in (job, Guards()):
        other = opened(guards, population="zoo")
        assert "zoo has no budget" in refusal(other.reserve, "z", pure(1))
    set_terms(opened(office, population="zoo"))
    release(opened(job, population="zoo"), "z", 1)


def test_terms_that_nobody_owned_are_taken_over(opened: Opened, job: Guards, office: Guards):
    release(opened(Guards()), "a", 1)
    assert "nobody has approved its terms" in refusal(opened(job).reserve, "b", pure(1))
    assert set_terms(opened(office))
    release(opened(job), "b", 1)
    assert [change[12:16] for change in opened(job).balance().changes] == ["left"]
    assert "The terms belong" in refusal(opened(Guards(), epsilon=11.0).reserve, "c", pure(1))


def test_the_holder_hands_the_terms_over(
    tmp_path, opened: Opened, job: Guards, office: Guards, officer: KeySigner
):
    make_key(tmp_path / "next.pem")
    heir = load_signer(tmp_path / "next.pem")
    set_terms(opened(office))
    grab = Guards(terms_key=heir.public, officer=heir)
    assert f"belong to key {officer.key_id}" in refusal(set_terms, opened(grab))
    assert set_terms(opened(Guards(terms_key=heir.public, officer=officer)))
    assert f"belong to key {heir.key_id}" in refusal(set_terms, opened(office, epsilon=20.0))
    assert f"ledger.terms_key is key {officer.key_id}" in refusal(opened(job).check, pure(1))
    assert set_terms(opened(grab, epsilon=20.0))
    release(opened(Guards(terms_key=heir.public), epsilon=20.0), "a", 15)


def test_a_key_of_runs_cannot_own_the_terms(tmp_path, signing: Guards):
    text = refusal(signing.with_officer, tmp_path / "key.pem")
    assert "which every run has" in text


def test_lines_may_be_signed_and_anchored_too(tmp_path, opened, signing, office, anchor):
    both = replace(signing, terms_key=office.terms_key, anchor=anchor)
    set_terms(opened(replace(both, officer=office.officer)))
    release(opened(both), "a", 1)
    set_terms(opened(replace(both, officer=office.officer), epsilon=20.0))
    assert opened(both, epsilon=20.0).balance().remaining_epsilon == 19


def rechained(content: bytes, change: Callable[[dict[str, object]], None]) -> bytes:
    """All lines, changed, with every hash computed anew; fields keep their order."""
    previous, made = "0" * 64, []
    for number, line in enumerate(content.splitlines(), start=1):
        fields = json.loads(line)
        del fields["hash"]
        fields |= {"previous": previous, "seq": number}
        change(fields)
        body = json.dumps(fields, separators=(",", ":"))
        previous = hashlib.sha256(body.encode()).hexdigest()
        made.append(f'{body[:-1]},"hash":"{previous}"}}\n')
    return "".join(made).encode()


def raised(fields: dict[str, object]) -> None:
    if "lifetime_epsilon" not in fields and fields["event"] in ("open", "terms"):
        fields["epsilon"] = 1000.0


def without_approval(fields: dict[str, object]) -> None:
    fields.pop("approval", None)
    raised(fields)


def excused(fields: dict[str, object]) -> None:
    if fields["event"] in ("open", "terms"):
        fields["reason"] = "the board asked for it"


def forged_ledgers(content: bytes, forger: KeySigner) -> Iterator[bytes]:
    """Ledgers that somebody without the officer's key makes of one that was raised and lowered."""
    for change in (raised, without_approval, excused):
        yield rechained(content, change)
    lines = content.splitlines(keepends=True)
    yield rechained(content + lines[1], lambda fields: None)  # the raise once more
    chain = read_chain(content, "x")
    what = chain.entries[1].what
    for event in (what, what.model_copy(update={"approval": ""}), Accept(why="lost")):
        for key in (None, lambda body: sealed(body, forger, "approval")):
            more = write_lines(
                chain,
                [event.model_copy(update={"approval": ""})],
                population="campus-choice",
                operator="mallory",
                time=chain.entries[-1].time,
                approve=key,
            )
            yield content + more


def test_a_forger_without_the_key_is_found(tmp_path, opened, office, job):
    set_terms(opened(office))
    set_terms(opened(office, epsilon=20.0), "second wave")
    set_terms(opened(office), "second wave was called off")
    content = path_of(tmp_path).read_bytes()
    assert len(read_approved(content, "x").entries) == 3
    make_key(tmp_path / "mallory.pem")
    made = list(forged_ledgers(content, load_signer(tmp_path / "mallory.pem")))
    assert len(made) == 10
    for forged in made:
        read_chain(forged, "x")  # the chain alone finds nothing
        assert "without a signature of key" in refusal(read_approved, forged, "x")
        path_of(tmp_path).write_bytes(forged)
        path_of(tmp_path).with_name("ledger.jsonl.length").write_text(f"{len(forged)}\n")
        for guards in (job, Guards()):
            assert "without a signature" in refusal(opened(guards).reserve, "a", pure(1))


def test_a_ledger_made_anew_without_the_officer_is_found(tmp_path, opened, office, job):
    release(opened(Guards(), epsilon=1000.0), "a", 1)
    assert "nobody has approved its terms" in refusal(opened(job, epsilon=1000.0).check, pure(1))
    make_key(tmp_path / "mallory.pem")
    mallory = load_signer(tmp_path / "mallory.pem")
    set_terms(opened(Guards(terms_key=mallory.public, officer=mallory), epsilon=1000.0))
    assert "ledger.terms_key is key" in refusal(opened(job, epsilon=1000.0).check, pure(1))


def test_of_two_officers_at_once_the_second_looks_again(opened, office):
    set_terms(opened(office))
    one, two = opened(office, epsilon=20.0), opened(office, epsilon=5.0)
    seen = two.book().account.terms
    assert set_terms(one)
    assert "were changed since they were shown" in refusal(two.set_terms, WHY, seen)
    assert opened(office, epsilon=20.0).balance().total == 20


@pytest.mark.parametrize("repairs", [False, True])
def test_terms_that_were_handed_over_meanwhile_are_not_set(
    tmp_path, opened, office, officer, repairs, monkeypatch
):
    """The key is that of all populations, and another one may hand it over at that moment."""
    set_terms(opened(office))
    late = opened(office, epsilon=20.0)
    seen = late.book().account.terms
    make_key(tmp_path / "next.pem")
    heir = load_signer(tmp_path / "next.pem")
    append = late.backend.append

    def after_handing_over(token: str, lines: bytes) -> Snapshot:
        monkeypatch.undo()
        set_terms(opened(Guards(terms_key=heir.public, officer=officer), population="zoo"))
        return append(token, lines)

    monkeypatch.setattr(late.backend, "append", after_handing_over)
    told = (
        refusal(recovery._accept, late, "x", "", ())
        if repairs
        else refusal(late.set_terms, WHY, seen)
    )
    assert f"belong to key {heir.key_id}" in told
    assert len(read_approved(path_of(tmp_path).read_bytes(), "x").entries) == 2


def test_an_officer_and_a_run_at_once(opened, office, job):
    """The approval is of one place in the chain: it is made again after a line in between."""
    set_terms(opened(office))
    officer = opened(office, epsilon=20.0)
    seen = officer.book().account.terms
    opened(job).reserve("a", pure(1))
    assert officer.set_terms(WHY, seen)
    opened(job, epsilon=20.0).mark_drawn("a")
    assert opened(job, epsilon=20.0).balance().remaining_epsilon == 19


@pytest.mark.parametrize("recorded", [False, True])
def test_a_change_that_died_is_repeated_once(tmp_path, opened, office, recorded, monkeypatch):
    """Before the line is on the disk, or after: then the repetition changes nothing."""
    set_terms(opened(office))
    ledger = opened(office, epsilon=20.0)
    append = ledger.backend.append

    def dying(token: str, lines: bytes) -> None:
        if recorded:
            append(token, lines)
        raise KeyboardInterrupt

    monkeypatch.setattr(ledger.backend, "append", dying)
    with pytest.raises(KeyboardInterrupt):
        set_terms(ledger)
    assert set_terms(opened(office, epsilon=20.0)) is not recorded
    chain = opened(office, epsilon=20.0).book().chain
    assert [change.what.epsilon for change in changes_of(chain, "campus-choice")] == [10, 20]
