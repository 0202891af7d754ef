"""A stream of nights from the command line: one budget, nights in order, each drawn once."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from hushrank.flows.assembly import MEMORY
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import LedgerError
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.ledger.local_file import LedgerFile
from hushrank.flows.nights.nights import prepare_night
from hushrank.flows.run import run as steps
from hushrank.flows.run.context import ledger_of
from hushrank.flows.run.job import read_survey
from hushrank.privacy.keyed_hash import Hashes, KeyedHash
from hushrank.privacy.stream_encoder import Encoder, Workload, decoding
from hushrank.transforms.common import encode
from hushrank.transforms.common.catalogue import Naming
from hushrank.transforms.common.encode import hashes_by_type, pseudonyms
from hushrank.transforms.storage.places import CloudPath
from tests.fake_cloud_storage import fake_cloud_storage
from tests.flows.conftest import ITEMS, InProcessReducer, Survey
from tests.flows.damages import DAMAGES, remove, replace_by_folder

FIRST = date(2024, 11, 16)
NIGHTS, TIMES, GAP, WINDOW = 6, 2, 2, 3
DAYS = [FIRST + timedelta(days=number) for number in range(NIGHTS)]
EMPTY = 3  # the night without files
STREAM = {
    "nights": NIGHTS,
    "participations": TIMES,
    "gap": GAP,
    "show": {"window": WINDOW},
    "first": str(FIRST),
}
EAGER = 1_000  # answers every night, and prefers dogs to ants as nobody else does
ANTS, DOGS = 0, 3
NO_NOISE = 1e5  # rho: the noise in a shown count is about 0.02


def log_of(number: int) -> pa.Table:
    """Each of thirty people answers on about half of the nights: ants before bees before cats."""
    rng = np.random.default_rng(number)
    users = np.flatnonzero(rng.random(30) < 0.5)
    left = rng.integers(0, 2, len(users))
    rows = [(user, item, item + 1, 1) for user, item in zip(users, left, strict=True)]
    rows.append((EAGER, ANTS, DOGS, -1))
    columns = zip(*rows, strict=True)
    names = ("user", "item_i", "item_j", "outcome")
    return pa.table({name: np.array(each) for name, each in zip(names, columns, strict=True)})


def expected(*, pairs: bool = False, window: int = WINDOW) -> Iterator[np.ndarray]:
    """What each night shows: by hand, person by person."""
    last: dict[int, int] = {}
    times: dict[int, int] = {}
    nights = []
    for number in range(NIGHTS):
        wins = np.zeros((len(ITEMS), len(ITEMS)))
        for row in log_of(number).to_pylist() if number != EMPTY else ():
            user = row["user"]
            if user in last and (number - last[user] < GAP or times[user] == TIMES):
                continue
            last[user], times[user] = number, times.get(user, 0) + 1
            better, worse = row["item_i"], row["item_j"]
            if row["outcome"] < 0:
                better, worse = worse, better
            wins[better, worse] += 1
        nights.append(wins if pairs else wins.sum(axis=1))
        yield np.sum(nights[-window:], axis=0)


def stream_of(survey: Survey, log_of: Callable[[int], pa.Table] = log_of, **changes: Any) -> Survey:
    """A stream of `survey` with the rows of `log_of`; for all that can be told, without noise."""
    for number, day in enumerate(DAYS):
        if number != EMPTY:
            pq.write_table(log_of(number), survey.folder / f"log-{day}.parquet")
    return survey.set(
        input__paths=["log-{date}.parquet"],
        privacy={"unit": "user", "rho": NO_NOISE, "noise": "gaussian", "max_contributions": 6},
        ledger={"path": "ledger.jsonl", "epsilon": 1e6, "delta": 1e-6},
        schedule={"empty": "skip", "stream": dict(STREAM)},  # a test may change it
        **changes,
    )


@pytest.fixture
def stream(survey: Survey) -> Survey:
    return stream_of(survey)


def events(survey: Survey) -> list[dict]:
    return [json.loads(line) for line in survey.ledger.read_text().splitlines()]


def drawn(survey: Survey) -> int:
    return sum(event["event"] == "draw" for event in events(survey))


def release_of(survey: Survey, number: int) -> dict:
    (folder,) = (survey.output / "releases").glob(f"{DAYS[number]}-*")
    return json.loads((folder / "release.json").read_text())


def spent(survey: Survey) -> float:
    return ledger_of(read_survey(survey.config).config).balance().spent_epsilon


def run(command, survey: Survey, number: int, *options: str) -> tuple[int, str]:
    return command("run", survey.config, "--direct", "--date", DAYS[number], *options)


def drawn_of(survey: Survey, number: int) -> bytes:
    """The arrays of a night that are drawn once, as its release shows them."""
    told = release_of(survey, number)
    return json.dumps([told["stream"]["noisy"], told["released"]]).encode()


def stream_folder(survey: Survey) -> Path:
    (folder,) = survey.work.glob("stream-*")
    return folder


def test_six_nights_cost_once_and_count_a_person_twice(stream, command):
    code, printed = command("run", stream.config, "--direct", "--date", DAYS[0])
    assert code == 0, printed
    cost = spent(stream)
    assert cost > 0
    code, printed = command(
        "backfill", stream.config, "--direct", "--from", DAYS[0], "--to", DAYS[-1]
    )
    assert code == 0, printed
    assert spent(stream) == cost
    assert drawn(stream) == NIGHTS
    reserved = [event for event in events(stream) if event["event"] == "reserve"]
    assert len(reserved) == 1 + NIGHTS
    assert [each["spend"]["rho"] for each in reserved] == [NO_NOISE, *[None] * NIGHTS]

    dogs, noisy = [], []
    for number, wanted in enumerate(expected()):
        release = release_of(stream, number)
        shown = np.array(list(release["released"]["wins"].values()))
        assert shown == pytest.approx(wanted, abs=0.2)
        told = release["stream"]
        assert (told["number"], told["nights"], told["first"]) == (number + 1, NIGHTS, str(FIRST))
        assert release["privacy"]["rho"] == NO_NOISE
        noisy.append(np.array(told["noisy"]))
        # What is shown follows from the noisy numbers that every night publishes.
        kernel = decoding(Workload(WINDOW), Encoder(tuple(told["coefficients"])), NIGHTS)
        again = sum(kernel[number - place] * y for place, y in enumerate(noisy))
        assert shown == pytest.approx(again, abs=1e-5)
        ranked = {line["item"]: line["score"] for line in release["ranking"]}
        assert set(ranked) == set(ITEMS)
        dogs.append(round(shown[DOGS]))
    assert dogs == [1, 1, 2, 1, 1, 0]  # of the eager person the nights 0 and 2 count


LAPLACE = {"unit": "user", "epsilon": 1e5, "max_contributions": 6}


@pytest.mark.parametrize(
    ("changes", "pairs", "window"),
    [
        ({"method": "noisy-pairs", "input__design": "any"}, True, WINDOW),
        ({"schedule__stream": STREAM | {"show": "cumulative"}}, False, NIGHTS),
        ({"schedule__stream": STREAM | {"show": "night"}}, False, 1),
        ({"privacy": LAPLACE}, False, WINDOW),
        ({"privacy": LAPLACE | {"adjacency": "add-remove"}}, False, WINDOW),
    ],
)
def test_every_kind_of_stream_shows_what_counts(stream, command, changes, pairs, window):
    stream.set(**changes)
    code, printed = command(
        "backfill", stream.config, "--direct", "--from", DAYS[0], "--to", DAYS[2]
    )
    assert code == 0, printed
    for number, wanted in zip(range(3), expected(pairs=pairs, window=window), strict=False):
        wins = release_of(stream, number)["released"]["wins"]
        shown = np.array(wins if pairs else list(wins.values()))
        assert shown == pytest.approx(wanted, abs=0.2)
    assert ledger_of(read_survey(stream.config).config).balance().releases == 1


def test_catch_up_draws_all_nights_in_order_whatever_the_schedule_prefers(stream, command):
    stream.set(schedule__catch_up="newest-first", schedule__catch_up_days=0)
    code, printed = command("catch-up", stream.config, "--direct")
    assert code == 0, printed
    reserved = {e["release_id"]: e["night"] for e in events(stream) if e["event"] == "reserve"}
    nights = [reserved[e["release_id"]] for e in events(stream) if e["event"] == "draw"]
    assert nights == [str(day) for day in DAYS]
    code, printed = command("catch-up", stream.config, "--direct")
    assert "No night is due" in printed

    folder = stream_folder(stream)  # it has ended: nothing exact is left, and no key
    assert sorted(path.name for path in folder.rglob("*") if path.is_file()) == [
        *(f"{number:05d}.npz" for number in range(NIGHTS)),
        "law.json",
    ]
    for words in (["validate"], ["run", "--direct", "--date", DAYS[-1] + timedelta(days=1)]):
        code, printed = command(words[0], stream.config, *words[1:])
        assert code == 2, printed
        assert (
            f"ended on {DAYS[-1]}, its night 6. To continue, start a new stream (another" in printed
        )
    code, printed = command("ledger", "forecast", stream.config)
    assert f"ended on {DAYS[-1]}" in printed
    code, printed = command("ledger", "show", stream.config)
    assert "ended" in printed
    assert drawn(stream) == NIGHTS


def test_nights_that_cannot_be_drawn_spend_and_lose_nothing(stream, command):
    before = DAYS[0] - timedelta(days=1)
    for words, says in (
        (["--date", DAYS[1]], f"{DAYS[0]} comes first. hushrank catch-up draws all"),
        (["--date", before], f"Night {before} is before the first of its stream"),
        (["--date", DAYS[0], "--again"], "--again: a night of a stream is drawn once"),
        (["--date", DAYS[0], "--unsafe-seed", "1"], "--unsafe-seed is not for a night of a stream"),
    ):
        code, printed = command("run", stream.config, "--direct", *words)
        assert code == 2, printed
        assert says in printed
        assert "Nothing was read or spent." in printed
    assert not stream.output.exists()
    assert not list(stream.work.glob("*")) if stream.work.exists() else True
    assert not stream.ledger.exists()
    assert run(command, stream, 0)[0] == 0


def test_a_night_without_files_waits_or_is_one_without_rows(stream, command):
    stream.set(schedule__empty="fail")
    code, printed = command(
        "backfill", stream.config, "--direct", "--from", DAYS[0], "--to", DAYS[-1]
    )
    assert code == 2, printed
    assert "The stream waits for this night." in printed
    assert f"3 nights were not ranked: {DAYS[3]} to {DAYS[-1]}" in printed.replace("\n", " ") or (
        f"2 nights were not ranked: {DAYS[4]} to {DAYS[-1]}" in printed.replace("\n", " ")
    )
    assert drawn(stream) == EMPTY
    code, printed = command("ledger", "forecast", stream.config)
    assert f"is paid for until {DAYS[-1]}: 3 drawn, 3 left" in printed
    code, printed = command("validate", stream.config)
    assert code == 0, printed
    assert "no file" in printed
    stream.set(schedule__empty="skip")  # is no part of the stream
    assert run(command, stream, EMPTY)[0] == 0
    release = release_of(stream, EMPTY)
    assert release["stream"]["number"] == EMPTY + 1
    assert drawn(stream) == EMPTY + 1


def test_rows_that_come_late_are_not_read(stream, command):
    assert run(command, stream, 0)[0] == 0
    first = drawn_of(stream, 0)
    pq.write_table(log_of(9), stream.folder / f"log-{DAYS[0]}.parquet")
    code, printed = run(command, stream, 0)
    assert code == 0, printed
    assert "nothing was spent now" in printed
    assert f"Night {DAYS[0]} changed after its release" in printed
    assert "a night of a stream is drawn once, and rows that came late are not read" in printed
    assert drawn_of(stream, 0) == first
    assert drawn(stream) == 1


@pytest.mark.parametrize("number", [0, 1])
def test_a_night_whose_noise_is_stored_is_taken_up(stream, command, monkeypatch, number):
    """It died before the ledger's mark. Its file has changed since: that is not read."""
    stream.set(privacy__rho=0.5)
    for each in range(number):
        assert run(command, stream, each)[0] == 0
    with monkeypatch.context() as dying:
        dying.setattr(Ledger, "mark_drawn", lambda *_: exec("raise KeyboardInterrupt"))
        assert run(command, stream, number)[0] == 130
    stored = stream_folder(stream) / "released" / f"{number:05d}.npz"
    noise = np.load(stored)["released"]
    if number == 0:
        assert spent(stream) == 0
    pq.write_table(log_of(9), stream.folder / f"log-{DAYS[number]}.parquet")
    code, printed = run(command, stream, number)
    assert code == 0, printed
    assert release_of(stream, number)["stream"]["noisy"] == noise.tolist()
    assert drawn(stream) == number + 1
    assert run(command, stream, number + 1)[0] == 0


def test_a_lost_result_is_made_again_from_the_stream_and_never_drawn_again(stream, command):
    stream.set(privacy__rho=0.5)
    assert run(command, stream, 0)[0] == 0
    first = drawn_of(stream, 0)
    night = next(event["release_id"] for event in events(stream) if event["event"] == "draw")
    (stream.work / night / "drawn.npz").unlink()
    shutil.rmtree(stream.output)
    code, printed = run(command, stream, 0)
    assert code == 0, printed
    assert drawn_of(stream, 0) == first
    (stream.work / night / "drawn.npz").unlink()
    (stream_folder(stream) / "released" / "00000.npz").unlink()
    shutil.rmtree(stream.output)
    code, printed = run(command, stream, 0)
    assert code == 2, printed
    assert "is drawn once, so it is not drawn again: restore that folder" in printed
    code, printed = run(command, stream, 1)
    assert code == 2, printed
    assert f"does not hold what was drawn for night {DAYS[0]}" in printed
    assert drawn(stream) == 1


def test_a_folder_of_another_time_or_of_another_stream_is_refused(stream, command):
    assert run(command, stream, 0)[0] == 0
    folder = stream_folder(stream)
    shutil.copytree(folder, stream.folder / "older")
    assert run(command, stream, 1)[0] == 0
    shutil.copytree(folder, stream.folder / "newer")
    shutil.rmtree(folder)
    shutil.copytree(stream.folder / "older", folder)
    code, printed = run(command, stream, 2)
    assert code == 2, printed
    assert f"does not hold what was drawn for night {DAYS[1]}" in printed
    shutil.copy(stream.folder / "newer" / "released" / "00001.npz", folder / "released")
    code, printed = run(command, stream, 2)
    assert code == 2, printed
    assert "never finished, or whose files are lost" in printed
    # The people of the night before in the place of those of the night that is needed.
    shutil.copytree(folder / "people" / "00000", folder / "people" / "00001")
    code, printed = run(command, stream, 2)
    assert code == 2, printed
    assert "or whose files are lost or an older copy" in printed
    shutil.rmtree(folder)
    shutil.copytree(stream.folder / "newer", folder)
    (manifest,) = (folder / "people" / "00001").glob("*.json")
    told = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(told | {"stream": "0123456789abcdef"}))
    code, printed = run(command, stream, 2)
    assert code == 2, printed
    assert "belongs to another stream" in printed
    manifest.write_text(json.dumps(told))
    assert drawn(stream) == 2
    assert run(command, stream, 2)[0] == 0


def test_a_damaged_file_is_named_and_nothing_is_drawn(stream, command):
    stream.set(schedule__stream=STREAM | {"show": "cumulative"})
    assert run(command, stream, 0)[0] == 0
    folder, before = stream_folder(stream), stream.ledger.read_bytes()
    people = [str(path.relative_to(folder)) for path in folder.glob("people/**/*.*")]
    assert len(people) == 2
    kept = ("key.json", "law.json", "released/00000.npz", "cells/00000.npz")
    for name in (*kept, *people):
        path = folder / name
        content = path.read_bytes()
        for how, damage in DAMAGES.items():
            damage(path)
            code, printed = run(command, stream, 1)
            told = " ".join(printed.split())
            assert code in (1, 2), (name, how, printed)
            assert f"{folder}" in told, (name, how, printed)
            assert "Restore" in told, (name, how, printed)
            assert "Traceback" not in printed
            assert drawn(stream) == 1
            remove(path)
            path.write_bytes(content)
        if name != "law.json":  # which is calibrated again
            path.unlink()
            code, printed = run(command, stream, 1)
            assert code in (1, 2), (name, printed)
            assert folder.name in printed, (name, printed)
            path.write_bytes(content)
    assert drawn(stream) == 1
    assert stream.ledger.read_bytes().startswith(before)
    (folder / "cells" / "notes").touch()  # which is of no night
    replace_by_folder(folder / "shown" / "00000.npz")  # which is made again
    assert run(command, stream, 1)[0] == 0


def test_every_digit_of_the_key_and_the_law_is_known(stream, command):
    """Another key counts everybody anew; another law states what was not drawn."""
    assert run(command, stream, 0)[0] == 0
    for name in ("key.json", "law.json"):
        path = stream_folder(stream) / name
        content = path.read_text()
        digits = [place for place, sign in enumerate(content) if sign.isdecimal()]
        for place in digits[:: max(len(digits) // 6, 1)]:
            other = "1" if content[place] != "1" else "2"
            path.write_text(f"{content[:place]}{other}{content[place + 1 :]}")
            code, printed = run(command, stream, 1)
            assert code in (1, 2), (name, place, printed)
            assert "Restore" in printed
        path.write_text(content)
    assert drawn(stream) == 1


def test_a_key_and_a_law_of_earlier_versions_are_taken_as_they_are(stream, command):
    assert run(command, stream, 0)[0] == 0
    folder = stream_folder(stream)
    key, law = folder / "key.json", folder / "law.json"
    told = json.loads(key.read_text())
    del told["check"]
    key.write_text(json.dumps(told))
    law.write_text(law.read_text().partition("\n")[0])
    assert run(command, stream, 1)[0] == 0


def test_a_mechanism_that_fails_is_counted_and_ends_the_stream(stream, command, monkeypatch):
    assert run(command, stream, 0)[0] == 0
    with monkeypatch.context() as failing:
        name = "hushrank.privacy.stream.released_night"
        failing.setattr(name, raising(ValueError("counts are too large")))
        with pytest.raises(ValueError, match="too large"):
            run(command, stream, 1)
    for number, says in ((1, "is drawn once"), (2, f"The mechanism failed on night {DAYS[1]}")):
        code, printed = run(command, stream, number)
        assert code == 2, printed
        assert says in printed
    assert drawn(stream) == 2


def raising(error: Exception):
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def test_other_terms_are_another_stream_that_is_paid_for(stream, command):
    stream.set(ledger__epsilon=3e5)
    assert run(command, stream, 0)[0] == 0
    cost = spent(stream)
    for change in ({"gap": 3}, {"participations": 1}, {"show": "cumulative"}, {"nights": 7}):
        stream.set(schedule__stream=STREAM | change, output="second")
        code, printed = run(command, stream, 1)
        assert code == 2, printed
        assert f"{DAYS[0]} comes first" in printed
        assert "differ from those of stream" in " ".join(printed.split())
    assert run(command, stream, 0)[0] == 0
    assert spent(stream) > cost
    assert len(list(stream.work.glob("stream-*"))) == 2


def exact_files(survey: Survey) -> list[str]:
    """What is confidential in the stream's folder."""
    folder = stream_folder(survey)
    names = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    return [name for name in names if not name.startswith(("released", "shown", "law"))]


def test_an_abandoned_stream_is_ended_and_its_people_are_deleted(stream, command, monkeypatch):
    """Its second night died before the draw. The cost stays, and no night may follow."""
    assert run(command, stream, 0)[0] == 0
    cost = spent(stream)
    with monkeypatch.context() as dying:
        name = "hushrank.flows.run.stream_night.draw_night"
        dying.setattr(name, lambda *_: exec("raise KeyboardInterrupt"))
        assert run(command, stream, 1)[0] == 130
    survey = read_survey(stream.config)
    job = prepare_night(survey, DAYS[1], datetime.now(UTC))
    steps.reserve(job, MEMORY)  # killed: nobody gave it back
    code, printed = command("clean", stream.config)
    name = job.occasion.stream_id
    assert code == 0, printed
    assert f"stream {name}, which was to end on {DAYS[-1]}: 1 of 6 nights were drawn" in printed
    assert len(exact_files(stream)) >= 4
    before = stream.ledger.read_bytes()
    code, printed = command("clean", stream.config, "--end-stream", name)
    assert code == 0, printed
    assert "Nothing was changed" in printed
    assert stream.ledger.read_bytes() == before
    assert len(exact_files(stream)) >= 4
    for _ in range(2):  # again after a crash
        code, printed = command("clean", stream.config, "--end-stream", name, "--delete")
        assert code == 0, printed
        assert (
            "1 of 6 nights were drawn. The record of who counted and all exact counts are deleted"
            in printed
        )
        assert exact_files(stream) == []
    assert spent(stream) == cost
    assert drawn(stream) == 2  # the night, and the end of the stream
    code, printed = run(command, stream, 1)
    assert code == 2, printed
    assert "has ended before its last night: hushrank clean ended it" in printed
    assert command("ledger", "verify", stream.config)[0] == 0
    code, printed = command("ledger", "forecast", stream.config)
    assert "has ended before its last night: 1 drawn. Its cost stays." in " ".join(printed.split())
    code, printed = command("clean", stream.config)
    assert "No file is older than section retention allows" in printed
    for other in ("0123456789abcdef", job.release_id):
        code, printed = command("clean", stream.config, "--end-stream", other, "--delete")
        assert code == 2, printed
        assert "is no stream of zoo of which a night was drawn" in printed


def test_the_history_says_that_a_stream_is_paid_for_once(stream, command):
    for number in range(2):
        assert run(command, stream, number)[0] == 0
    code, printed = command("history", stream.config)
    assert code == 0, printed
    epsilon = f"{release_of(stream, 0)['privacy']['epsilon']:g}*"
    assert printed.count(epsilon) == 2
    assert "* total of the stream, charged once for all its nights." in printed


def test_a_catalogue_that_grows_is_refused_and_the_stream_goes_on_without_it(stream, command):
    grown = [*ITEMS, "eels"]
    assert run(command, stream, 0)[0] == 0
    cost, names = spent(stream), stream.settings["items"]
    stream.set(items={"names": grown}, output="second")
    code, printed = run(command, stream, 1)
    assert code == 2, printed
    assert "An item that appears later must be in items from the first night" in " ".join(
        printed.split()
    )
    assert spent(stream) == cost
    stream.set(items=names, output="out")
    assert run(command, stream, 1)[0] == 0
    assert spent(stream) == cost


def test_what_comes_after_the_end_of_a_stream_is_deleted(stream, command):
    """A job on another engine may outlive the last night, too."""
    terms = {"nights": 1, "participations": 1, "gap": 1, "show": "night", "first": str(DAYS[0])}
    stream.set(schedule__stream=terms)
    assert run(command, stream, 0)[0] == 0
    assert exact_files(stream) == []
    folder = stream_folder(stream)
    for name in ("counting/00000/a/exact.npz", "people/00000/a/0-00000-d.parquet"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(b"late")
    assert run(command, stream, 0)[0] == 0  # publishes the night again, and sweeps
    assert exact_files(stream) == []


def test_before_its_first_draw_a_stream_can_be_cancelled(stream, command):
    survey = read_survey(stream.config)
    job = prepare_night(survey, DAYS[0], datetime.now(UTC))
    assert steps.reserve(job, MEMORY) is not None
    steps.reduce(job, InProcessReducer().run)
    assert spent(stream) > 0
    code, printed = command("ledger", "cancel", stream.config, job.occasion.stream_id)
    assert code == 0, printed
    assert spent(stream) == 0
    assert not list(stream.work.rglob("cells/*.npz"))
    assert not list(stream.work.rglob("exact.npz"))
    assert run(command, stream, 0)[0] == 0
    code, printed = command("ledger", "cancel", stream.config, job.occasion.stream_id)
    assert code == 2, printed
    code, printed = command("resume", job.occasion.stream_id, stream.config)
    assert code == 2, printed
    assert "is a stream of nights, not a release" in printed


def counts_of(stream: Survey) -> list[Path]:
    found = (stream.work.rglob(name) for name in ("exact.npz", "cells/*.npz", "people/*/*.json"))
    return [path for each in found for path in each]


def test_with_a_full_ledger_disk_the_counts_of_a_night_are_deleted(stream, command, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("hushrank.flows.run.stream_night.settle", raising(OSError(errno.EIO, "disk")))
        patch.setattr(LedgerFile, "append", cancel_on_a_full_disk)
        code, printed = run(command, stream, 0)
    assert code == 1, printed
    assert counts_of(stream) != []  # its noise is stored already: the next run needs them
    shutil.rmtree(stream_folder(stream) / "released")
    with monkeypatch.context() as patch:
        patch.setattr(
            "hushrank.flows.run.stream_night.draw_night", raising(OSError(errno.EIO, "disk"))
        )
        patch.setattr(LedgerFile, "append", cancel_on_a_full_disk)
        code, printed = run(command, stream, 0)
    assert code == 1, printed
    assert counts_of(stream) == []
    told = " ".join(printed.split())
    assert "may still be reserved" in told
    assert told.endswith("hushrank ledger cancel ends it.")
    assert run(command, stream, 0)[0] == 0


LEDGER_APPEND = LedgerFile.append


def cancel_on_a_full_disk(file: LedgerFile, token: str, lines: bytes) -> bool:
    if b'"event":"cancel"' in lines:
        raise LedgerError("ledger.jsonl: the ledger cannot be written (No space left on device).")
    return LEDGER_APPEND(file, token, lines)


def test_cancelling_on_a_full_ledger_disk_deletes_the_counts_first(stream, command, monkeypatch):
    job = prepare_night(read_survey(stream.config), DAYS[0], datetime.now(UTC))
    ledger = ledger_of(job.config)
    steps.reserve(job, MEMORY)
    steps.reduce(job, InProcessReducer().run)
    assert counts_of(stream) != []
    cancel = ("ledger", "cancel", stream.config, job.occasion.stream_id)
    with monkeypatch.context() as patch:
        patch.setattr(LedgerFile, "append", cancel_on_a_full_disk)
        code, printed = command(*cancel)
        assert counts_of(stream) == []
    assert code == 2, printed
    assert " ".join(printed.split()).endswith(
        "may still be reserved. hushrank ledger cancel ends it."
    )
    steps.reduce(job, InProcessReducer().run)
    with ledger.run_lock(job.release_id), monkeypatch.context() as patch:
        patch.setattr(LedgerFile, "append", cancel_on_a_full_disk)
        assert command(*cancel)[0] == 2
        assert counts_of(stream) != []  # of a run that goes on
    with ledger.run_lock(job.release_id):
        assert command(*cancel)[0] == 0
    assert counts_of(stream) == []
    assert spent(stream) == 0


def test_counts_that_cannot_be_deleted_are_named(stream, command, monkeypatch):
    job = prepare_night(read_survey(stream.config), DAYS[0], datetime.now(UTC))
    steps.reserve(job, MEMORY)
    steps.reduce(job, InProcessReducer().run)
    with monkeypatch.context() as patch:
        broken = raising(OSError(errno.EIO, "Input/output error"))
        patch.setattr("hushrank.flows.run.stream_night.delete_counting", broken)
        code, printed = command("ledger", "cancel", stream.config, job.release_id)
    told = " ".join(printed.split())
    assert code == 1, printed
    assert f"Exact counts could not be deleted from {stream.work} (Input/output error)" in told
    assert f"Release {job.release_id} is given back." in told
    assert spent(stream) == 0


def test_a_stream_that_a_ledger_forgot_is_ended_when_it_is_recovered(stream, command):
    stream.set(ledger__path="budget/ledger.jsonl")
    assert run(command, stream, 0)[0] == 0
    shutil.copytree(stream.folder / "budget", stream.folder / "older")
    assert run(command, stream, 1)[0] == 0
    shutil.rmtree(stream.folder / "budget")
    shutil.copytree(stream.folder / "older", stream.folder / "budget")
    code, printed = run(command, stream, 2)
    assert code == 2, printed
    code, printed = command("validate", stream.config)
    assert code == 2, printed
    assert "would open a second budget for the same people" in printed
    cost = spent(stream)
    code, printed = command("ledger", "recover", stream.config, "--yes")
    assert code == 0, printed
    assert spent(stream) == cost
    for number in (1, 2):
        code, printed = run(command, stream, number)
        assert code == 2, printed
    assert "does not know which of its nights were drawn, so another could be" in " ".join(
        printed.split()
    )
    stream.set(schedule__stream=STREAM | {"first": str(DAYS[1])}, output="second")
    code, printed = run(command, stream, 1)
    assert code == 0, printed


def test_a_stream_with_every_place_in_the_cloud(survey, command, monkeypatch):
    nights, terms = 3, {"nights": 3, "show": {"window": 2}}
    with fake_cloud_storage("zoo") as store:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.url)
        for number, day in enumerate(DAYS[:nights]):
            pq.write_table(log_of(number), survey.folder / "log.parquet")
            content = (survey.folder / "log.parquet").read_bytes()
            CloudPath.parse(f"gs://zoo/in/log-{day}.parquet").write(content)
        for path in survey.folder.glob("*.parquet"):
            path.unlink()
        survey.set(
            input__paths=["gs://zoo/in/log-{date}.parquet"],
            privacy={"unit": "user", "rho": NO_NOISE, "noise": "gaussian", "max_contributions": 6},
            ledger={"path": "gs://zoo/budget/ledger.jsonl", "epsilon": 1e6, "delta": 1e-6},
            schedule={"stream": STREAM | terms},
            confidential="gs://zoo/work",
            output="gs://zoo/out",
        )
        code, printed = run(command, survey, 1)
        assert code == 2, printed
        assert run(command, survey, 0)[0] == 0
        code, printed = command("clean", survey.config)
        assert code == 0, printed
        assert "still records who counted in stream" in printed
        assert "Such a rule must spare folders of streams." in printed
        code, printed = command("clean", survey.config, "--delete")
        assert code == 2, printed
        assert "Leave --delete out." in printed
        code, printed = command("catch-up", survey.config, "--direct")
        assert code == 0, printed
        lines = store.content("zoo", "budget/ledger.jsonl").splitlines()
        told = [json.loads(line)["event"] for line in lines]
        assert told.count("draw") == nights
        left = [name for name in store.names("zoo") if name.startswith("work/stream-")]
        assert [name.rpartition("/")[2] for name in sorted(left)] == [
            "law.json",
            *(f"{number:05d}.npz" for number in range(nights)),
        ]
        for number, wanted in zip(range(nights), expected(window=2), strict=False):
            (name,) = (
                each
                for each in store.names("zoo")
                if f"releases/{DAYS[number]}" in each and each.endswith("release.json")
            )
            wins = json.loads(store.content("zoo", name))["released"]["wins"]
            assert np.array(list(wins.values())) == pytest.approx(wanted, abs=0.2)
    assert [path.name for path in survey.folder.iterdir()] == ["survey.yaml"]


def by_name(kind: pa.DataType) -> pa.Table:
    """The rows of a night: the same twenty people each time, five rows each."""
    users = np.repeat(np.arange(20), 5)
    rows = {"item_i": [ITEMS[0]] * 100, "item_j": [ITEMS[1]] * 100, "outcome": [1] * 100}
    return pa.table({"user": pa.array(users).cast(kind), **rows})


def of_one_participation(survey: Survey, ending: str = "parquet") -> Survey:
    """A stream in which each person counts on one night, and all nights so far are shown."""
    stream = {**STREAM, "participations": 1, "gap": 1, "show": "cumulative"}
    return survey.set(
        input__paths=[f"log-{{date}}.{ending}"],
        privacy={"unit": "user", "rho": NO_NOISE, "noise": "gaussian", "max_contributions": 5},
        ledger={"path": "ledger.jsonl", "epsilon": 1e6, "delta": 1e-6},
        schedule={"empty": "skip", "stream": stream},
    )


def put(survey: Survey, number: int, kind: pa.DataType) -> None:
    pq.write_table(by_name(kind), survey.folder / f"log-{DAYS[number]}.parquet")


def wins_so_far(survey: Survey, number: int) -> int:
    return round(sum(release_of(survey, number)["released"]["wins"].values()))


@pytest.mark.parametrize("kinds", [(pa.int64(), pa.string()), (pa.string(), pa.float64())])
def test_people_count_once_whatever_the_type_of_their_names_each_night(survey, command, kinds):
    stream = of_one_participation(survey)
    for number, kind in enumerate(kinds):
        put(stream, number, kind)
        code, printed = run(command, stream, number)
        assert code == 0, printed
        assert wins_so_far(stream, number) == 100


def begin_as_earlier(survey: Survey, command, monkeypatch) -> tuple[Path, dict[str, str]]:
    """Draw the first night as earlier versions did; what the stream keeps of its key, and where."""

    def by_type(column: pa.Array, keyed_hash: KeyedHash, _: Naming) -> Hashes:
        return hashes_by_type(column, keyed_hash)

    monkeypatch.setattr(encode, "pseudonyms", by_type)
    code, printed = run(command, survey, 0)
    assert code == 0, printed
    monkeypatch.setattr(encode, "pseudonyms", pseudonyms)
    path = stream_folder(survey) / "key.json"
    stored = json.loads(path.read_text())
    assert stored.pop("names") == "bare"
    del stored["check"]
    path.write_text(json.dumps(stored))
    return path, stored


def test_an_earlier_stream_of_csv_files_goes_on_and_counts_nobody_anew(
    survey, command, monkeypatch
):
    stream = of_one_participation(survey, "csv")
    for day in DAYS[:2]:
        pa.csv.write_csv(by_name(pa.int64()), stream.folder / f"log-{day}.csv")
    begin_as_earlier(stream, command, monkeypatch)
    code, printed = run(command, stream, 1)
    assert code == 0, printed
    assert wins_so_far(stream, 1) == 100


@pytest.mark.parametrize("first", [pa.int64(), pa.string()])
def test_an_earlier_stream_whose_types_nobody_knows_waits_for_the_operators_word(
    survey, command, monkeypatch, first
):
    stream = of_one_participation(survey)
    put(stream, 0, first)
    path, stored = begin_as_earlier(stream, command, monkeypatch)
    cost, before = spent(stream), len(events(stream))
    put(stream, 1, pa.int64())
    code, printed = run(command, stream, 1)
    assert code != 0
    assert f"{path}: an earlier version began this stream" in printed
    assert (spent(stream), len(events(stream))) == (cost, before)
    rule = "numbers" if first == pa.int64() else "texts"
    path.write_text(json.dumps({**stored, "names": rule}))
    for number, kind in ((1, pa.int64()), (2, pa.string())):
        put(stream, number, kind)
        code, printed = run(command, stream, number)
        assert code == 0, printed
        assert wins_so_far(stream, number) == 100


@pytest.mark.parametrize("how", ["copied", "moved", "begun by an earlier version", "new output"])
def test_a_stream_goes_on_elsewhere_and_pays_nothing(stream, command, monkeypatch, how):
    """After three nights; the copy is of everything, with the dates of today."""
    with monkeypatch.context() as patched:
        if how == "begun by an earlier version":
            by_place = SurveyConfig.job_hash
            patched.setattr(SurveyConfig, "job_hash", lambda job, **_: by_place(job, by_place=True))
        for number in range(3):
            assert run(command, stream, number)[0] == 0
    cost, other = spent(stream), stream
    if how == "copied":
        other = Survey(stream.folder.with_name(f"{stream.folder.name}-copy"), stream.settings)
        shutil.copytree(stream.folder, other.folder, copy_function=shutil.copy)
    if how == "moved":
        other = Survey(stream.folder.rename(f"{stream.folder}-moved"), stream.settings)
    if how == "new output":
        stream.set(output="second")
    for number in (3, 4):
        code, printed = run(command, other, number)
        assert code == 0, printed
    assert spent(other) == cost
    assert sum(event["event"] == "reserve" for event in events(other)) == 1 + 5
    assert command("validate", other.config)[0] == 0
