"""One run of one configuration on the files that are there now, and its identity."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

from hushrank.flows.config.places import check_can_be_made
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError, MethodRefused
from hushrank.flows.guarantee.mechanism import Mechanism
from hushrank.flows.ledger.account import ReleaseState
from hushrank.flows.ledger.input_names import InputNames, input_names
from hushrank.flows.ledger.key import (
    KEY_BYTES,
    TAG_DIGITS,
    LedgerKey,
    Purpose,
    find_key,
    ledger_key,
)
from hushrank.flows.methods.base import Calibrated, ReductionJob, Terms
from hushrank.flows.methods.registry import calibrate, load_config
from hushrank.flows.release.publish import check_output
from hushrank.flows.run.budget import ledger_of
from hushrank.flows.run.confidential_folder import check_confidential
from hushrank.flows.run.input_files import files_of, input_of, tables_of
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import RandomBits, seeded_bits, system_bits
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.storage.cloud_storage import Place
from hushrank.transforms.storage.files import InputFile


def code_version() -> str:
    """Version of the installed distribution. It enters the release key: new code, new release."""
    return version("hushrank")


NO_KEY_YET = "none"  # which no ledger was written with
NO_ID_YET = "RELEASE"  # in a path that is only shown, before the ledger has a key


@dataclass(frozen=True, kw_only=True)
class Job:
    """A checked configuration with its input.

    Attributes:
        config: what to do.
        files: what to read.
        tables: files besides that decide the result: that of the epsilons, where there is one.
        seed: injected for a test or simulation: the release is then unsafe; None in earnest.
        night: whose rows are ranked; None where the configuration selects no nights.
        known_id: key of the release of that night or run, where the ledger knows it already.
        calibrated: what the release is drawn by, calibrated once and carried from here on; None
            where it was drawn before.
    """

    config: SurveyConfig
    files: tuple[InputFile, ...]
    tables: tuple[InputFile, ...] = ()
    seed: int | None = None
    night: date | None = None
    known_id: str | None = None
    calibrated: Calibrated | None = None

    @property
    def safe(self) -> bool:
        """Whether the release is to be private, and the ledger to count it.

        Whether it is private is seen when it is drawn: from the bits that were really used.
        """
        return self.config.privacy.private and self.seed is None

    @cached_property
    def release_id(self) -> str:
        """Release key: of configuration, night, the code's version and the input's identity.

        It is published, and the input's identity is confidential (how many rows there are follows
        from a size): so it is a name under the secret of the ledger (`flows.ledger.key`), which is
        made now where there is none. A release that was drawn before keeps its key: see `known_id`.

        Raises:
            LedgerError: the secret cannot be read or made.
        """
        if self.known_id is not None:
            return self.known_id
        return self._key.tag(Purpose.RELEASE, self._described())

    @cached_property
    def inputs(self) -> InputNames:
        """What the ledger records of its input.

        Raises:
            LedgerError: the ledger's secret cannot be read or made.
        """
        return input_names(self.config.input.paths, self.files, self._key)

    @cached_property
    def _key(self) -> LedgerKey:
        return ledger_key(self.config.ledger.path)

    @property
    def planned_inputs(self) -> InputNames:
        """The same before anything is written: without names where the ledger has no secret yet."""
        return _planned_inputs(self.config, self.files)

    @property
    def unkeyed_id(self) -> str:
        """What hushrank called this release while its ledger had no secret; never published now."""
        return hashlib.sha256(self._described().encode()).hexdigest()[:TAG_DIGITS]

    def _described(self) -> str:
        key = {
            "job": self.config.job_hash(),
            "code": code_version(),
            "input": [file.identity() for file in self.files],
            "seed": self.seed,
        }
        if self.tables:
            key["tables"] = [file.identity() for file in self.tables]
        if self.night is not None:
            key["night"] = self.night.isoformat()
        return json.dumps(key, sort_keys=True)

    @property
    def drawn_by(self) -> Calibrated:
        """Method and mechanism that draw the release.

        Raises:
            ValueError: it was drawn before; they are stored with it (`flows.run.drawn`).
        """
        if self.calibrated is None:
            raise ValueError("the release was drawn before: its mechanism is stored with it")
        return self.calibrated

    @property
    def mechanism(self) -> Mechanism:
        """What the release is drawn by; errors as of `drawn_by`."""
        return self.drawn_by.mechanism

    @property
    def terms(self) -> Terms:
        """Cost and noise of the release, in numbers and words."""
        return self.drawn_by.terms

    def reduction(self, key: SecretKey, folder: Place) -> ReductionJob:
        """What the protected side is to do with the rows; it leaves exact arrays in `folder`."""
        method = self.drawn_by.method
        return method.reduction(self.config, self.mechanism, self.files, key, str(folder))

    @property
    def work(self) -> Place:
        """This release's folder in the confidential area."""
        return self.config.confidential / self.release_id

    @property
    def planned_work(self) -> Place:
        """The same, for people; nothing is made where the ledger has no secret yet."""
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
    known_id: str | None = None,
) -> Job:
    """Check everything that can be checked without reading a row or spending budget.

    Args:
        survey: the configuration.
        seed, night, known_id: see `Job`.

    Raises:
        NightWithoutFiles: an input path names no file of that night.
        ConfigError: the configuration, an input file or the output folder breaks a rule.
    """
    path, config, calibrated = survey.path, survey.config, survey.calibrated
    files, tables = input_of(path, config, night)
    check_places(config, seeded=seed is not None)
    job = Job(
        config=config,
        files=files,
        tables=tables,
        seed=seed,
        night=night,
        known_id=known_id,
        calibrated=calibrated,
    )
    return replace(job, known_id=known_id or _id_before_keys(job))


def job_to_inspect(path: Path, night: date | None) -> Job:
    """The job of a look at its rows, which needs no budget and no output: neither is looked at.

    Raises:
        NightWithoutFiles: an input path names no file of that night.
        ConfigError: the configuration or an input file breaks a rule.
    """
    survey = Survey(path, load_config(path))
    files, tables = input_of(path, survey.config, night)
    return Job(
        config=survey.config,
        files=files,
        tables=tables,
        night=night,
        calibrated=survey.calibrated,
    )


def job_without_files(survey: Survey, night: date) -> Job:
    """The job of a night whose files are not there yet, with every check that needs none of them.

    Raises:
        ConfigError: as `prepare_job`.
    """
    config, calibrated = survey.config, survey.calibrated
    try:
        tables = tables_of(survey.path, config)
    except InputError as error:
        raise ConfigError(str(error)) from None
    check_places(config)
    return Job(config=config, files=(), tables=tables, night=night, calibrated=calibrated)


def _id_before_keys(job: Job) -> str | None:
    """Its key, where it was drawn or reserved while the ledger had no secret; else None.

    Raises:
        LedgerError: the ledger cannot be used.
    """
    if not job.safe:
        return None
    state = ledger_of(job.config).state(job.unkeyed_id)
    known = state not in (ReleaseState.NONE, ReleaseState.CANCELLED)
    return job.unkeyed_id if known else None


@dataclass(frozen=True)
class Survey:
    """A configuration that was read and checked once, for all that one command does with it.

    Attributes:
        path: the YAML file, for messages.
        config: what it says; a change of the file while the command runs changes nothing.
    """

    path: Path
    config: SurveyConfig

    @property
    def mechanism(self) -> Mechanism:
        """What releases of the configuration are drawn by; errors as of `calibrated`."""
        return self.calibrated.mechanism

    @cached_property
    def calibrated(self) -> Calibrated:
        """What releases of the configuration are drawn by, chosen and calibrated once.

        Raises:
            MethodRefused: the configuration does not suit its method; the text names the file, as
                for every other mistake in it.
        """
        try:
            return calibrate(self.config)
        except ConfigError as error:
            lines = (f"{self.path}: {line}" for line in str(error).splitlines())
            raise MethodRefused("\n".join(lines)) from None


def read_survey(path: Path, *, no_privacy: bool = False) -> Survey:
    """The configuration at `path`, checked.

    Args:
        path: the YAML file.
        no_privacy: the operator insists on `epsilon: inf`.

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
            f"{path}: --no-privacy goes with privacy.epsilon: inf only; leave one of them out."
        )
    return Survey(path, config)


def check_places(config: SurveyConfig, *, seeded: bool = False) -> None:
    """Refuse an output folder or a confidential folder that a run could not use.

    Args:
        config: names them.
        seeded: the release is drawn from an injected seed, so it is unsafe.

    Raises:
        ConfigError: one of them breaks a rule.
    """
    safe = config.privacy.private and not seeded
    check_output(config.output, config.job_hash(), safe=safe)
    check_confidential(config.confidential)
    for key, place in (
        ("output", config.output),
        ("confidential", config.confidential),
        ("ledger.path", config.ledger.path.parent),
        ("observability.support", config.observability.support),
    ):
        if isinstance(place, Path):
            check_can_be_made(key, place)


def inputs_of(config: SurveyConfig, *, make_key: bool) -> InputNames:
    """What a ledger would record of the input of `config`; of its files, where no night is needed.

    Args:
        config: of a job.
        make_key: make the ledger's secret where there is none; else there are no names then.

    Raises:
        LedgerError: the ledger's secret cannot be read or made.
    """
    if make_key:
        ledger_key(config.ledger.path)
    try:
        files = () if config.nightly else files_of(config, None)
    except (InputError, OSError):  # it is not there now: its paths are known still
        files = ()
    return _planned_inputs(config, files)


def _planned_inputs(config: SurveyConfig, files: tuple[InputFile, ...]) -> InputNames:
    key = find_key(config.ledger.path)
    if key is None:  # which decides only what is kept of many files
        plain = input_names(config.input.paths, files, LedgerKey(bytes(KEY_BYTES), "")).plain
        return InputNames(NO_KEY_YET, (), plain)
    return input_names(config.input.paths, files, key)
