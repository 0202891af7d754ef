"""`hushrank.rank` and `hushrank.run`: the run of the command line, for a table or a YAML file.

`hushrank.estimate`: another model for counts that are public.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Unpack

from rich.text import Text

from hushrank.flows.assembly import run_job
from hushrank.flows.config.schedule import day_of
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.display import StepDisplay, show_alerts
from hushrank.flows.errors import (
    BudgetRefused,
    ConfigError,
    UninformativeWarning,
    check_address_space,
    text_of,
)
from hushrank.flows.interfaces.python.arguments import plain_argument, plainly, releasing
from hushrank.flows.interfaces.python.configuration import (
    UNSAFE_WITHOUT_REASON,
    Keywords,
    PathLike,
    asked_of,
    check_keyword_deltas,
    local_area,
)
from hushrank.flows.interfaces.python.release import Release
from hushrank.flows.interfaces.python.tables import batches_of, table_file
from hushrank.flows.ledger.keys import LedgerKey, ledger_key
from hushrank.flows.nights.nights import run_night
from hushrank.flows.reading import Reducer
from hushrank.flows.refit import fitted
from hushrank.flows.refit.fitted import Fitted
from hushrank.flows.run.context import Job, Survey
from hushrank.flows.run.job import check_places, log_note, prepare_job, read_survey
from hushrank.flows.run.stages import Outcome, directly
from hushrank.flows.terminal import Console
from hushrank.transforms.tables.names import PYTHON, BeamSource

PATHS = (str, os.PathLike)
SEEDED = "seed: a seeded release protects nobody. For a test, add unsafe=True."
OTHER_TOTAL = (
    "The total budget is the recorded one, or the cost of the first release. To set another, pass"
    " total_epsilon=..., decided before you look at any result."
)
WAIT = 600.0
NO_NOISE = (
    "epsilon: inf adds no noise, so it protects nobody. Set a finite epsilon; or, for a simulation,"
    " add unsafe=True."
)


@releasing
def rank(
    answers: Any,
    *,
    night: date | str | None = None,
    again: bool = False,
    seed: int | None = None,
    unsafe: bool = False,
    anyway: bool = False,
    wait: float = WAIT,
    progress: bool | None = None,
    **asked: Unpack[Keywords],
) -> Release:
    """Rank privately what people answered, once: the same call again returns the same release.

    Args:
        answers: a pandas, polars or Arrow table, a DuckDB relation, or any other table of Arrow's
            C stream or the data-frame protocol; a list of dicts; or paths, as in the YAML file.
        night: the day whose rows to rank, if `schedule` or a path selects nights.
        again: draw afresh what was released before; this costs again.
        seed: draw all noise from this seed, for a test; needs `unsafe=True`.
        unsafe: allow a release that protects nobody: without a ledger, of a seed, or without noise.
            It is marked, and is not for publication.
        anyway: accept a delta above 1e-5, at which the promise of epsilon may fail for too many,
            and an epsilon that buys nothing by the plan's formula.
        wait: most seconds to wait where another thread or process is at the same
            release, whose draw is then shared, or at another night of these people.
        progress: show each step; None: in a notebook or at a terminal.
        **asked: see `Keywords`.

    Warns:
        UninformativeWarning: the release teaches nothing: noise and chance explain all of it.

    Raises:
        ConfigError: a keyword, a column or the table breaks a rule. Nothing was spent.
        BudgetRefused: the ledger does not hold what this would cost. No row was counted.
        RunInProgress: another one went on for longer than `wait`. Nothing was spent.
        HushrankError: anything else; the text says whether budget was spent.
    """
    paths, day = paths_of(answers), _day(night)
    survey = asked_of(asked, paths, unsafe=unsafe, anyway=anyway)
    check_keyword_deltas(survey.config, anyway=anyway)
    private = survey.config.privacy.private
    _check_unsafe(private=private, counted=survey.counted, seed=seed, unsafe=unsafe)
    check_places(survey.config, unsafe=_uncounted(survey, seed))
    survey.mechanism  # noqa: B018 - whatever the method refuses, it refuses before the table is read
    with running(progress, wait) as execute, held(survey, answers, paths) as ready:
        try:
            return _released(ready, day, execute, again=again, seed=seed, wait=wait)
        except BudgetRefused as error:
            if asked.get("total_epsilon") is None:
                text = f"{text_of(error)} {OTHER_TOTAL}"
                raise BudgetRefused(text, *error.problems) from None
            raise


@releasing
def run(
    survey: str | os.PathLike[str],
    *,
    source: Any = None,
    night: date | str | None = None,
    again: bool = False,
    seed: int | None = None,
    unsafe: bool = False,
    anyway: bool = False,
    wait: float = WAIT,
    progress: bool | None = None,
) -> Release:
    """Run the job of a YAML file, as `hushrank run` does; the other arguments as for `rank`.

    Args:
        survey: the YAML file.
        source: an `apache_beam.PTransform` that yields the rows: dicts, `beam.Row`s, named tuples
            or Arrow batches. The file then has `input.version`, the public name of these rows, in
            place of `input.paths`. The same version again is the same release: it spends nothing,
            and reads nothing.

    Raises:
        ConfigError: `source` is no transform, or the file names other rows. Nothing was spent.
        HushrankError: as for `rank`.
    """
    day = _day(night)
    read = read_survey(Path(survey), no_privacy=unsafe and seed is None, anyway=anyway)
    _check_unsafe(private=read.config.privacy.private, counted=True, seed=seed, unsafe=unsafe)
    if source is not None:
        read.source = _source_in(source, read.config)
    with running(progress, wait) as execute:
        return _released(read, day, execute, again=again, seed=seed, wait=wait)


def _source_in(source: Any, config: SurveyConfig) -> BeamSource:
    """The transform in the form in which it reaches the process that reads rows.

    Raises:
        ConfigError: the object is no transform, or cannot be sent, or the configuration names other
            rows.
    """
    import apache_beam  # slow to load
    from apache_beam.internal import pickler

    if not isinstance(source, apache_beam.PTransform):
        raise ConfigError(
            f"source: must be a Beam PTransform that yields rows, got a {type(source).__name__}."
            " For a table in memory, call hushrank.rank. Nothing was read or spent."
        )
    if config.input.version is None or config.input.source is not None:
        raise ConfigError(
            "source: the YAML file names other rows; write input.version, a public name of the rows"
            f" of this transform, in place of input.{'source' if config.input.source else 'paths'}."
            " Nothing was read or spent."
        )
    try:
        return BeamSource(PYTHON, pickled=pickler.dumps(source))
    except Exception as error:
        name = type(error).__name__
    raise ConfigError(
        f"source: the transform cannot be sent to the process that reads rows ({name}). Build it of"
        " functions and plain values, without open files or connections. Nothing was read or spent."
    )


def _released(
    survey: Survey,
    night: date | None,
    execute: Callable[[Job], Outcome],
    *,
    again: bool,
    seed: int | None,
    wait: float,
) -> Release:
    if _uncounted(survey, seed):
        if again:
            raise ConfigError(
                "again: makes a release that a ledger counts, but no ledger counts this one;"
                " leave it"
                " out. Nothing was read or spent."
            )
        return _told(execute(prepare_job(survey, seed=seed, night=night)))
    if night is None:
        return _told(execute(prepare_job(survey, again=again)))
    now = datetime.now(UTC)
    return _told(run_night(survey, night, now, execute, again=again, wait=wait))


def _told(outcome: Outcome) -> Release:
    """The release, with a warning of Python's where it teaches nothing."""
    release = Release.of(outcome)
    if not outcome.release.informative:
        text = f"{release.name}, release {release.id}: {release.verdict}"
        # at the caller's line: below it are `releasing`, `rank` or `run`, `_released` and this
        warnings.warn(text, UninformativeWarning, stacklevel=5)
    return release


def _uncounted(survey: Survey, seed: int | None) -> bool:
    """Whether no ledger counts the release, so that it protects nobody."""
    return seed is not None or not survey.config.privacy.private or not survey.counted


def paths_of(answers: Any) -> list[str] | None:
    """Return the paths that `answers` names, or None if it is a table.

    Raises:
        ConfigError: a path cannot be one.
    """
    # check the type only: an object of the caller's own class may raise from any method
    if issubclass(type(answers), PATHS):
        return [plain_argument("answers", answers, PathLike)]
    entries = answers if type(answers) in (list, tuple) else ()
    if entries and all(issubclass(type(each), PATHS) for each in entries):
        return [plain_argument("answers", each, PathLike) for each in entries]
    return None


@contextmanager
def held(
    survey: Survey, answers: Any, paths: Sequence[str] | None, key: LedgerKey | None = None
) -> Iterator[Survey]:
    """Yield the survey with a copy of the table in place of files, while the block lasts.

    Args:
        survey: the job.
        answers: the table, unless `paths` are given.
        paths: files to read instead of a table.
        key: names the rows; None: the key of the ledger, which is made if there is none.

    Raises:
        ConfigError: see `batches_of` and `table_file`.
    """
    if paths is not None:
        yield survey
        return
    config = survey.config
    columns = config.columns()
    batches = batches_of(answers, columns, _further(config))
    named = key or ledger_key(config.ledger.path)
    roles = [*columns.roles(), *(("window", name) for name in _further(config))]
    with table_file(batches, roles, local_area(config), named) as file:
        survey.held = (file,)
        yield survey


def _further(config: SurveyConfig) -> list[str]:
    """Names of other columns that are read: that of the window of a night."""
    return [] if config.schedule.window is None else [config.schedule.window]


@contextmanager
def running(progress: bool | None, wait: float) -> Iterator[Callable[[Job], Outcome]]:
    """Yield a function that runs jobs, with a child process that reads the rows.

    Raises:
        ConfigError: this process may use too little memory.
    """
    check_address_space()
    console = Console()
    visible = (console.is_jupyter or console.is_terminal) if progress is None else progress

    def tell(note: str) -> None:
        console.print(Text(note, style="yellow"), soft_wrap=True)

    with Reducer() as reducer:

        def execute(job: Job) -> Outcome:
            perform = StepDisplay(console, job, reducer.reader).perform if visible else directly
            outcome = run_job(job, reducer, perform, tell if visible else log_note, wait)
            if visible:
                show_alerts(console, outcome)
            return outcome

        yield execute


def _check_unsafe(*, private: bool, counted: bool, seed: int | None, unsafe: bool) -> None:
    if not unsafe:
        if seed is not None:
            raise ConfigError(SEEDED)
        if not private:
            raise ConfigError(NO_NOISE)
    elif private and counted and seed is None:
        raise ConfigError(UNSAFE_WITHOUT_REASON)


def _day(night: date | str | None) -> date | None:
    return day_of(night, "night") if isinstance(night, str) else night


@plainly
def estimate(
    matrices: PathLike,
    *,
    link: str | None = None,
    ridge: float | None = None,
    estimator: str | None = None,
    tie_model: str | None = None,
    exposures: PathLike | None = None,
    elo: bool = False,
) -> Fitted:
    """Fit a model to public counts; this reads no row and spends nothing.

    Args:
        matrices: the folder of a finished release, its `release.json`, or a table of public pair
            counts (.csv, .parquet) with the columns left, right, left_wins, right_wins and, if they
            are counted, ties.
        link: logistic (the default), probit or laplace.
        ridge: weight c of c |scores|^2, finite and > 0; by default as much as suits the noise.
        estimator: likelihood (the default) or spectral, Rank Centrality, of a matrix of wins whose
            job states a design of chance.
        tie_model: davidson or rao-kupper, of counts with ties.
        exposures: a CSV file of public numbers of comparisons, of each item (item, exposure) or
            pair (left, right, comparisons); never counted in the answers.
        elo: write log odds as Elo ratings.

    Raises:
        ConfigError: the counts cannot be fitted so; the text says why, and what can.
    """
    return fitted.estimate(
        Path(matrices),
        link=link,
        ridge=ridge,
        estimator=estimator,
        tie_model=tie_model,
        exposures=None if exposures is None else Path(exposures),
        elo=elo,
    )
