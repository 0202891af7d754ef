"""A ledger that forgot what was spent is noticed before it spends, and can be gone on with."""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hushrank.flows.errors import BudgetRefused, DrawError, LedgerError
from hushrank.flows.ledger.keys import InputNames
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.methods.registry import load_config
from hushrank.flows.run import run
from hushrank.flows.run.context import ledger_of
from hushrank.flows.trust.recovery import LostRelease, _accept, _of_the_ledger, lost_once
from hushrank.privacy.accounting import Spend
from tests.ledgers import NOW, Clock, release, terms_of

FORGOT = "would open a second budget for the same people"


def ledger_events(survey) -> list[str]:
    lines = (survey.folder / "budget" / "ledger.jsonl").read_text().splitlines()
    return [json.loads(line)["event"] for line in lines]


def events(survey) -> list[str]:
    return [json.loads(line)["event"] for line in survey.ledger.read_text().splitlines()]


@pytest.fixture
def older(survey, command) -> Path:
    """A copy of the whole folder of the ledger from after the first of two releases."""
    survey.set(ledger__path="budget/ledger.jsonl", privacy__epsilon=1.0)
    assert command("run", survey.config, "--direct")[0] == 0
    shutil.copytree(survey.folder / "budget", survey.folder / "older")
    survey.set(privacy__epsilon=2.0, output="second")
    assert command("run", survey.config, "--direct")[0] == 0
    return survey.folder / "older"


def put_back(survey, older: Path) -> None:
    shutil.rmtree(survey.folder / "budget")
    shutil.copytree(older, survey.folder / "budget")


@pytest.mark.parametrize("knows", ["archive", "confidential"])
def test_a_whole_folder_that_is_put_back_is_noticed(survey, command, older, knows):
    put_back(survey, older)
    if knows == "archive":
        shutil.rmtree(survey.work)
        (survey.folder / "answers.parquet").touch()
        expected = "second keeps releases of zoo that it never paid: "
    else:
        survey.set(output="third", privacy__epsilon=2.5)
        expected = "it had 7 lines or more, but it no longer holds them"
    for name in (["validate"], ["run", "--direct"]):
        code, printed = command(*name, survey.config)
        assert code == 2, printed
        assert FORGOT in printed
        assert expected in printed


def test_publishing_again_leaves_what_shows_that_a_copy_was_put_back(survey, command, older):
    put_back(survey, older)
    left = (survey.work / "ledgers.json").read_bytes()
    survey.set(privacy__epsilon=1.0, output="out")  # published before the copy was made
    code, printed = command("run", survey.config, "--direct")
    assert (code, "nothing was spent now" in printed) == (0, True), printed
    assert (survey.work / "ledgers.json").read_bytes() == left
    survey.set(output="third", privacy__epsilon=2.5)
    code, printed = command("run", survey.config, "--direct")
    assert code == 2, printed
    assert FORGOT in printed


def test_a_published_release_that_the_copy_does_not_know_is_refused_with_a_way_out(
    survey, command, older
):
    put_back(survey, older)
    code, printed = command("run", survey.config, "--direct")
    assert code == 2, printed
    assert f"{FORGOT}: it had 7 lines or more, but it no longer holds them; " in printed
    assert "second keeps releases of zoo that it never paid: " in printed
    assert "hushrank ledger recover" in printed
    assert command("ledger", "recover", survey.config, "--yes")[0] == 0
    code, printed = command("run", survey.config, "--direct")
    assert (code, "nothing was spent now" in printed) == (0, True), printed


def test_recovery_enters_what_is_known_to_be_spent(survey, command, older):
    put_back(survey, older)
    survey.set(output="third", privacy__epsilon=0.5)
    before = (survey.folder / "budget" / "ledger.jsonl").read_bytes()
    code, printed = command("ledger", "recover", survey.config)
    assert code == 0
    assert "Wrong: it had 7 lines or more, but it no longer holds them." in printed
    assert "Nothing was changed." in printed
    assert (survey.folder / "budget" / "ledger.jsonl").read_bytes() == before
    code, printed = command("ledger", "recover", survey.config, "--yes")
    assert code == 0
    assert "zoo has epsilon 2.00 left of 5.00" in printed  # 1 and 2 were spent
    assert command("ledger", "recover", survey.config)[1].rstrip().endswith("nothing is wrong.")
    assert command("run", survey.config, "--direct")[0] == 0
    assert "recovery" in command("ledger", "show", survey.config)[1]


def test_another_ledger_is_a_new_budget(survey, command):
    command("run", survey.config, "--direct")
    survey.set(ledger__path="fresh/ledger.jsonl", output="second", privacy__epsilon=1.0)
    for name in (["validate"], ["run", "--direct"]):
        code, printed = command(*name, survey.config)
        assert code == 2
        assert f"{FORGOT}: zoo spent on this input under {survey.ledger}" in printed
    for fresh in ("fresh", "newer"):  # and another name as well; one has a key, one has none yet
        survey.set(name="park", ledger__path=f"{fresh}/ledger.jsonl")
        for name in (["validate"], ["run", "--direct"]):
            code, printed = command(*name, survey.config)
            assert code == 2
            assert "if its people are others, set other_people: ['zoo']" in printed
            assert "another name" not in printed
    assert command("validate", survey.set(ledger__other_people=["zoo"]).config)[0] == 0
    assert not (survey.folder / "fresh" / "ledger.jsonl").exists()


@pytest.fixture
def namesakes(survey, command) -> Path:
    """Two populations of one name in one `confidential`; the ledger of the one that has spent."""
    shutil.copy(survey.folder / "answers.parquet", survey.folder / "others.parquet")
    os.utime(survey.folder / "others.parquet", (1, 1))
    survey.set(ledger__path="budget/ledger.jsonl", privacy__epsilon=1.0)
    assert command("run", survey.config, "--direct")[0] == 0
    survey.set(ledger__path="b/ledger.jsonl", output="b/out", input__paths=["others.parquet"])
    return survey.folder / "budget"


def test_a_namesake_that_reads_another_input_is_told_apart(survey, command, namesakes):
    for name in (["validate"], ["run", "--direct"]):
        code, printed = command(*name, survey.config)
        assert code == 2, printed
        assert f"{FORGOT}: zoo spent under {namesakes}" in printed
        assert "on this input" not in printed
        assert "give this job another name, or a confidential folder of its own" in printed
    for change in ({"name": "park"}, {"name": "zoo", "confidential": "elsewhere"}):
        assert command("validate", survey.set(**change).config)[0] == 0


def test_recovery_leaves_what_shows_that_another_ledger_was_put_back(survey, command, namesakes):
    assert "zoo has epsilon 4.00 left of 5.00" in recovered(survey, command)
    assert command("run", survey.config, "--direct")[0] == 0  # and is not refused anew
    (namesakes / "ledger.jsonl").unlink()
    (namesakes / "ledger.jsonl.length").unlink()
    survey.set(ledger__path="budget/ledger.jsonl", output="c", input__paths=["answers.parquet"])
    code, printed = command("validate", survey.config)
    assert code == 2, printed
    assert "it had 4 lines or more, but it no longer holds them" in printed


def test_what_was_entered_already_does_not_stop_a_ledger_that_was_moved(survey, command, namesakes):
    recovered(survey, command)
    (survey.folder / "b").rename(survey.folder / "moved")
    survey.set(ledger__path="moved/ledger.jsonl", output="moved/out", privacy__epsilon=0.5)
    for epsilon in (0.5, 0.25):
        survey.set(privacy__epsilon=epsilon, output=f"moved/{epsilon}")
        code, printed = command("run", survey.config, "--direct")
        assert code == 0, printed
    assert "zoo has epsilon 3.25 left of 5.00" in printed


def test_a_ledger_that_was_moved_goes_on(survey, command):
    command("run", survey.config, "--direct")
    (survey.folder / "moved").mkdir(mode=0o700)
    for name in ("", ".key", ".length"):
        Path(f"{survey.ledger}{name}").rename(survey.folder / "moved" / f"ledger.jsonl{name}")
    survey.set(ledger__path="moved/ledger.jsonl", output="second", privacy__epsilon=1.0)
    assert command("run", survey.config, "--direct")[0] == 0
    assert "zoo has epsilon 2.00 left" in command("ledger", "show", survey.config)[1]


def test_a_new_ledger_that_is_accepted_begins_with_what_was_spent(survey, command):
    command("run", survey.config, "--direct")
    survey.set(ledger__path="fresh/ledger.jsonl", privacy__epsilon=1.0, output="second")
    code, printed = command("ledger", "recover", survey.config, "--yes")
    assert code == 0
    assert "zoo has epsilon 3.00 left of 5.00" in printed
    assert command("run", survey.config, "--direct")[0] == 0


def test_releases_of_past_periods_are_not_charged_again(survey, command, monkeypatch):
    early = datetime.now(UTC) - timedelta(days=62)
    with monkeypatch.context() as patch:
        patch.setattr("hushrank.flows.ledger.ledger.utc_now", lambda: early)
        patch.setattr(Ledger.__init__, "__kwdefaults__", {"clock": lambda: early, "operator": None})
        command("run", survey.config, "--direct")
    (release_json,) = survey.output.rglob("releases/*/release.json")
    assert release_json.exists()
    survey.set(ledger__path="fresh/ledger.jsonl", privacy__epsilon=1.0, output="second")
    code, printed = command("ledger", "recover", survey.config, "--yes")
    assert code == 0
    assert "zoo has epsilon 5.00 left of 5.00" in printed


def test_a_release_of_a_past_period_that_was_accepted_is_published_again(survey, command, older):
    put_back(survey, older)
    (survey.work / "ledgers.json").unlink()
    (kept,) = (survey.folder / "second" / "releases").iterdir()
    early = datetime.now(UTC) - timedelta(days=62)
    lost = LostRelease(kept.name[11:], Spend(epsilon=2.0), early, published=True)
    _accept(ledger_of(load_config(survey.config)), "a test", "", [lost])
    code, printed = command("run", survey.config, "--direct")
    assert (code, "nothing was spent now" in printed) == (0, True), printed
    assert "zoo has epsilon 4.00 left" in command("ledger", "show", survey.config)[1]


def test_a_removed_length_is_recovered(survey, command):
    command("run", survey.config, "--direct")
    Path(f"{survey.ledger}.length").unlink()
    survey.set(privacy__epsilon=1.0, output="second")
    code, printed = command("run", survey.config, "--direct")
    assert code == 2
    assert "ledger.jsonl.length is missing" in printed
    assert command("ledger", "recover", survey.config, "--yes")[0] == 0
    assert command("run", survey.config, "--direct")[0] == 0
    assert events(survey).count("accept") == 1


def test_a_damaged_checkpoint_is_one_sentence(survey, command):
    command("run", survey.config, "--direct")
    (survey.work / "ledgers.json").write_text("{")
    code, printed = command("validate", survey.config)
    assert code == 2
    assert "ledgers.json: is damaged." in printed
    assert len(printed.splitlines()) == 1


def interrupted(survey, command, monkeypatch) -> None:
    """A run that is stopped before it draws, and gives its reservation back."""

    def stop(*_: object) -> None:
        raise DrawError("It was stopped.")

    with monkeypatch.context() as patched:
        patched.setattr("hushrank.flows.run.run.reduce", stop)
        assert command("run", survey.config, "--direct")[0] != 0


def recovered(survey, command) -> str:
    code, printed = command("ledger", "recover", survey.config, "--yes")
    assert code == 0, printed
    assert command("ledger", "verify", survey.config)[0] == 0
    assert command("ledger", "recover", survey.config)[1].rstrip().endswith("nothing is wrong.")
    return printed


@pytest.mark.parametrize("kept", [True, False])
def test_an_attempt_after_one_that_was_given_back_is_entered(survey, command, monkeypatch, kept):
    survey.set(ledger__path="budget/ledger.jsonl")
    interrupted(survey, command, monkeypatch)
    shutil.copytree(survey.folder / "budget", survey.folder / "older")
    assert command("run", survey.config, "--direct")[0] == 0
    put_back(survey, survey.folder / "older")
    if not kept:
        survey.output.rename(survey.folder / "away")
    assert "zoo has epsilon 3.00 left of 5.00" in recovered(survey, command)


@pytest.mark.parametrize("kept", [True, False])
def test_every_attempt_at_one_release_is_entered(survey, command, kept):
    survey.set(ledger__path="budget/ledger.jsonl", privacy__epsilon=1.0)
    assert command("run", survey.config, "--direct")[0] == 0
    shutil.rmtree(survey.output)
    (drawn,) = survey.work.glob("*/drawn.npz")
    drawn.unlink()
    assert command("run", survey.config, "--direct", "--again")[0] == 0  # pays again
    if not kept:
        shutil.rmtree(survey.output)
    for path in (survey.folder / "budget").glob("ledger.jsonl*"):
        if path.is_file() and path.suffix != ".key":
            path.unlink()
    assert "zoo has epsilon 3.00 left of 5.00" in recovered(survey, command)
    assert ledger_events(survey).count("commit") == int(kept)


def test_what_an_older_copy_has_reserved_counts_as_drawn(survey, command, monkeypatch):
    survey.set(ledger__path="budget/ledger.jsonl")
    reduce = run.reduce
    with monkeypatch.context() as patched:  # copied while the release is being drawn
        patched.setattr(
            "hushrank.flows.run.run.reduce",
            lambda *given: (
                shutil.copytree(survey.folder / "budget", survey.folder / "older"),
                reduce(*given),
            )[1],
        )
        assert command("run", survey.config, "--direct")[0] == 0
    put_back(survey, survey.folder / "older")
    shutil.rmtree(survey.output)
    assert "zoo has epsilon 3.00 left of 5.00" in recovered(survey, command)
    (release_id,) = (path.name for path in survey.work.iterdir() if path.is_dir())
    code, printed = command("ledger", "cancel", survey.config, release_id)
    assert code == 2, printed
    assert "cannot be cancelled" in printed


def test_what_several_know_is_entered_once():
    def lost(hour: int, *, published: bool = False) -> LostRelease:
        return LostRelease("a", Spend(epsilon=1.0), NOW + timedelta(hours=hour), published)

    one, two, kept = lost(0), lost(1), lost(2, published=True)
    assert lost_once([[one], [one, two]]) == (one, two)
    assert lost_once([[one, one], [one]]) == (one, one)  # two within a second
    assert lost_once([[kept]]) == (kept,)
    assert lost_once([[kept], [two, one]]) == (one, kept)


# Clocks


def ledger_at(tmp_path, now: datetime) -> Ledger:
    return Ledger(tmp_path / "ledger.jsonl", terms_of(), clock=Clock(now))


def found(ledger: Ledger) -> list[str]:
    return [finding.text for finding in _of_the_ledger(ledger, "")]


def accept(ledger: Ledger) -> None:
    _accept(ledger, "; ".join(found(ledger)), "", ())


def test_a_clock_years_ahead_is_noticed_before_it_writes(tmp_path):
    release(ledger_at(tmp_path, NOW), "a", 1.0)
    before = (tmp_path / "ledger.jsonl").read_bytes()
    ahead = ledger_at(tmp_path, NOW.replace(year=2031))
    steps = (
        lambda: ahead.reserve("b", Spend(epsilon=1.0)),
        lambda: ahead.check(Spend(epsilon=1.0)),
        lambda: ahead.record_unsafe("c", "a test"),
    )
    for step in steps:
        with pytest.raises(LedgerError) as caught:
            step()
        assert "clock says 2031-11-21 12:00 UTC, more than a year after the last entry" in str(
            caught.value
        )
    assert (tmp_path / "ledger.jsonl").read_bytes() == before


def test_a_clock_that_is_right_after_years_is_accepted_once(tmp_path):
    release(ledger_at(tmp_path, NOW), "a", 1.0)
    later = ledger_at(tmp_path, NOW.replace(year=2031))
    assert len(found(later)) == 1
    accept(later)
    assert found(later) == []
    later.reserve("b", Spend(epsilon=1.0))
    assert later.balance().spent_epsilon == 1.0  # that of 2026 was of another month


@pytest.mark.parametrize("days", [1, 366, 400])
def test_a_survey_of_every_year_goes_on(tmp_path, days):
    release(ledger_at(tmp_path, NOW), "a", 1.0)
    release(ledger_at(tmp_path, NOW + timedelta(days=days)), "b", 1.0)


def test_entries_of_a_wrong_clock_are_set_right_and_stay_spent(tmp_path):
    wrong = ledger_at(
        tmp_path, NOW.replace(year=2036)
    )  # the first entry of all: nothing to compare
    release(wrong, "a", 4.0)
    right = ledger_at(tmp_path, NOW)
    with pytest.raises(LedgerError, match="hushrank ledger recover corrects it"):
        right.reserve("b", Spend(epsilon=1.0))
    accept(right)
    assert right.balance().spent_epsilon == 4.0  # drawn before now, so it counts now
    release(right, "b", 6.0)
    with pytest.raises(BudgetRefused, match=r"campus-choice has 0\.00 left until 1 December"):
        right.check(Spend(epsilon=1.0))
    december = ledger_at(tmp_path, NOW + timedelta(days=20))
    assert december.balance().spent_epsilon == 0.0
    assert ledger_at(tmp_path, NOW.replace(year=2036)).balance().spent_epsilon == 0.0


@pytest.mark.parametrize("lead", [timedelta(hours=2), timedelta(days=20), timedelta(days=300)])
def test_any_lead_that_stops_a_run_can_be_set_right(tmp_path, lead):
    release(ledger_at(tmp_path, NOW + lead), "a", 4.0)
    right = ledger_at(tmp_path, NOW)
    with pytest.raises(LedgerError, match="hushrank ledger recover corrects it"):
        right.check(Spend(epsilon=1.0), InputNames("", ()))
    (told,) = found(right)
    assert told == (
        f"its last entry is dated {NOW + lead:%Y-%m-%d %H:%M} UTC, and this machine's clock says"
        f" {NOW:%Y-%m-%d %H:%M} UTC"
    )
    accept(right)
    assert found(right) == []
    right.check(Spend(epsilon=1.0), InputNames("", ()))
    assert right.balance().spent_epsilon == 4.0
    (line,) = (line for line in events_of(tmp_path) if line["event"] == "accept")
    assert (line["clock"], line["why"]) == (True, told)


def events_of(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]


def test_machines_may_differ_by_an_hour(tmp_path):
    release(ledger_at(tmp_path, NOW + timedelta(minutes=59)), "a", 4.0)
    right = ledger_at(tmp_path, NOW)
    assert found(right) == []
    right.check(Spend(epsilon=1.0), InputNames("", ()))


def test_a_clock_beyond_what_can_be_stored_is_one_sentence(tmp_path):
    late = ledger_at(tmp_path, NOW.replace(year=2263))
    for call in (late.balance, lambda: late.reserve("a", Spend(epsilon=1.0)), late.history):
        with pytest.raises(LedgerError, match="clock says 2263-11-21 12:00 UTC, which is beyond"):
            call()
    assert not (tmp_path / "ledger.jsonl").exists()


def spoiled(survey, how: str) -> None:
    """Do to a ledger that has a release what would stop the next run."""
    key, length = Path(f"{survey.ledger}.key"), Path(f"{survey.ledger}.length")
    if how == "no key":
        key.unlink()
    elif how == "empty key":
        key.write_text("")
    elif how == "another key":
        key.write_text("00" * 32 + "\n")
    elif how == "open key":
        key.chmod(0o644)
    elif how == "length":
        length.write_text("-5")
    elif how == "lock":
        Path(f"{survey.ledger}.lock").unlink(missing_ok=True)
        Path(f"{survey.ledger}.lock").mkdir()
    elif how == "locks of runs":
        shutil.rmtree(f"{survey.ledger}.runs")
        Path(f"{survey.ledger}.runs").write_text("")
    elif how == "folder":
        survey.work.chmod(0o755)
    elif how == "checkpoint":
        (survey.work / "ledgers.json").write_text("[")


SPOILED = {
    "no key": "is not the key that this ledger was written with",
    "empty key": "is not a ledger key",
    "another key": "is not the key that this ledger was written with",
    "open key": "can be read by other users",
    "length": "it does not hold a number that an append writes",
    "lock": "ledger.jsonl.lock: Is a directory)",
    "locks of runs": "the lock of this run cannot be made",
    "folder": "is open to other users",
    "checkpoint": "is damaged. It says how far the ledger was",
}


@pytest.mark.parametrize("how", SPOILED)
def test_verify_says_what_a_run_would_be_refused_for(survey, command, how):
    survey.set(privacy__epsilon=1.0)
    assert command("run", survey.config, "--direct")[0] == 0
    assert command("ledger", "verify", survey.config)[0] == 0
    survey.set(privacy__epsilon=0.5, output="second")
    spoiled(survey, how)
    for asked in (["ledger", "verify"], ["ledger", "recover"], ["validate"], ["run", "--direct"]):
        code, printed = command(*asked, survey.config)
        told = " ".join(printed.split())
        recoverable = asked[-1] == "recover" and how in ("no key", "another key")
        assert (code == 0) == recoverable, (asked, printed)
        assert (SPOILED[how] in told) != recoverable, (asked, printed)
        assert "nothing is wrong" not in told
        assert "every line is unchanged" not in told


def test_a_confidential_folder_of_another_user_is_refused(survey, command, monkeypatch):
    survey.work.mkdir(mode=0o700)
    monkeypatch.setattr("os.geteuid", lambda: 4321)
    monkeypatch.setattr("hushrank.transforms.system.posix._ROOT", survey.work.stat().st_uid)
    code, printed = command("validate", survey.config)
    assert code == 2
    assert f"confidential: {survey.work} belongs to another user of this machine" in printed
    assert f"chown 4321 {survey.work}" in printed
