"""One run of one configuration on the files that are there now, and its identity."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from pathlib import Path

from hushrank.flows.code_version import code_version
from hushrank.flows.config import SurveyConfig, load_config
from hushrank.flows.config_schedule import path_on
from hushrank.flows.errors import ConfigError, NightWithoutFiles
from hushrank.flows.methods import METHODS
from hushrank.flows.publish import check_output
from hushrank.flows.work_folder import check_confidential
from hushrank.privacy.randomness import RandomBits, seeded_bits, system_bits
from hushrank.transforms.cloud_storage import Place
from hushrank.transforms.files import InputFile, NoFilesError, check_files, list_files
from hushrank.transforms.schema import InputError

RELEASE_ID_DIGITS = 16  # 64 bits: no two of a population's releases meet


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
    """

    config: SurveyConfig
    files: tuple[InputFile, ...]
    tables: tuple[InputFile, ...] = ()
    seed: int | None = None
    night: date | None = None
    known_id: str | None = None

    @property
    def safe(self) -> bool:
        """Whether the release is private: noise is added, and nobody can replay it."""
        return self.config.privacy.private and self.seed is None

    @cached_property
    def release_id(self) -> str:
        """Release key: hash of configuration, night, the code's version and the input's identity.

        A night that was released before keeps its key, though rows came late: see `known_id`.
        """
        if self.known_id is not None:
            return self.known_id
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
        text = json.dumps(key, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:RELEASE_ID_DIGITS]

    @property
    def work(self) -> Place:
        """This release's folder in the confidential area."""
        return self.config.confidential / self.release_id

    def bits(self) -> RandomBits:
        """Source of every random choice of the run."""
        return system_bits() if self.seed is None else seeded_bits(self.seed)


def prepare_job(
    path: Path, *, no_privacy: bool = False, seed: int | None = None, night: date | None = None
) -> Job:
    """Load and check everything that can be checked without reading a row or spending budget.

    Args:
        path: the YAML file.
        no_privacy: the operator insists on `epsilon: inf`.
        seed, night: see `Job`.

    Raises:
        NightWithoutFiles: an input path names no file of that night.
        ConfigError: the configuration, an input file or the output folder breaks a rule.
    """
    config = checked_config(path, no_privacy=no_privacy)
    _check_night(path, config, night)
    try:
        files = files_of(config, night)
        check_files(files, config.columns())
        tables = _tables(path, config)
    except NoFilesError as error:
        if night is not None:
            raise NightWithoutFiles(f"Night {night}: {error}") from None
        raise ConfigError(str(error)) from None
    except InputError as error:
        raise ConfigError(str(error)) from None
    check_places(config)
    return Job(config=config, files=files, tables=tables, seed=seed, night=night)


def checked_config(path: Path, *, no_privacy: bool = False) -> SurveyConfig:
    """The configuration at `path`, which suits its method and says what the operator insists on.

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
    _check_method(path, config)
    return config


def check_places(config: SurveyConfig) -> None:
    """Refuse an output folder or a confidential folder that a run could not use.

    Raises:
        ConfigError: one of them breaks a rule.
    """
    check_output(config.output, config.job_hash())
    check_confidential(config.confidential)


def files_of(config: SurveyConfig, night: date | None) -> tuple[InputFile, ...]:
    """What to read, and which rows of it; of `night` where the configuration selects nights.

    Raises:
        NoFilesError: a path names no file.
        InputError: a file is empty, or of an unknown format.
    """
    if night is None:
        return tuple(list_files(config.input.paths, config.input.format))
    paths = [path_on(path, night) for path in config.input.paths]
    partition, window = (config.schedule.partition_on(night), config.schedule.window_on(night))
    files = list_files(paths, config.input.format, partition)
    return tuple(replace(file, window=window) for file in files)


def _check_night(path: Path, config: SurveyConfig, night: date | None) -> None:
    if config.nightly and night is None:
        raise ConfigError(
            f"{path}: ranks one night at a time. Say which: --date 2026-11-20; or run hushrank"
            " catch-up, which ranks every night that is due."
        )
    if night is not None and not config.nightly:
        raise ConfigError(
            f"{path}: nothing selects the rows of {night}. Write {{date}} into input.paths, or set"
            " schedule.partition or schedule.window; or leave the date out."
        )


def _tables(path: Path, config: SurveyConfig) -> tuple[InputFile, ...]:
    """The file of epsilons, if the job names one.

    Raises:
        ConfigError: there is none.
        InputError: it is empty, or of an unknown format.
    """
    table = config.privacy.epsilon_table
    if table is None:
        return ()
    if not table.is_file():
        raise ConfigError(
            f"{path}: privacy.epsilon_table: {table}: no such file; relative paths start at the"
            " YAML file"
        )
    return tuple(list_files([str(table)]))


def _check_method(path: Path, config: SurveyConfig) -> None:
    """Refuse what does not suit the method, in the words of every other mistake in the file."""
    try:
        METHODS[config.method].terms(config)
    except ConfigError as error:
        lines = (f"{path}: {line}" for line in str(error).splitlines())
        raise ConfigError("\n".join(lines)) from None
