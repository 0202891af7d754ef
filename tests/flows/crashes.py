"""A run that is struck at one of its file operations, in a child of a process that has all loaded.

`strike_runs` is for a process without threads: only such a one can be forked at will. After each
blow it checks what must hold then, has the next run go on, and checks what must hold after that.
"""

from __future__ import annotations

import contextlib
import errno
import io
import itertools
import json
import os
import re
import shutil
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hushrank.flows import reading as reduction
from hushrank.flows import terminal
from hushrank.flows.assembly import MEMORY
from hushrank.flows.interfaces.cli.main import main
from hushrank.flows.report import page as report
from hushrank.flows.run import run as running
from hushrank.flows.run.confidential_folder import Exact
from hushrank.flows.run.context import Job, ledger_of
from hushrank.flows.run.job import prepare_job, read_survey
from hushrank.flows.run.run import draw, reduce, reserve
from hushrank.pipelines.engine import runner
from tests.flows.conftest import InProcessReducer, SharedReducer, Survey
from tests.flows.every_method import survey_of

NIGHTLY = "nightly"  # one night of win counts
STOPPING = "stopping"  # a survey that a look at its rows stops
STREAM_FIRST, STREAM_NEXT, STREAM_LAST = "first night", "next night", "last night"  # of a stream
METERED_NEXT, SQUARES_NEXT = "next night, metered rows", "next night, squares"
PEOPLE = 6
KILL = signal.Signals["SIGKILL"]  # Windows has no name for it
RESUMING = "many files"  # a run whose finished parcels wait
FINDING = "noisy-pairs, found names"  # a run that draws names of items before their ranking
NEVER = 10**9
FIRST_APART = 13
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
TAKE_SPACE = ("write", "fsync", "replace", "rename", "mkdir")
TAKE_NONE = ("unlink", "remove", "rmdir", "ftruncate", "chmod")
WAITS = re.compile(r"work/[0-9a-f]{16}/\.(counting|waiting\.[0-9a-f]{32})").fullmatch
MAY_STAY = re.compile(
    r"rows[-0-9]*\.parquet|survey\.yaml|printed"
    r"|out/(releases/[^/.][^/]+/(SHA256SUMS|{0})|{0})"
    r"|work/ledgers\.json"
    r"|work/[0-9a-f]{{16}}/(drawn\.npz|names\.json|diagnostics\.json|draw-failed"
    r"|rejects/[0-9a-f]+\.parquet)"
    r"|work/stream-[0-9a-f]{{16}}/(law\.json|key\.json|(released|cells|shown)/[0-9]+\.npz"
    r"|people/[0-9]+/([0-9a-f]{{64}}\.json|[0-9a-f]{{32}}/[0-9]+-[0-9]+-[0-9a-f]{{64}}\.parquet))"
    r"|ledger\.jsonl(\.lock|\.length|\.key|\.runs/[^/]+\.lock)?".format(
        r"(release\.json|certificate\.json|report\.html"
        r"|(ranking|effects|scores|steps|dif|fit|rounds|precincts)\.csv)"
    )
)


class Blow(StrEnum):
    """What strikes."""

    KILLED = "SIGKILL"
    TERMINATED = "SIGTERM"
    HUNG_UP = "SIGHUP"
    FULL = "ENOSPC"  # from then on
    BROKEN = "EIO"  # once

    @property
    def signal(self) -> int | None:
        """Its number, if it is one."""
        return signal.Signals.__members__.get(self.value)


class Fault:
    """Strikes before the `step`-th file operation; `count` is how many there were.

    Reading counts below `folder` alone: elsewhere Python reads its own files.
    """

    def __init__(self, step: int, blow: Blow, folder: Path) -> None:
        self.step = step
        self.blow = blow
        self.folder = f"{folder}/"
        self.count = 0

    def strike(self, *, takes_space: bool = True) -> None:
        self.count += 1
        if self.blow.signal is not None:
            if self.count == self.step:
                os.kill(os.getpid(), self.blow.signal)
        elif self.count >= self.step and self.blow is Blow.FULL and takes_space:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "disk")
        elif self.count == self.step and self.blow is Blow.BROKEN:
            raise OSError(errno.EIO, os.strerror(errno.EIO), "disk")

    def install(self) -> None:
        """Into this process, for good: it is a child that ends soon."""
        for name in TAKE_SPACE + TAKE_NONE:
            setattr(os, name, self._before(getattr(os, name), name in TAKE_SPACE))
        open_file, open_descriptor = io.open, os.open

        def checked_open(file: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
            if set(mode) & set("wax+"):
                self.strike()
            elif str(file).startswith(self.folder):
                self.strike(takes_space=False)
            return open_file(file, mode, *rest, **named)

        def checked_descriptor(path: Any, flags: int, *rest: Any, **named: Any) -> int:
            if flags & WRITES:
                self.strike()
            elif str(path).startswith(self.folder):
                self.strike(takes_space=False)
            return open_descriptor(path, flags, *rest, **named)

        io.open = checked_open  # type: ignore[assignment]
        os.open = checked_descriptor

    def _before(self, function: Callable[..., Any], takes_space: bool) -> Callable[..., Any]:
        def checked(*arguments: Any, **named: Any) -> Any:
            self.strike(takes_space=takes_space)
            return function(*arguments, **named)

        return checked


def drawn_job_of(config: Path) -> Job:
    """A job whose run died between the draw and the publication."""
    job = prepare_job(read_survey(config))
    reserve(job, MEMORY)
    reduce(job, SharedReducer().run)
    draw(job, Exact(job.work))
    return job


def in_child(work: Callable[[], int], printed: Path) -> int:
    """Exit code of `work` in a child process; minus the signal's number where one killed it."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _work_and_exit(work, printed)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _work_and_exit(work: Callable[[], int], printed: Path) -> NoReturn:
    code = 99
    with contextlib.suppress(OSError):
        output = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
    sys.stdout = sys.stderr = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), write_through=True)
    try:
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def exit_code(arguments: tuple[object, ...], fault: Fault | None = None) -> int:
    """Of `hushrank` with these arguments, in this process."""
    if fault is not None:
        fault.install()
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


@dataclass
class Struck:
    """What strikes one survey, and what is known of its release.

    Attributes:
        stops: a look at its rows stops it: the look is all that is drawn and paid for.
        before: nights that run before it, of the same stream.
        ends: whether the stream ends with it.
        resumes: whether parcels of its count wait after a signal.
        operations: number of its file operations.
        counting: those of them in which rows are counted, by number.
    """

    survey: Survey
    night: date | None = None
    stops: bool = False
    before: tuple[date, ...] = ()
    ends: bool = False
    resumes: bool = False
    spent: float = 0.0
    operations: int = 0
    counting: range = range(0)

    @property
    def good(self) -> int:
        """Exit code of a run that nothing strikes."""
        return 4 if self.stops else 0

    @property
    def end(self) -> str:
        """State of the release after it."""
        return "stopped" if self.stops else "committed"

    @property
    def printed(self) -> Path:
        return self.survey.folder / "printed"

    def run(self) -> tuple[object, ...]:
        night = () if self.night is None else ("--date", self.night)
        return ("run", self.survey.config, "--direct", *night)

    def job(self) -> Job:
        return prepare_job(read_survey(self.survey.config), night=self.night)

    @property
    def saved(self) -> Path:
        """What the nights before it have left."""
        return self.survey.folder.with_name(f"{self.survey.folder.name}-before")

    def learn(self) -> None:
        """Run it once unharmed: now everything is loaded, and its operations are counted."""
        for night in self.before:
            assert exit_code(("run", self.survey.config, "--direct", "--date", night)) == 0
        if self.before:
            shutil.copytree(self.survey.folder, self.saved)
        assert exit_code(self.run()) == self.good
        self.spent = ledger_of(self.job().config).balance().spent_epsilon
        self.start_anew()
        count = self.survey.folder / "printed"

        def counted() -> int:
            fault = Fault(NEVER, Blow.BROKEN, self.survey.folder)
            counting: list[int] = []

            def noted(*arguments: Any) -> Exact:
                counting.append(fault.count + 1)
                exact = reduce(*arguments)
                counting.append(fault.count + 1)
                return exact

            running.reduce = noted
            code = exit_code(self.run(), fault)
            sys.stdout.write(f"\n{counting[0]} {counting[1]} {fault.count}")
            return code

        assert in_child(counted, count) == self.good, count.read_text()
        start, stop, self.operations = map(int, count.read_text().split()[-3:])
        self.counting = range(start, stop)

    def start_anew(self) -> None:
        for path in (self.survey.output, self.survey.work, Path(f"{self.survey.ledger}.runs")):
            shutil.rmtree(path, ignore_errors=True)
        for path in self.survey.folder.glob("ledger.jsonl*"):
            path.unlink()
        if self.before:
            shutil.copytree(self.saved, self.survey.folder, dirs_exist_ok=True)

    def strike(self, step: int, blow: Blow) -> str:
        """One blow and the run after it; how far the release had got in between."""
        self.start_anew()
        code = in_child(
            lambda: exit_code(self.run(), Fault(step, blow, self.survey.folder)), self.printed
        )
        told, job = self.printed.read_text(), self.job()
        ledger = ledger_of(job.config)
        state = str(ledger.state(job.release_id))
        assert "Traceback" not in told, told
        assert code in ((-KILL,) if blow is Blow.KILLED else (0, 1, 2, 130, self.good)), (
            code,
            told,
        )
        assert ledger.balance().releases <= 1
        drawn, public = job.work / "drawn.npz", self.public()
        noise = drawn.read_bytes() if drawn.exists() else None
        found = self.found_names(job)
        if noise is not None or public:
            assert state in ("drawn", self.end), "noise that was not paid for"
        if blow in (Blow.TERMINATED, Blow.HUNG_UP):
            assert state != "reserved", "not given back"
            left = [name for name in self.left_over() if not self.resumes or not WAITS(name)]
            assert not left, (left, told)
            assert bool(self.left_over()) == ("waits in" in told), (self.left_over(), told)
        if blow is not Blow.KILLED:
            self.check_told(state, told)

        for name in self.left_over():  # the next run comes later
            os.utime(self.survey.folder / name, (0, 0))
        waits = state == ("stopped" if self.stops else "drawn")
        resumes = waits and not public and step % 2
        again = ("resume", job.release_id, self.survey.config) if resumes else self.run()
        code = in_child(lambda: exit_code(again), self.printed)
        assert code == self.good, self.printed.read_text()
        marks = [event for event in self.events() if event in ("draw", "stop")]
        assert not found or self.found_names(job) == found, "other names were drawn"
        once = ["stop" if self.stops else "draw"]
        assert marks == [*["draw"] * len(self.before), *once], "paid twice"
        balance = ledger.balance()
        assert (balance.spent_epsilon, balance.releases) == (self.spent, 1)
        assert str(ledger.state(job.release_id)) == self.end
        assert len(self.public()) == (0 if self.stops else 1)
        assert not public or self.public() == public, "a second noisy copy in public"
        assert noise is None or drawn.read_bytes() == noise, "a second noisy copy"
        assert not self.left_over(), self.left_over()
        if self.ends:
            exact = [
                *self.survey.work.glob("stream-*/cells/*"),
                *self.survey.work.glob("*/key.json"),
            ]
            assert not exact, exact
        return state

    def check_told(self, state: str, told: str) -> None:
        """Whatever private or reserved is left by a run that could speak, it has told of."""
        for path in self.exact(state):
            folder = path.relative_to(self.survey.work).parts[0]
            assert f"Exact counts could not be deleted from {self.survey.work / folder} " in told, (
                path,
                told,
            )
        if state == "reserved":
            assert told.rstrip().endswith("hushrank ledger cancel ends it."), told

    def exact(self, state: str) -> list[Path]:
        """Exact counts that no later night needs: all of the release, and of its stream."""
        work, number = self.survey.work, f"{len(self.before):05d}"
        found = [*work.rglob("exact.npz"), *work.rglob(".exact.npz.*")]
        if self.ends and state in ("drawn", self.end):
            return [*found, *work.glob("stream-*/cells/*")]
        if not list(work.glob(f"stream-*/released/{number}.npz")):
            found += work.glob(f"stream-*/cells/{number}.npz")
        return found

    def public(self) -> dict[str, bytes]:
        """Every release that is kept, with its certificate, by its folder."""
        kept = self.survey.output.glob("releases/[!.]*/release.json")
        earlier = {str(night) for night in self.before}
        names = (path for path in kept if path.parent.name[:10] not in earlier)
        return {
            path.parent.name: path.read_bytes() + path.with_name("certificate.json").read_bytes()
            for path in names
        }

    def left_over(self) -> list[str]:
        """Files that nobody needs after a run."""
        folder = self.survey.folder
        names = (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        return sorted(name for name in names if not MAY_STAY.fullmatch(name))

    def events(self) -> list[str]:
        """Events of the ledger; a draw of names, of which there is one at most, is `names`."""
        lines = [json.loads(line) for line in self.survey.ledger.read_text().splitlines()]
        events = ["names" if line.get("names") else line["event"] for line in lines]
        assert events.count("names") <= 1
        return events

    def found_names(self, job: Job) -> str:
        """Names of items that were drawn, as they are stored by themselves or with the noise."""
        with contextlib.suppress(FileNotFoundError):
            return (job.work / "names.json").read_text()
        if not (drawn := job.work / "drawn.npz").exists():
            return ""
        with np.load(drawn) as arrays:
            return str(arrays["names"]) if "names" in arrays else ""


def strike_runs(names: Sequence[str], folder: str, stride: int) -> Counter[str]:
    """Strike a run of each variant of `every_method`, `NIGHTLY` or `STOPPING`, at its operations.

    Args:
        names: of the variants.
        folder: for their surveys.
        stride: take every so many-th pair of an operation and of what strikes it; another first one
            for each variant, so that all operations and blows take turns. Of a count whose parcels
            wait, every operation meets every blow but SIGHUP, which ends a run as SIGTERM does.

    Returns:
        How often a run had got how far when it stopped.
    """
    assert "apache_beam" not in sys.modules
    report.render_report = lambda *_, **__: "<html></html>"  # for the time that plots take
    reduction.Reducer = InProcessReducer  # type: ignore[misc, assignment]
    stopped_after: Counter[str] = Counter()
    for number, name in enumerate(names):
        struck = struck_survey(name, Path(folder) / str(number))
        struck.learn()
        hangs_up = Blow.HUNG_UP.signal in terminal.STOPPING
        blows = [each for each in Blow if hangs_up or each is not Blow.HUNG_UP]
        pairs = itertools.product(range(1, struck.operations + 1), blows)
        taken = list(itertools.islice(pairs, number * FIRST_APART % stride, None, stride))
        if struck.resumes:
            every = itertools.product(struck.counting, set(blows) - {Blow.HUNG_UP})
            taken += [pair for pair in every if pair not in taken]
            assert len(struck.counting) > 50
        for step, blow in taken:
            try:
                stopped_after[struck.strike(step, blow)] += 1
            except AssertionError as failure:
                failure.add_note(f"{name}: {blow} at operation {step} of {struck.operations}")
                raise
    return stopped_after


def struck_survey(name: str, folder: Path) -> Struck:
    """Six people answer."""
    if name == STOPPING:
        survey = survey_of("noisy-counts, look", folder, PEOPLE)
        survey.set(input__words={"left": ["first"], "right": ["second"]})  # which nobody says
        return Struck(survey, stops=True)
    if name == RESUMING:
        return _of_many_files(folder)
    if name in STREAM_NIGHTS:
        return _of_stream(folder, *STREAM_NIGHTS[name])
    if name == METERED_NEXT:
        participation = {"rows": 3, "pair_gap": 2, "burst": 3}
        return _of_stream(folder, 1, 3, "noisy-pairs", {"participation": participation})
    if name == SQUARES_NEXT:
        participation = {"squares": 6, "gap": 2, "burst": 6}
        return _of_stream(folder, 1, 3, "win-loss, gaussian", {"participation": participation})
    if name != NIGHTLY:
        return Struck(survey_of(name, folder, PEOPLE))
    night, survey = date(2024, 11, 20), survey_of("noisy-counts", folder, PEOPLE)
    survey.set(input__paths=["rows-{date}.parquet"])
    (folder / "rows.parquet").rename(folder / f"rows-{night}.parquet")
    return Struck(survey, night)


def _of_many_files(folder: Path) -> Struck:
    """Three files, which are enough here for parcels that wait."""
    runner.LARGE_FILES = 3
    survey = survey_of("noisy-counts", folder, PEOPLE)
    survey.set(input__paths=["rows-?.parquet"], runner={"kind": "local", "workers": 1})
    rows = pq.read_table(folder / "rows.parquet")
    for part in range(3):
        mine = rows.slice(len(rows) * part // 3, len(rows) // 3)
        pq.write_table(mine, folder / f"rows-{part}.parquet")
    (folder / "rows.parquet").unlink()
    return Struck(survey, resumes=True)


STREAM_NIGHTS = {STREAM_FIRST: (0, 3), STREAM_NEXT: (1, 3), STREAM_LAST: (2, 3)}


def _of_stream(
    folder: Path,
    number: int,
    nights: int,
    method: str = "noisy-counts, rho",
    terms: dict[str, Any] | None = None,
) -> Struck:
    """A night of a stream that ranks groups over the last two nights, after those before it."""
    first = date(2024, 11, 20)
    days = [first + timedelta(days=each) for each in range(nights)]
    survey = survey_of(method, folder, PEOPLE)
    show, terms = {"window": 2}, terms or {"participations": 2, "gap": 2}
    survey.set(
        input__paths=["rows-{date}.parquet"],
        schedule={"stream": {"nights": nights, **terms, "show": show, "first": str(first)}},
        groups={"column": "language", "values": ["de", "en"]},
    )
    rows = pq.read_table(folder / "rows.parquet")
    languages = pa.array(["de", "en"]).take(pa.array(np.arange(len(rows)) % 2))
    for day in days:
        pq.write_table(rows.append_column("language", languages), folder / f"rows-{day}.parquet")
    (folder / "rows.parquet").unlink()
    before, ends = tuple(days[:number]), number == nights - 1
    return Struck(survey, days[number], before=before, ends=ends)
