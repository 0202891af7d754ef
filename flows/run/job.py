"""One run of one configuration on the present files, and the identity of its release."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

from hushrank.flows.certificate.audited import audited_pairs
from hushrank.flows.certificate.software import full_version
from hushrank.flows.config.apart import check_written_places
from hushrank.flows.config.privacy import check_deltas
from hushrank.flows.config.runner import DataflowRunner
from hushrank.flows.config.section import check_can_be_made
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError, MethodRefused, require
from hushrank.flows.ledger.key import (
    KEY_BYTES,
    InputNames,
    LedgerKey,
    Purpose,
    find_key,
    ledger_key,
)
from hushrank.flows.methods.base import Calibrated, ReductionJob, Terms
from hushrank.flows.methods.registry import calibrate, load_config
from hushrank.flows.planning.plan.worth import Worth, worth_of
from hushrank.flows.release.archive import archived
from hushrank.flows.release.input_contents import Contents, meant_by
from hushrank.flows.release.input_names import input_names
from hushrank.flows.release.publish import check_output
from hushrank.flows.release.release_id import described, ids_of_old, known_or_new
from hushrank.flows.run.budget import ledger_of
from hushrank.flows.run.confidential_folder import check_confidential
from hushrank.flows.run.input_files import files_of, input_of, tables_of
from hushrank.flows.run.stream_night import StreamNight, told_as_input
from hushrank.flows.statement.mechanism import Mechanism
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import RandomBits, seeded_bits, system_bits
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.storage.cloud_storage import Place
from hushrank.transforms.storage.files import InputFile
from hushrank.transforms.storage.split import Head


def code_version() -> str:
    """Version of the installed distribution."""
    return version("hushrank")


def stated_version() -> str:
    """The same with the commit, where one is known: what a release says that it was drawn by."""
    return full_version(code_version())


NO_KEY_YET = "none"  # check value of no real key
NO_ID_YET = "RELEASE"  # stands in a path that is only shown, before the ledger has a key


@dataclass(frozen=True, kw_only=True)
class Job:
    """A checked configuration with its input.

    Attributes:
        config: the configuration.
        files: input files.
        heads: what their footers and headers say, row counts with it; None: nobody has looked yet.
        tables: further files that decide the result: the file of epsilons, if there is one.
        seed: seed of a test or simulation, which makes the release unsafe; None in a real run.
        again: whether a fresh draw is wanted of a release that was drawn before.
        night: the day whose rows are ranked; None if the configuration selects no nights.
        known_id: key of the release of that night or run, if the ledger knows it already.
        calibrated: method and mechanism of the release, calibrated once and then passed on; None if
            the release was drawn before.
        counted: whether a lasting ledger counts the release; if none does, it is unsafe.
        anyway: whether the operator wants a release that buys nothing, too.
    """

    config: SurveyConfig
    files: tuple[InputFile, ...]
    heads: tuple[Head, ...] | None = field(default=None, repr=False)
    tables: tuple[InputFile, ...] = ()
    seed: int | None = None
    night: date | None = None
    again: bool = False
    known_id: str | None = None
    calibrated: Calibrated | None = None
    counted: bool = True
    anyway: bool = False

    @property
    def safe(self) -> bool:
        """Whether this run asks for a private release that the ledger counts.

        Whether the release really is private, the draw decides from the random bits it used.
        """
        return self.config.privacy.private and self.seed is None and self.counted

    @cached_property
    def release_id(self) -> str:
        """The id of the release (`flows.release.release_id`).

        This call makes the ledger's secret if there is none, and reads the files unless their
        digests are remembered.

        Raises:
            LedgerError: the ledger or its secret cannot be used.
            ConfigError: a file cannot be read.
        """
        if self.known_id is not None:
            return self.known_id
        account = ledger_of(self.config).book().account if self.safe else None
        if self.of_stream is not None:  # whatever its files are: a night is drawn once
            named = {"stream": self.of_stream.stream_id, "night": str(self.night)}
            return self._key.tag(Purpose.RELEASE, json.dumps(named, sort_keys=True))
        with told_as_input():
            inputs = meant_by(self.contents, self.files), meant_by(self.contents, self.tables)
            hashes = self.config.job_hashes()
            text, *earlier = (
                described(each, *inputs, night=self.night, seed=self.seed) for each in hashes
            )
        if account is None:
            return self._key.tag(Purpose.RELEASE, text)
        older = [self._key.tag(Purpose.RELEASE, each) for each in earlier]
        for each in hashes:
            older += ids_of_old(self._key, each, self.files, self.tables, self.night)
        return known_or_new(account, self._key, text, older, again=self.again)

    @cached_property
    def contents(self) -> Contents:
        """The content of its files, which are read once at most."""
        return Contents(self._key, self.config.confidential)

    @cached_property
    def of_stream(self) -> StreamNight | None:
        """The night of a stream that it is; None: it is none.

        Raises:
            LedgerError: the ledger's secret cannot be read or made.
        """
        if self.config.schedule.stream is None or self.night is None:
            return None
        return StreamNight.of(self._key, self.config, self.night)

    @cached_property
    def inputs(self) -> InputNames:
        """What the ledger records about the input.

        Raises:
            LedgerError: the ledger's secret cannot be read or made.
        """
        with told_as_input():
            return input_names(self.config.input.paths, self.files, self._key, self.contents.of)

    @cached_property
    def _key(self) -> LedgerKey:
        return ledger_key(self.config.ledger.path)

    @property
    def planned_inputs(self) -> InputNames:
        """The same before anything is written; without names if the ledger has no secret yet."""
        known = find_key(self.config.ledger.path)
        return _unnamed_inputs(self.config, self.files) if known is None else self.inputs

    @property
    def drawn_by(self) -> Calibrated:
        """Method and mechanism that draw the release.

        Raises:
            ValueError: the release was drawn before; they are stored with it (`flows.run.drawn`).
        """
        if self.calibrated is None:
            raise ValueError("the release was drawn before: its mechanism is stored with it")
        return self.calibrated

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism that draws the release; raises as `drawn_by`."""
        return self.drawn_by.mechanism

    @cached_property
    def worth(self) -> Worth | None:
        """What the release reaches at best; None: no formula tells. Raises as `drawn_by`."""
        return worth_of(self.config, self.drawn_by)

    @property
    def terms(self) -> Terms:
        """Cost and noise of the release, in numbers and words."""
        return self.drawn_by.terms

    def reduction(self, key: SecretKey, folder: Place) -> ReductionJob:
        """The job that reads the rows; it leaves exact arrays in `folder`."""
        method = self.drawn_by.method
        asked = method.reduction(self.config, self.mechanism, self.files, key, str(folder))
        return replace(asked, heads=self.heads)

    @property
    def work(self) -> Place:
        """This release's folder in the confidential area."""
        return self.config.confidential / self.release_id

    @property
    def planned_work(self) -> Place:
        """The same folder, for people; it makes no secret if the ledger has none yet."""
        if self.known_id is None and find_key(self.config.ledger.path) is None:
            return self.config.confidential / NO_ID_YET
        return self.work

    def bits(self) -> RandomBits:
        """Source of every random choice of the run."""
        return system_bits() if self.seed is None else seeded_bits(self.seed)


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
    files, tables = input_of(path, config, night, survey.held)
    check_places(config, unsafe=seed is not None or not survey.counted)
    audited_pairs(config)
    return Job(
        config=config,
        files=files,
        tables=tables,
        seed=seed,
        night=night,
        again=again,
        known_id=known_id,
        calibrated=calibrated,
        counted=survey.counted,
        anyway=survey.anyway,
    )


def job_to_inspect(survey: Survey, night: date | None) -> Job:
    """The job of `inspect`, which needs no budget and no output, so neither is checked.

    Raises:
        NightWithoutFiles: an input path names no file for that night.
        ConfigError: the configuration or an input file breaks a rule.
    """
    config, calibrated = survey.config, survey.calibrated
    files, tables = input_of(survey.path, config, night, survey.held)
    return Job(config=config, files=files, tables=tables, night=night, calibrated=calibrated)


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
    audited_pairs(config)
    return Job(config=config, files=(), tables=tables, night=night, calibrated=calibrated)


@dataclass(frozen=True)
class Survey:
    """A configuration that was read and checked once, for everything that one command does.

    Attributes:
        path: the YAML file, for messages.
        config: its content; a change of the file while the command runs has no effect.
        held: copies of tables in memory, in place of the files that it names; None: none.
        counted, anyway: see `Job`.
    """

    path: Path
    config: SurveyConfig
    held: tuple[InputFile, ...] | None = None
    counted: bool = True
    anyway: bool = False

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism that draws releases of this configuration; raises as `calibrated`."""
        return self.calibrated.mechanism

    @cached_property
    def calibrated(self) -> Calibrated:
        """Method and mechanism of this configuration, chosen and calibrated once.

        Raises:
            MethodRefused: the configuration does not suit its method; the text names the file, as
                every message about the configuration does.
        """
        try:
            return calibrate(self.config)
        except ConfigError as error:
            lines = (f"{self.path}: {line}" for line in str(error).splitlines())
            raise MethodRefused("\n".join(lines)) from None


def read_survey(path: Path, *, no_privacy: bool = False, anyway: bool = False) -> Survey:
    """Read and check the configuration at `path`.

    Args:
        path: the YAML file.
        no_privacy: the operator allows `epsilon: inf`.
        anyway: the operator accepts a delta above the limit, and an epsilon that buys nothing.

    Raises:
        ConfigError: it breaks a rule.
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
        ConfigError: one of them breaks a rule, or what the engine needs is not installed.
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
    """What a ledger would record about the input of `config`, with files if no night is needed.

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
        return _unnamed_inputs(config, files)
    contents = Contents(key, config.confidential)
    return input_names(config.input.paths, files, key, contents.remembered)


def _unnamed_inputs(config: SurveyConfig, files: tuple[InputFile, ...]) -> InputNames:
    """What can be said of an input without a key, which only decides what is kept of very much."""
    key = LedgerKey(bytes(KEY_BYTES), "")
    return InputNames(NO_KEY_YET, (), input_names(config.input.paths, files, key, _unknown).plain)


def _unknown(_file: InputFile) -> None:
    return None
