"""Facts that a run knows before it reads a row: `Job`, every part of which is made once.

Steps of a run take it and return values. What differs between a release by itself and a night of a
stream, they ask the job's `Occasion`.

The ledger that a configuration names, with terms, key and anchor, and its record of accesses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from hushrank.flows.config.privacy import LedgerConfig
from hushrank.flows.config.rankings import RankingsConfig
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError, MethodRefused
from hushrank.flows.ledger.account import Attempt
from hushrank.flows.ledger.entries import Access, BudgetTerms, Protects
from hushrank.flows.ledger.guards import Guards
from hushrank.flows.ledger.keys import KEY_BYTES, InputNames, LedgerKey, find_key, ledger_key
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.ledger.streams import FREE
from hushrank.flows.methods.base import Arrays, Calibrated, ReductionJob, Terms
from hushrank.flows.methods.registry import calibrate
from hushrank.flows.release.identity import Contents, input_names
from hushrank.flows.release.provenance import (
    AuditedPair,
    audited_pairs,
    full_version,
    installed_version,
)
from hushrank.flows.release.stream import StreamRecord
from hushrank.flows.run.confidential_folder import Exact
from hushrank.flows.run.drawn import Drawn
from hushrank.flows.run.input_files import told_as_input
from hushrank.flows.statement.mechanism import Mechanism
from hushrank.privacy.accounting import Spend
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import BitsUsed, RandomBits, seeded_bits, system_bits
from hushrank.privacy.units import Unit
from hushrank.transforms.storage.files import InputFile
from hushrank.transforms.storage.places import Place
from hushrank.transforms.storage.split import Head
from hushrank.transforms.tables.names import BeamSource

if TYPE_CHECKING:  # loaded for jobs that count beside the ranking, or find names, alone
    from hushrank.estimation.common.private_counts import Numbers
    from hushrank.flows.statement.found_names import FoundNames


def ledger_of(config: SurveyConfig, guards: Guards | None = None) -> Ledger:
    """The ledger that the configuration names.

    Args:
        config: the configuration.
        guards: key and anchor; None: those of the configuration.

    Raises:
        LedgerError: the key cannot be used.
    """
    guards = Guards.of(config.ledger) if guards is None else guards
    anchor = config.ledger.anchor or ""
    beside = (anchor, str(config.output), str(config.confidential), *config.input.paths)
    return guards.ledger(config.ledger.path, ledger_terms(config), beside)


def record_access(config: SurveyConfig, command: str, night: date | None = None) -> None:
    """Record in the ledger that this account uses a command that shows, deletes or makes secrets.

    The line says who, when, which job and which command, and nothing of any row. Without
    `ledger.signing_key` and `ledger.record_access`, nothing is recorded.

    Args:
        config: the job.
        command: the command, in words that no row decides.
        night: the day whose rows it reads.

    Raises:
        LedgerError: the line cannot be written, so the command must not go on.
    """
    if not config.ledger.records_access:
        return
    access = Access(command=command, config_hash=config.job_hashes[0], night=night)
    ledger_of(config).record(lambda _: ([access], None))


def with_total(config: SurveyConfig, epsilon: float | None) -> SurveyConfig:
    """Return the configuration with another total of the budget; None: the same.

    Raises:
        ConfigError: the total is out of range, or above the limit for good.
    """
    if epsilon is None:
        return config
    section = {**config.ledger.model_dump(exclude_unset=True), "epsilon": epsilon}
    try:
        return config.model_copy(update={"ledger": LedgerConfig.model_validate(section)})
    except ValidationError as error:
        problem = error.errors()[0]["msg"]
        raise ConfigError(f"--epsilon: {problem}. Nothing was changed.") from None


def ledger_terms(config: SurveyConfig) -> BudgetTerms:
    """The terms of the population's budget, as configured."""
    return BudgetTerms(
        population=config.name,
        epsilon=config.ledger.epsilon,
        delta=config.ledger.delta,
        refresh=config.ledger.refresh,
        unit=config.privacy.unit,
        adjacency=config.privacy.adjacency,
        protects=protects(config),
        alerts=config.ledger.alerts,
        other_people=config.ledger.other_people,
        lifetime_epsilon=config.ledger.lifetime_epsilon,
    )


def protects(config: SurveyConfig) -> Protects:
    """Part of a unit that the releases of `config` hide."""
    if config.privacy.unit is not Unit.LOCAL:
        if isinstance(config.input, RankingsConfig) and not config.input.names_people:
            return Protects.ANSWER
        return Protects.OUTCOMES if config.privacy.public_graph else Protects.ROWS
    from hushrank.flows.statement.local import LocalGuarantee

    bounded = LocalGuarantee.of(config).person is not None
    return Protects.PERSON if bounded else Protects.ANSWER


NO_KEY_YET = "none"  # check value of no real key
NO_ID_YET = "RELEASE"  # stands in a path that is only shown, before the ledger has a key


def code_version() -> str:
    """Version of the installed distribution."""
    return installed_version("hushrank")


def stated_version() -> str:
    """Version with the commit, if one is known: the version that a release says it was drawn by."""
    return full_version(code_version())


Read = Callable[[ReductionJob], None]  # by the child process that alone holds rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Noisy:
    """Noisy result of an occasion: it may be published, but is not yet stored or marked.

    Attributes:
        arrays: the mechanism's noisy output; empty if a pilot query stopped the run.
        drawn_by: method and mechanism that drew them.
        bits: sources of the random bits that were used.
        votes: noisy result of the pilot query, shape (2,), or (3,) with unlisted items; None:
            there was none.
        counts: noisy counts beside the ranking; empty: there are none, or nothing else was drawn.
        people: for a night of a stream, the digest of the file of people who counted; None for
            others.
    """

    arrays: Arrays
    drawn_by: Calibrated
    bits: BitsUsed
    votes: NDArray[np.int64] | None = None
    counts: Numbers = field(default_factory=dict)
    people: str = ""

    @property
    def stopped(self) -> bool:
        """Whether nothing was drawn after the look."""
        return self.votes is not None and not self.arrays


class Occasion(Protocol):
    """Steps that differ between a release by itself and a night of a stream."""

    by_content: bool  # whether the content of its files decides which release it is

    def release_id(self, job: Job) -> str:
        """The id of the release; raises as `Job.release_id`."""
        ...

    def reserve(self, job: Job, *, noise_lost: bool) -> Spend:
        """Set the cost aside; raises as `steps.reserve`.

        Args:
            job: the release that is to be drawn.
            noise_lost: whether the noise was paid for and then lost.

        Returns:
            What the draw costs.
        """
        ...

    def restore(self, job: Job, attempt: Attempt) -> Noisy | None:
        """Return what was drawn at `attempt`, whose file is lost; None if nobody has it.

        Raises:
            HushrankError: the noise must not be drawn again.
        """
        ...

    def reduce(self, job: Job, asked: ReductionJob, read: Read) -> None:
        """Have the rows read, and keep the exact counts; raises as `steps.reduce`."""
        ...

    def draw(self, job: Job, exact: Exact) -> Noisy:
        """Draw the noise, once; raises as `steps.draw`."""
        ...

    def record(self, drawn: Drawn) -> StreamRecord | None:
        """Return the stream's part of the release; None: the release is no night of a stream."""
        ...

    def counted(self, job: Job) -> dict[str, Callable[[], None]]:
        """Map places of a run's exact counts, if it ends before its draw, to their deleters."""
        ...

    def sweep(self, job: Job) -> None:
        """Delete what dead runs have left of other nights of its stream."""
        ...

    def tidy(self, job: Job) -> None:
        """Delete what nobody needs once the ledger holds the mark of the draw."""
        ...


@dataclass(kw_only=True, eq=False)
class Job:
    """A checked configuration with its input.

    Attributes:
        survey: the configuration, with what is made of it once: ledger, method, audit.
        files: input files.
        heads: footers and headers of the files, with row counts; None until they were read.
        tables: further files that decide the result: the file of epsilons, if there is one.
        seed: seed of a test or simulation, which makes the release unsafe; None in a real run.
        again: whether a fresh draw is wanted of a release that was drawn before.
        night: the day whose rows are ranked; None if the configuration selects no nights.
        known_id: key of the release of that night or run, if the ledger knows it already.
        calibrated: method and mechanism of the release, calibrated once and then passed on; None if
            the release was drawn before.
        made_for: tells what the release is made for, when somebody asks (`Occasion`).
        found: names of items that were drawn for it; None: not yet, or its items are public.
    """

    survey: Survey
    files: tuple[InputFile, ...]
    heads: tuple[Head, ...] | None = field(default=None, repr=False)
    tables: tuple[InputFile, ...] = ()
    seed: int | None = None
    night: date | None = None
    again: bool = False
    known_id: str | None = None
    calibrated: Calibrated | None = None
    made_for: Callable[[Job], Occasion] = field(repr=False)
    found: FoundNames | None = field(default=None, repr=False)

    @property
    def config(self) -> SurveyConfig:
        """The configuration."""
        return self.survey.config

    @property
    def ledger(self) -> Ledger:
        """The ledger that the configuration names, opened once."""
        return self.survey.ledger

    @property
    def attempt(self) -> Attempt | None:
        """The last attempt at the release, as far as the ledger is known."""
        return self.ledger.known().account.attempt(self.release_id)

    @property
    def safe(self) -> bool:
        """Whether this run asks for a private release that the ledger counts.

        Whether the release really is private, the draw decides from the random bits it used.
        """
        return self.config.privacy.private and self.seed is None and self.survey.counted

    @cached_property
    def release_id(self) -> str:
        """The id of the release (`flows.release.identity`).

        This call makes the ledger's secret if there is none, and reads the files unless their
        digests are remembered.

        Raises:
            LedgerError: the ledger or its secret cannot be used.
            ConfigError: a file cannot be read.
        """
        return self.occasion.release_id(self) if self.known_id is None else self.known_id

    @cached_property
    def contents(self) -> Contents:
        """The content of its files, which are read once at most."""
        return Contents(self.key, self.config.confidential)

    @cached_property
    def occasion(self) -> Occasion:
        """Occasion of the release: a release by itself, or a night of a stream.

        Raises:
            LedgerError: the ledger's secret cannot be read or made.
        """
        return self.made_for(self)

    @cached_property
    def inputs(self) -> InputNames:
        """Names of the input that the ledger records.

        Raises:
            LedgerError: the ledger's secret cannot be read or made.
        """
        with told_as_input():
            return input_names(self.config.input.paths, self.files, self.key, self.contents.of)

    @cached_property
    def key(self) -> LedgerKey:
        """The ledger's secret; this makes it if there is none.

        Raises:
            LedgerError: the key cannot be read or made.
        """
        return ledger_key(self.config.ledger.path)

    @property
    def planned_inputs(self) -> InputNames:
        """Names of the input before anything is written; empty if the ledger has no secret yet."""
        known = find_key(self.config.ledger.path)
        return unnamed_inputs(self.config, self.files) if known is None else self.inputs

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

    @property
    def cost(self) -> Spend:
        """Cost of drawing now: in a stream, the first night costs and no other."""
        section = self.config.schedule.stream
        first = section is None or self.night is None or section.number_of(self.night) == 0
        return self.terms.spend if first else FREE

    @property
    def terms(self) -> Terms:
        """Cost and noise of the release, in numbers and words."""
        return self.drawn_by.terms

    def reduction(self, key: SecretKey, folder: Place) -> ReductionJob:
        """The job that reads the rows; it leaves exact arrays in `folder`."""
        method = self.drawn_by.method
        asked = method.reduction(self.config, self.mechanism, self.files, key, str(folder))
        return replace(asked, heads=self.heads)

    def take_names(self, found: FoundNames) -> None:
        """Rank the names that were drawn; the mechanism is calibrated for them."""
        self.found = found
        if not found.too_few:
            self.survey.find(found.names)
            self.calibrated = None if self.calibrated is None else self.survey.calibrated

    @property
    def work(self) -> Place:
        """This release's folder in the confidential area."""
        return self.config.confidential / self.release_id

    @property
    def planned_work(self) -> Place:
        """Folder of this release as people read it; makes no secret if the ledger has none yet."""
        if self.known_id is None and find_key(self.config.ledger.path) is None:
            return self.config.confidential / NO_ID_YET
        return self.work

    def bits(self) -> RandomBits:
        """Source of every random choice of the run."""
        return system_bits() if self.seed is None else seeded_bits(self.seed)


@dataclass(eq=False)
class Survey:
    """A configuration that was read and checked once, for everything that one command does.

    Ledger, method and audit are made of it once, when somebody asks for them.

    Attributes:
        path: the YAML file, for messages.
        config: content of the YAML file; a change of the file while the command runs has no effect.
        held: copies of tables in memory, in place of the files that it names; None: none.
        source: a Beam transform that Python passed; None: the YAML file names rows.
        counted: whether a lasting ledger counts its releases; if none does, they are unsafe.
        anyway: whether the operator wants a release that buys nothing, too.
    """

    path: Path
    config: SurveyConfig
    held: tuple[InputFile, ...] | None = None
    source: BeamSource | None = field(default=None, repr=False)
    counted: bool = True
    anyway: bool = False

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism that draws releases of this configuration; raises as `calibrated`."""
        return self.calibrated.mechanism

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger that the configuration names.

        Raises:
            LedgerError: the key cannot be used.
        """
        return ledger_of(self.config)

    @cached_property
    def audit(self) -> tuple[AuditedPair, ...] | None:
        """Results of attacks on the job; None: the configuration names no audit.

        Raises:
            ConfigError: the file `report.audit` cannot be used.
        """
        return audited_pairs(self.config)

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

    def find(self, names: tuple[str, ...]) -> None:
        """Take these names, which were drawn, for its items."""
        items = self.config.items.with_found(names)
        self.config = self.config.model_copy(update={"items": items})
        self.__dict__.pop("calibrated", None)

    def on_night(self, night: date | None) -> Survey:
        """Return the survey with the items that `night` lists; its ledger is the same.

        Raises:
            ConfigError: no list is there for that night, or it breaks a rule.
        """
        if night is None or not self.config.items.dated:
            return self
        with_list = replace(self, config=self.config.on_night(night))
        with_list.__dict__["ledger"] = self.ledger
        return with_list

    def list_items(self, names: tuple[str, ...]) -> None:
        """Take these names, which were listed when its noise was drawn, for its items."""
        items = self.config.items.with_listed(names)
        self.config = self.config.model_copy(update={"items": items})

    def settle(self, config: SurveyConfig) -> None:
        """Take what its ledger or its mechanism has decided; neither is made again.

        Args:
            config: configuration with another total of the budget, or, before there is a mechanism,
                as an earlier version made it.
        """
        self.config = config
        self.ledger.terms = ledger_terms(config)


def unnamed_inputs(config: SurveyConfig, files: tuple[InputFile, ...]) -> InputNames:
    """Names of an input without a key; they decide only how much memory is kept."""
    key = LedgerKey(bytes(KEY_BYTES), "")
    return InputNames(NO_KEY_YET, (), input_names(config.input.paths, files, key, _unknown).plain)


def _unknown(_file: InputFile) -> None:
    return None
