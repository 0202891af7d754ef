"""One run of one configuration on the present files, and the identity of its release."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from hushrank.flows.config.apart import check_written_places
from hushrank.flows.config.privacy import check_deltas
from hushrank.flows.config.runner import DataflowRunner
from hushrank.flows.config.section import check_can_be_made
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError, require
from hushrank.flows.ledger.key import (
    InputNames,
    find_key,
    ledger_key,
)
from hushrank.flows.methods.registry import load_config
from hushrank.flows.release.archive import archived
from hushrank.flows.release.identity import Contents, input_names
from hushrank.flows.release.publish import check_output
from hushrank.flows.run.confidential_folder import check_confidential
from hushrank.flows.run.context import (
    Job,
    Occasion,
    Survey,
    unnamed_inputs,
)
from hushrank.flows.run.input_files import files_of, input_of, tables_of
from hushrank.flows.run.occasion import SingleRelease
from hushrank.flows.run.stream_night import StreamNight
from hushrank.transforms.common.schema import InputError


def occasion_of(job: Job) -> Occasion:
    """Return the occasion of `job`'s release: a release by itself, or a night of a stream.

    Raises:
        LedgerError: the ledger's secret cannot be read or made.
    """
    if job.config.schedule.stream is None or job.night is None:
        return SingleRelease()
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
    path, config, calibrated = survey.path, survey.config, survey.calibrated
    if seed is not None and config.schedule.stream is not None:
        raise ConfigError(
            f"{path}: --unsafe-seed is not for a night of a stream, whose noise is part of the"
            " nights after it; leave one of them out. Nothing was read or spent."
        )
    files, tables = input_of(path, config, night, survey.held, survey.source)
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
        calibrated=calibrated,
    )


def job_of_drawn(survey: Survey, release_id: str, night: date | None) -> Job:
    """The job of a release that was drawn before, which only publishes it."""
    return Job(made_for=occasion_of, survey=survey, files=(), night=night, known_id=release_id)


def job_to_inspect(survey: Survey, night: date | None) -> Job:
    """The job of `inspect`, which needs no budget and no output, so neither is checked.

    Raises:
        NightWithoutFiles: an input path names no file for that night.
        ConfigError: the configuration or an input file breaks a rule.
    """
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
    check_output(config.output, *config.job_hashes(), safe=safe)
    for earlier in config.supersedes:
        if not archived(earlier):
            raise ConfigError(
                f"supersedes: {earlier} holds no release. Name the output folder of an earlier job,"
                " or leave it out. Nothing was read or spent."
            )
    if isinstance(config.runner, DataflowRunner):
        require("gcp", "runner: dataflow")
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
