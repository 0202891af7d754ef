"""Anchored ledgers: an older copy that is put back is caught, and every crash is healed."""

from __future__ import annotations

import json
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

import hushrank as hr
from hushrank.flows.errors import BudgetRefused, LedgerError
from hushrank.flows.ledger.account import ReleaseState
from hushrank.flows.ledger.anchor import GuardedLedger
from hushrank.flows.ledger.git_anchor import FILE
from hushrank.flows.ledger.guards import Guards, anchor_at
from hushrank.flows.ledger.inspection import guard_texts
from hushrank.flows.ledger.keys import Anchored, Head, make_key
from hushrank.flows.ledger.local_file import LedgerFile
from hushrank.transforms.storage.places import CloudPath
from tests.fake_cloud_storage import Fault, fake_cloud_storage
from tests.flows.conftest import ITEMS, InProcessReducer, answers
from tests.flows.ledger.conftest import make_repository
from tests.ledgers import pure, release, terms_of


class Killed(BaseException):
    """The process dies."""


def message(call, *arguments) -> str:
    with pytest.raises(LedgerError) as caught:
        call(*arguments)
    return str(caught.value)


def last_line(tmp_path) -> dict[str, object]:
    return json.loads((tmp_path / "budget/ledger.jsonl").read_text().splitlines()[-1])


def test_an_older_copy_put_back_is_caught_before_anything_is_spent(tmp_path, opened, anchor):
    guards = Guards(anchor=anchor)
    release(opened(guards), "a", 4)
    shutil.copytree(tmp_path / "budget", tmp_path / "older")
    release(opened(guards), "b", 4)
    shutil.rmtree(tmp_path / "budget")
    shutil.copytree(tmp_path / "older", tmp_path / "budget")
    assert opened(Guards()).balance().spent_epsilon == 4  # the whole folder: it looks intact
    before = (tmp_path / "budget/ledger.jsonl").read_bytes()
    for call in (
        opened(guards).balance,
        lambda: opened(guards).reserve("c", pure(4)),
        lambda: opened(guards).check(pure(4)),
    ):
        text = message(call)
        assert "the ledger has 4 lines, but had 7" in text
        assert "Put the newest copy back" in text
        assert text.endswith("Nothing was read or spent.")
    assert (tmp_path / "budget/ledger.jsonl").read_bytes() == before
    shutil.rmtree(tmp_path / "budget")  # none at all is an older copy too
    assert "has 0 lines, but had 7" in message(opened(guards).reserve, "c", pure(4))


def test_another_history_of_the_same_length_is_caught(tmp_path, opened, anchor):
    guards = Guards(anchor=anchor)
    release(opened(guards), "a", 4)
    shutil.rmtree(tmp_path / "budget")
    release(opened(Guards()), "a", 0.5)
    assert "has another line 4 than it had" in message(opened(guards).balance)
    release(opened(Guards()), "b", 0.5)
    assert "has another line 4 than it had" in message(opened(guards).balance)


def test_an_operator_can_accept_and_the_anchor_goes_on(tmp_path, opened, anchor):
    guards = Guards(anchor=anchor)
    release(opened(guards), "a", 4)
    shutil.rmtree(tmp_path / "budget")
    ledger = opened(guards)
    assert ledger.book(whole=False).snapshot.findings == (
        (
            f"it has 0 lines, but had 4, says its anchor {anchor.place}",
            "Spending that only the missing lines recorded counts as not spent",
        ),
    )
    ledger.backend.accept_loss()
    assert "but had 4" in message(opened(guards).balance)  # the operator's process died here
    release(ledger, "b", 1)
    assert opened(guards).balance().spent_epsilon == 1
    assert anchor.latest().head.order == (1, 4)
    release(opened(guards), "c", 1)
    assert anchor.latest().head.order == (1, 7)


def test_an_anchor_without_a_head_is_refused_unless_the_ledger_begins(opened, anchor):
    release(opened(Guards()), "a", 1)
    text = message(opened(Guards(anchor=anchor)).reserve, "b", pure(1))
    assert f"{anchor.place} holds nothing, but the ledger has lines" in text
    ledger = opened(Guards(anchor=anchor))
    ledger.backend.accept_loss()
    release(ledger, "b", 1)
    (text,) = guard_texts(opened(Guards(anchor=anchor)), Guards(anchor=anchor))
    assert f"Anchor {anchor.place}: line 7 of " in text


def test_a_crash_at_every_step_is_healed_by_the_next_run(
    tmp_path, opened, anchor, signing, monkeypatch
):
    """Each append has up to three steps; the process dies after each of them."""
    guards = replace(signing, anchor=anchor)
    inner, putting = LedgerFile.append, type(anchor).put

    def dying(real):
        def call(*arguments):
            done = real(*arguments)
            steps.append(real)
            if len(steps) == step:
                raise Killed
            return done

        return call

    for number, step in enumerate((1, 2, 3, 4, 5, 6, 7)):
        name, steps = f"r{number}", []
        with monkeypatch.context() as patch:
            patch.setattr(LedgerFile, "append", dying(inner))
            patch.setattr(type(anchor), "put", dying(putting))
            try:
                release(opened(guards), name, 0.1)
                died = False
            except Killed:
                died = True
        assert died == (len(steps) == step)
        ledger = opened(guards)  # it is refused nowhere
        known, last = anchor.latest(), ledger.book().chain
        behind = 0 if known is None else len(last.entries) - known.head.position
        assert 0 <= behind <= 2  # one append: the first one has two lines
        if ledger.state(name) in (ReleaseState.NONE, ReleaseState.RESERVED):
            ledger.reserve(name, pure(0.1))
            ledger.mark_drawn(name)
        ledger.commit(name)
        assert ledger.balance().releases == number + 1  # each is counted, and once
    ledger.reserve("last", pure(0.1))
    head = anchor.latest()
    assert (head.head.position, head.head.hash) == (
        last_line(tmp_path)["seq"], last_line(tmp_path)["hash"],
    )  # fmt: skip
    assert head.holds(signing.key)


def test_writers_at_once_leave_the_anchor_at_the_last_line(tmp_path, opened, anchor):
    def nights(writer: int) -> int:
        refused = 0
        for night in range(3):
            try:
                release(opened(Guards(anchor=anchor)), f"w{writer}-{night}", 1.0)
            except BudgetRefused:
                refused += 1
        return refused

    with ThreadPoolExecutor(4) as pool:
        refused = sum(pool.map(nights, range(4)))
    assert refused == 2  # of 12 wanted, 10 fit
    assert opened(Guards(anchor=anchor)).balance().spent_epsilon == 10
    assert anchor.latest().head.hash == last_line(tmp_path)["hash"]


def test_the_first_line_may_come_while_another_run_reads(opened, anchor, monkeypatch):
    """It finds an anchor that holds nothing, and then a ledger that has lines."""
    latest = type(anchor).latest

    def asked_too_early(own):
        found = latest(own)
        monkeypatch.setattr(type(anchor), "latest", latest)
        release(opened(Guards(anchor=anchor)), "first", 1.0)
        return found

    monkeypatch.setattr(type(anchor), "latest", asked_too_early)
    release(opened(Guards(anchor=anchor)), "second", 1.0)
    assert opened(Guards(anchor=anchor)).balance().spent_epsilon == 2


def test_a_head_holds_a_number_a_hash_and_a_date(opened, anchor, signing):
    release(opened(Guards(anchor=anchor)), "secret-release", 1)
    kept = anchor.latest().head
    assert kept.model_dump().keys() == {"hushrank_anchor", "epoch", "position", "hash", "time"}
    record = kept.record(signing.signer)
    assert b"secret-release" not in record
    assert Anchored.of(record).holds(signing.key)
    false = record.replace(b'"position":4', b'"position":5')
    assert not Anchored.of(false).holds(signing.key)


def test_a_false_or_unsigned_head_is_refused_with_a_key(tmp_path, opened, anchor, signing):
    guards = replace(signing, anchor=anchor)
    release(opened(guards), "a", 1)
    shutil.rmtree(tmp_path / "budget")
    empty = Head(epoch=1, position=0, hash="0" * 64)  # says: an operator accepted an empty ledger
    anchor.put(empty, empty.record(None))
    assert "is not signed with ledger.signing_key" in message(opened(guards).reserve, "b", pure(1))
    forged = Head(epoch=2, position=0, hash="0" * 64)
    record = forged.record(signing.signer).replace(b'"position":0', b'"position":1')
    anchor.put(forged.model_copy(update={"position": 1}), record)
    assert "signature is false" in message(opened(guards).reserve, "b", pure(1))


def test_an_anchor_that_is_away_is_refused_before_anything_is_spent(tmp_path, opened, store):
    release(opened(Guards()), "a", 1)
    before = (tmp_path / "budget/ledger.jsonl").read_bytes()
    (tmp_path / "plain").mkdir()
    for place, why in (
        (str(tmp_path / "unmounted" / "anchor"), "is the disk mounted?"),
        ("gs://nowhere/campus", "no such object or bucket"),
        (f"git:{tmp_path / 'plain'}", "not a git repository"),
        (f"git:{tmp_path / 'missing'}", "there is no such folder"),
    ):
        text = message(opened(Guards(anchor=anchor_at(place))).reserve, "b", pure(1))
        assert f"ledger.anchor: {place} cannot be read" in text
        assert why in text
    assert (tmp_path / "budget/ledger.jsonl").read_bytes() == before


def test_a_store_that_fails_after_the_ledger_was_written_costs_nothing_twice(opened, store):
    guards = Guards(anchor=anchor_at("gs://far/campus"))
    release(opened(guards), "a", 1)
    store.faults.append(Fault("POST", "0000-0000000005.json", 403))
    text = message(opened(guards).reserve, "b", pure(1))
    assert "cannot be written (no permission)" in text
    assert "nothing is paid for twice" in text
    release(opened(guards), "b", 1)
    assert opened(guards).balance().spent_epsilon == 2
    names = store.names("far")
    assert names == sorted(names)
    assert len(names) == 1 + 6  # line 0, then one object for each append: none is replaced
    assert not [asked for asked in store.requests if asked[0] == "DELETE"]


def test_damaged_anchors_are_refused(tmp_path, opened, anchor):
    guards = Guards(anchor=anchor)
    release(opened(guards), "a", 1)
    place = anchor.place
    if place.startswith("gs://"):
        CloudPath.parse(f"{place}/0000-0000000009.json").write(b"no head\n")
    elif place.startswith("git:"):
        folder = tmp_path / "repository"
        (folder / FILE).write_text("no head\n")
        subprocess.run(["git", "commit", "--quiet", "-am", "spoiled"], cwd=folder, check=True)
    else:
        with (tmp_path / "mount/anchor.jsonl").open("a") as file:
            file.write("no head\n")
    assert "is damaged, or is not an anchor" in message(opened(guards).reserve, "b", pure(1))


def test_two_ledgers_on_one_anchor_are_noticed(tmp_path, opened, anchor):
    release(opened(Guards(anchor=anchor)), "a", 1)
    inner = LedgerFile(tmp_path / "other.jsonl")
    (tmp_path / "other.jsonl").parent.chmod(0o700)
    text = message(
        GuardedLedger(inner, anchor=anchor)._put,
        anchor, Head(position=4, hash="1" * 64), GuardedSeen, "Nothing.",
    )  # fmt: skip
    assert "holds another line 4 than this ledger has" in text


class GuardedSeen:
    anchored = None


def test_what_an_interrupted_write_left_does_not_count(tmp_path, opened):
    (tmp_path / "mount").mkdir()
    path = tmp_path / "mount" / "anchor.jsonl"
    guards = Guards(anchor=anchor_at(str(path)))
    release(opened(guards), "a", 1)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"hushrank_anchor":1,"epo')
    release(opened(guards), "b", 1)
    assert path.read_bytes().startswith(whole + b'{"hushrank_anchor":1,"epoch":0,"position":5,')
    assert path.stat().st_mode & 0o077 == 0


def test_the_repository_of_somebody_else_is_left_as_it_was(tmp_path, opened):
    folder = make_repository(tmp_path / "repository")
    (folder / "mine").write_text("staged\n")
    subprocess.run(["git", "add", "mine"], cwd=folder, check=True)
    (folder / "campus").mkdir()
    guards = Guards(anchor=anchor_at(f"git:{folder / 'campus'}"))
    release(opened(guards), "a", 1)
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=folder, capture_output=True, text=True, check=True
    )
    assert status.stdout == "A  mine\n"  # still staged, and in no commit
    log = subprocess.run(
        ["git", "log", "--format=%s", "--", f"campus/{FILE}"],
        cwd=folder, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    assert log == [f"hushrank ledger: line {line}" for line in (4, 3, 2, 0)]
    subprocess.run(["git", "clone", "--quiet", folder, tmp_path / "clone"], check=True)
    clone = anchor_at(f"git:{tmp_path / 'clone' / 'campus'}")
    assert opened(Guards(anchor=clone)).balance().spent_epsilon == 1


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"anchor": "budget/anchor"}, "is in the folder of the ledger"),
        ({"anchor": "git:budget"}, "is in the folder of the ledger"),
        ({"anchor": "out/anchor"}, "must be neither in output nor in confidential"),
        ({"anchor": "http://example.org"}, "must be a local path or start with gs://"),
        ({"anchor": "gs://one/a", "path": "gs://one/l.jsonl"}, "is in the bucket of the ledger"),
        ({"signing_key": "work/key.pem"}, "must be neither in output nor in confidential"),
    ],
)
def test_places_that_guard_nothing_are_refused(survey, command, keys, told):
    survey.set(ledger__path="budget/ledger.jsonl")
    survey.set(**{f"ledger__{name}": value for name, value in keys.items()})
    code, printed = command("run", survey.config, "--direct")
    assert (code, told in " ".join(printed.split())) == (2, True), printed
    assert not (survey.folder / "budget").exists()


def test_a_rollback_from_the_command_line(survey, command):
    """A whole folder put back, the archive and the confidential area with it."""
    far = survey.folder / "far" / "anchor.jsonl"
    far.parent.mkdir()
    survey.set(ledger__path="budget/ledger.jsonl", privacy__epsilon=1.0)
    survey.set(ledger__anchor=str(far))
    assert command("run", survey.config, "--direct")[0] == 0
    state = ("budget", "work", "out")
    for name in state:
        shutil.copytree(survey.folder / name, survey.folder / "older" / name)
    survey.set(privacy__epsilon=2.0, output="second")
    assert command("run", survey.config, "--direct")[0] == 0
    code, printed = command("ledger", "verify", survey.config)
    assert (code, f"Anchor {far}: line 7 of" in printed) == (0, True), printed
    for name in state:
        shutil.rmtree(survey.folder / name)
        shutil.copytree(survey.folder / "older" / name, survey.folder / name)
    shutil.rmtree(survey.folder / "second")
    for asked in (["run", "--direct"], ["validate"], ["ledger", "show"], ["ledger", "verify"]):
        code, printed = command(*asked, survey.config)
        assert code == 2, (asked, printed)
        assert "the ledger has 4 lines, but had 7" in printed
    survey.set(ledger__anchor=None)
    assert command("ledger", "verify", survey.config)[0] == 0  # without the anchor all looks well
    code, printed = command("ledger", "verify", survey.config, "--anchor", str(far))
    assert (code, "but had 7" in printed) == (2, True)
    survey.set(ledger__anchor=str(far))
    assert command("ledger", "recover", survey.config, "--yes")[0] == 0
    assert command("run", survey.config, "--direct")[0] == 0


def test_leases_of_a_shared_ledger_work_as_before(opened, monkeypatch, signing):
    """A ledger in Cloud Storage keeps a second run of a release out, guarded or not."""
    with fake_cloud_storage("budget", "far") as store:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.url)
        guards = replace(signing, anchor=anchor_at("gs://far/campus"))
        place = CloudPath.parse("gs://budget/ledger.jsonl")
        first, second = (guards.ledger(place, terms_of()) for _ in range(2))
        with first.run_lock("a"):
            assert "Another run of release a is in progress" in message(take_and_free, second)
            release(first, "a", 1)
        take_and_free(second)
        assert second.balance().spent_epsilon == 1
        release(second, "b", 1)
        head = guards.anchor.latest()
        assert (head.head.position, head.holds(signing.key)) == (7, True)
        lines = store.content("budget", "ledger.jsonl").splitlines()
        assert all(b'"signature":"ed25519:' in line for line in lines)


def take_and_free(ledger) -> None:
    with ledger.run_lock("a"):
        pass


def test_git_without_an_author_is_refused_before_the_first_line(tmp_path, opened, monkeypatch):
    folder = make_repository(tmp_path / "repository")
    for name in ("user.name", "user.email"):
        subprocess.run(["git", "config", name, ""], cwd=folder, check=True)
    text = message(opened(Guards(anchor=anchor_at(f"git:{folder}"))).reserve, "a", pure(1))
    assert "git says: " in text
    assert "tell me who you are" in text
    assert not (tmp_path / "budget/ledger.jsonl").exists()


def test_a_guarded_ledger_from_python(tmp_path, monkeypatch):
    monkeypatch.setattr("hushrank.flows.interfaces.python.run.Reducer", InProcessReducer)
    make_key(tmp_path / "keys" / "key.pem")
    (tmp_path / "far").mkdir()
    keys = {"signing_key": tmp_path / "keys" / "key.pem", "anchor": tmp_path / "far" / "anchor"}
    ledger = hr.Ledger(tmp_path / "budget" / "ledger.jsonl", **keys)
    hr.rank(
        answers(60), left="item_i", right="item_j", words={"left": 1, "right": -1, "tie": 0},
        items={"names": ITEMS, "first_code": 0}, epsilon=1.0, max_contributions=6,
        name="zoo", ledger=ledger,
    )  # fmt: skip
    assert ledger.verify() == 4
    assert (tmp_path / "far" / "anchor").read_text().count("\n") == 4
    assert hr.Ledger(ledger.path).remaining == ledger.remaining
    (tmp_path / "far" / "anchor").unlink()
    with pytest.raises(LedgerError, match="holds nothing"):
        ledger.verify()
