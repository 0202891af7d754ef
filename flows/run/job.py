"""One run of one configuration on the present files, and the identity of its release.

Reasons against a run, which are told before anything is reserved for it.  Nothing here reads a
row. All of it comes from the configuration, the names and headers of the files, the ledger, and
the plan's formulas.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from pathlib import Path

from hushrank.flows.config.apart import check_written_places
from hushrank.flows.config.items import COMPLETE_ORDERS
from hushrank.flows.config.language import Language
from hushrank.flows.config.privacy import check_deltas
from hushrank.flows.config.runner import DataflowRunner, FlinkRunner
from hushrank.flows.config.section import GivenRows, Reading, check_can_be_made
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError, MethodRefused, require
from hushrank.flows.ledger.account import Attempt, ReleaseState
from hushrank.flows.ledger.keys import InputNames, find_key, ledger_key
from hushrank.flows.ledger.texts import spend_text
from hushrank.flows.methods.registry import load_config
from hushrank.flows.planning.plan.survey import few_people_note, refusal, worth_of
from hushrank.flows.release.archive import archived, find_archived
from hushrank.flows.release.identity import Contents, input_names
from hushrank.flows.release.publish import check_output
from hushrank.flows.run.confidential_folder import check_confidential, finds_drawn
from hushrank.flows.run.context import Job, Occasion, Survey, unnamed_inputs
from hushrank.flows.run.input_files import (
    column_notes,
    files_of,
    input_of,
    tables_of,
    told_as_input,
)
from hushrank.flows.run.stages import SingleRelease
from hushrank.privacy.units import Unit
from hushrank.transforms import system
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.storage.files import FileFormat, source_of


def occasion_of(job: Job) -> Occasion:
    """Return the occasion of `job`'s release: a release by itself, or a night of a stream.

    Raises:
        LedgerError: the ledger's secret cannot be read or made.
    """
    if job.config.schedule.stream is None or job.night is None:
        return SingleRelease()
    from hushrank.flows.run.stream_night import StreamNight

    return StreamNight.of(job.key, job.config, job.night, job.ledger)


def prepare_job(
    survey: Survey,
    *,
    seed: int | None = None,
    night: date | None = None,
    again: bool = False,
    known_id: str | None = None,
) -> Job:
    """Check everything that can be checked without opening an input file or spending budget.

    Args:
        survey: the configuration.
        seed, night, again, known_id: see `Job`.

    Raises:
        NightWithoutFiles: an input path names no file for that night.
        ConfigError: the configuration, an input file or the output folder breaks a rule.
    """
    path, config = survey.path, survey.config
    if seed is not None and config.schedule.stream is not None:
        raise ConfigError(
            f"{path}: --unsafe-seed is not for a night of a stream, whose noise is part of the"
            " nights after it; leave one of them out. Nothing was read or spent."
        )
    if not config.items.dated:  # else the night's list decides what the method refuses
        survey.calibrated  # noqa: B018 - before files are listed
    files, tables = input_of(path, config, night, survey.held, survey.source)
    survey = survey.on_night(night)  # a night without files needs no list
    check_places(config, unsafe=seed is not None or not survey.counted)
    survey.audit  # noqa: B018 - what is wrong with it is said before anything is paid for
    return Job(
        made_for=occasion_of,
        survey=survey,
        files=files,
        tables=tables,
        seed=seed,
        night=night,
        again=again,
        known_id=known_id,
        calibrated=survey.calibrated,
    )


def job_of_drawn(survey: Survey, release_id: str, night: date | None) -> Job:
    """The job of a release that was drawn before, which only publishes it.

    Names of its items are stored with the noise, so a list that is gone since stops nothing.
    """
    with suppress(ConfigError):
        survey = survey.on_night(night)
    return Job(made_for=occasion_of, survey=survey, files=(), night=night, known_id=release_id)


def job_to_inspect(survey: Survey, night: date | None) -> Job:
    """The job of `inspect`, which needs no budget and no output, so neither is checked.

    Raises:
        NightWithoutFiles: an input path names no file for that night.
        ConfigError: the configuration or an input file breaks a rule.
    """
    from hushrank.flows.config.discover_rules import require_listed

    require_listed(survey.config, f"{survey.path}", "inspect")
    survey = survey.on_night(night)
    config, calibrated = survey.config, survey.calibrated
    if config.input.version is not None:
        raise ConfigError(
            f"{survey.path}: inspect reads files, and a Beam transform yields these rows. Write"
            " some of them to a file, and inspect that. Nothing was read."
        )
    files, tables = input_of(survey.path, config, night, survey.held, survey.source)
    return Job(
        made_for=occasion_of,
        survey=survey,
        files=files,
        tables=tables,
        night=night,
        calibrated=calibrated,
    )


def job_without_files(survey: Survey, night: date) -> Job:
    """The job of a night whose files do not exist yet, with every check that needs no files.

    Raises:
        ConfigError: as for `prepare_job`.
    """
    config, calibrated = survey.config, survey.calibrated
    try:
        tables = tables_of(survey.path, config)
    except InputError as error:
        raise ConfigError.from_input(error) from None
    check_places(config)
    survey.audit  # noqa: B018 - as for `prepare_job`
    return Job(
        made_for=occasion_of,
        survey=survey,
        files=(),
        tables=tables,
        night=night,
        calibrated=calibrated,
    )


def read_survey(path: Path, *, no_privacy: bool = False, anyway: bool = False) -> Survey:
    """Read and check the configuration at `path`.

    Args:
        path: the YAML file.
        no_privacy: the operator allows `epsilon: inf`.
        anyway: the operator accepts a delta above the limit, and an epsilon that buys nothing.

    Raises:
        ConfigError: the file breaks a rule.
    """
    config = load_config(path)
    if not config.privacy.private and not no_privacy:
        raise ConfigError(
            f"{path}: privacy.epsilon: inf adds no noise, so it protects nobody. Set a finite"
            " epsilon; or, for a simulation, add --no-privacy: the release is then unsafe."
        )
    if config.privacy.private and no_privacy:
        raise ConfigError(
            f"{path}: --no-privacy (in Python unsafe=True) goes with privacy.epsilon: inf only;"
            " leave one of them out."
        )
    check_deltas(f"{path}", config.deltas, anyway=anyway, people=config.stated_people)
    return Survey(path, config, anyway=anyway)


def check_places(config: SurveyConfig, *, unsafe: bool = False) -> None:
    """Refuse an output folder, a confidential folder or an engine that a run cannot use.

    Args:
        config: the configuration, which names the folders.
        unsafe: whether an injected seed, or that no ledger counts it, makes the release unsafe.

    Raises:
        ConfigError: a place breaks a rule, or what the engine needs is not installed.
    """
    safe = config.privacy.private and not unsafe
    check_output(config.output, *config.job_hashes, safe=safe)
    for earlier in config.supersedes:
        if not archived(earlier):
            raise ConfigError(
                f"supersedes: {earlier} holds no release. Name the output folder of an earlier job,"
                " or leave it out. Nothing was read or spent."
            )
    if isinstance(config.runner, DataflowRunner):
        require("gcp", "runner: dataflow")
    if (language := config.report.language) is not Language.ENGLISH:
        require("languages", f"report.language: {language}")
    check_confidential(config.confidential)
    for key, place in (
        ("output", config.output),
        ("confidential", config.confidential),
        ("ledger.path", config.ledger.path.parent),
        ("observability.support", config.observability.support),
    ):
        if isinstance(place, Path):
            check_can_be_made(key, place)
    check_written_places(config)


def inputs_of(config: SurveyConfig, *, make_key: bool) -> InputNames:
    """Return the names of `config`'s input for a ledger, with files if no night is needed.

    No file is read: their content is named only where a run has remembered it.

    Args:
        config: configuration of a job.
        make_key: make the ledger's secret if there is none; if False, there are no names then.

    Raises:
        LedgerError: the ledger's secret cannot be read or made.
    """
    if make_key:
        ledger_key(config.ledger.path)
    try:
        files = () if config.nightly else files_of(config, None)
    except (InputError, OSError):  # the files are missing now, but their paths are known
        files = ()
    key = find_key(config.ledger.path)
    if key is None:
        return unnamed_inputs(config, files)
    contents = Contents(key, config.confidential)
    return input_names(config.input.paths, files, key, contents.remembered)


NO_LOOK = (
    "This job has no pilot query (privacy.look), which would stop it where rows are not read"
    " as meant, before most of epsilon is spent. Adding one changes the job."
)


def advise(job: Job) -> Iterator[str]:
    """Yield reasons against a run of `job`, a sentence or two each.

    Raises:
        MethodRefused: the job's epsilon buys nothing, and the job does not accept such a release.
        LedgerError: the ledger cannot be used.
        ConfigError: a file cannot be read, or nothing says which transform yields the rows.
    """
    with told_as_input():
        source_of(job.files)  # refuses a job whose rows nothing reads
    worth = check_worth(job)
    if system.NOT_KEPT and job.safe and job.ledger.known().last is None:  # said once
        yield system.NOT_KEPT
    yield from engine_notes(job)
    yield from look_notes(job)
    yield from (each.text for each in readings(job) if each.by_default)
    yield from column_notes(job.config, job.files, job.heads)
    yield from input_notes(job, if_drawn=False)
    if worth:
        yield worth


def engine_notes(job: Job) -> tuple[str, ...]:
    """Return what speaks against `job` in its engine's settings; the engine is asked for them.

    Nothing here stops a run: it ends well unless a machine dies, and then it costs no budget.
    """
    runner = job.config.runner
    if not isinstance(runner, FlinkRunner):
        return ()
    from hushrank.pipelines.engine.flink_restarts import restart_notes

    return restart_notes(runner.asked)


def look_notes(job: Job) -> tuple[str, ...]:
    """A line where a job has no pilot query and could have one."""
    privacy, stream = job.config.privacy, job.config.schedule.stream
    could = privacy.unit is not Unit.LOCAL and privacy.rho is None and stream is None
    could = could and job.config.items.discover is None
    return (NO_LOOK,) if could and privacy.look is None and job.safe else ()


CODES_BY_NIGHT = (
    "A whole number in place of an item's name counts from 0 in the list of the night, so 0 is {}"
    " there, and may be another item on another night. Write names into the rows."
)


def readings(job: Job) -> tuple[Reading, ...]:
    """Ways in which values of the rows are read."""
    items, files = job.config.items, job.files
    given = GivenRows(
        names=items.catalogue.names,
        formats={file.format for file in files},
        complete=all(file.path.endswith(COMPLETE_ORDERS) for file in files),
        codes=items.codes_unclear and not items.dated,
        written=items.discover is not None,
    )
    found = tuple(job.config.input.readings(given))
    if items.codes_unclear and items.dated and given.formats & {FileFormat.CSV, FileFormat.JSONL}:
        return (*found, Reading(CODES_BY_NIGHT.format(given.names[0])))
    return found


def drawn_before(job: Job) -> Attempt | None:
    """The draw that a run of `job` would publish again, at no cost; None: it would draw.

    The ledger gets no key by this.

    Raises:
        LedgerError: the ledger cannot be used.
        ConfigError: a file cannot be read.
    """
    if not job.safe or find_key(job.config.ledger.path) is None:
        return None
    attempt = job.attempt
    return None if attempt is None or attempt.drawn_at is None else attempt


def check_worth(job: Job) -> str:
    """Refuse a job whose epsilon buys nothing, unless it is drawn already or wanted anyway.

    Returns:
        A warning of a job that needs very many people; empty: there is nothing to say.

    Raises:
        MethodRefused: the release buys nothing, whichever night is ranked.
        LedgerError: the ledger cannot be used.
    """
    unknown = job.config.items.discover is not None  # so nothing tells how hard a ranking is
    if not job.safe or job.survey.anyway or job.calibrated is None or unknown:
        return ""
    worth = worth_of(job.config, job.calibrated)
    note = few_people_note(job.config, worth)
    if worth is None or not (worth.nothing or note) or drawn_before(job) is not None:
        return ""
    if worth.nothing:
        raise MethodRefused(refusal(job.config, worth))
    return note


def input_notes(job: Job, *, if_drawn: bool = True) -> tuple[str, ...]:
    """Return what the ledger knows of the job's input, for payers who forgot an earlier release.

    Args:
        job: the job that is to run.
        if_drawn: say too what becomes of a release that was drawn before; a run says it itself.

    Raises:
        LedgerError: the ledger cannot be used.
        ConfigError: a file cannot be read.
    """
    if not job.safe or find_key(job.config.ledger.path) is None or not job.occasion.by_content:
        return ()
    account, names = job.ledger.known().account, job.inputs.contents
    attempt = account.attempt(job.release_id)
    if attempt is not None and attempt.drawn_at is not None:
        return (_becomes_of(job, attempt),) if if_drawn else ()
    known = [
        each
        for each in account.attempts
        if each.drawn_at is not None and each.night == job.night and names <= set(each.inputs)
    ]
    if not names or not known or account.state(job.release_id) is ReleaseState.RESERVED:
        return ()
    return (
        f"The ledger knows this input as release {known[-1].release_id} of"
        f" {known[-1].reserved_at.date()}; this {'draw' if job.again else 'release'} costs another"
        f" {spend_text(job.terms.spend)}.",
    )


def _becomes_of(job: Job, drawn: Attempt) -> str:
    """Say what a run does with a release that was drawn before."""
    known = (
        f"The ledger knows this job with this input as release {job.release_id} of"
        f" {drawn.reserved_at.date()}"
    )
    kept = finds_drawn(job.work, drawn.result)
    if drawn.state is ReleaseState.STOPPED:
        return (
            f"{known}: a look at its rows stopped it, so nothing is published. A run says so again"
            " and costs nothing; hushrank run --again looks anew, at full cost."
        )
    if drawn.state is ReleaseState.FOUND:
        return f"{known}: names of items were drawn. A run goes on with them, at no further cost."
    if kept or find_archived(job.config.output, job.release_id) is not None:
        return f"{known}: it is published again, and costs nothing."
    return f"{known}, and what was drawn is lost: a run stops there, and only --again pays anew."


def log_note(note: str) -> None:
    """Tell of it where nobody is known who watches: Python shows warnings on standard error."""
    logging.getLogger(__name__).warning(note)
