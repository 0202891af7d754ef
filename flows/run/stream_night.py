"""The night of a stream that a job is: its names, its turn, and the law that all nights share.

The mechanism is calibrated once, for the first night. It is stored in the stream's folder, and
every later night is drawn by what is stored, whatever version of hushrank draws it. If that file
is lost, the law is calibrated again; where it is not the one of the nights before, these refuse it
(`transforms.streams.released_files`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from functools import cached_property

from hushrank.flows.config.schedule import StreamConfig
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import NOTHING_SPENT, ConfigError, EstimateError, LedgerError
from hushrank.flows.ledger.account import UNKNOWN
from hushrank.flows.ledger.entries import StreamSpan
from hushrank.flows.ledger.key import LedgerKey, Purpose
from hushrank.flows.ledger.streams import NightToPay
from hushrank.flows.methods.base import Calibrated
from hushrank.flows.methods.reductions import CountedMethod
from hushrank.flows.run.budget import ledger_of
from hushrank.flows.run.drawn import law_of, text_of_law
from hushrank.flows.statement.mechanism import CountMechanism
from hushrank.pipelines.reduce.reduction_job import Statistic
from hushrank.privacy.accounting import Spend
from hushrank.privacy.stream import Stream
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.storage.cloud_storage import Place
from hushrank.transforms.storage.write import read_whole, write_once
from hushrank.transforms.streams.released_files import Drawn, drawn_night

LAW_FILE = "law.json"
STREAM_FOLDER = "stream-"


@dataclass(frozen=True)
class StreamNight:
    """One night of a stream.

    Attributes:
        stream_id: names the stream and all of its terms.
        section: the terms.
        night: the date.
        area: the confidential area.
    """

    stream_id: str
    section: StreamConfig
    night: date
    area: Place

    @classmethod
    def of(cls, key: LedgerKey, config: SurveyConfig, night: date) -> StreamNight:
        """That of a job; the stream's terms are part of the job's hash.

        Raises:
            LedgerError: the ledger cannot be used.
            ValueError: the job is no stream.
        """
        section = config.schedule.stream
        if section is None:
            raise ValueError("the job is no stream")
        name, *older = (key.tag(Purpose.STREAM, each) for each in config.job_hashes())
        for each in older:  # a stream that an earlier version began keeps its name
            account = ledger_of(config).book().account
            if account.state(name) in UNKNOWN and account.state(each) not in UNKNOWN:
                name = each
        return cls(name, section, night, config.confidential)

    @property
    def number(self) -> int:
        """Of the night, from 0."""
        return self.section.number_of(self.night)

    @property
    def folder(self) -> str:
        """The stream's own, in the confidential area."""
        return stream_folder(self.area, self.stream_id)

    @property
    def span(self) -> StreamSpan:
        """All nights, as the ledger has them."""
        return StreamSpan(nights=self.section.nights, first=self.section.first)

    def to_pay(self, spend: Spend) -> NightToPay:
        """What the ledger is asked for."""
        return NightToPay(stream_id=self.stream_id, span=self.span, night=self.night, spend=spend)

    @cached_property
    def stored(self) -> Calibrated | None:
        """What draws every night; None: the stream has not begun.

        Raises:
            LedgerError: it is damaged, or another stream's.
            EstimateError: this version cannot read it.
        """
        path = f"{self.folder}/{LAW_FILE}"
        try:
            text, _, digest = read_whole(path).decode(errors="replace").partition("\n")
        except FileNotFoundError:
            return None
        except (IsADirectoryError, NotADirectoryError):
            text = digest = ""
        if digest == self._digest_of(text):
            return law_of(text)
        if text and not digest:  # of an earlier version, which wrote the law alone
            with suppress(EstimateError):
                return law_of(text)
        raise LedgerError(
            f"{path} is damaged, or is not what this stream has written: it holds the noise that"
            " all nights of the stream share. Restore it, or delete it: then the noise is"
            " calibrated again, and used only if it is that of the nights so far. What was paid"
            f" for the stream stays paid. {NOTHING_SPENT}"
        )

    def _digest_of(self, law: str) -> str:
        """What stands under the law of this stream in its file."""
        return hashlib.sha256(f"{self.stream_id}\n{law}".encode()).hexdigest()

    @property
    def drawn_by(self) -> Calibrated:
        """What draws every night.

        Raises:
            LedgerError: it is lost.
        """
        if self.stored is None:
            raise LedgerError(
                f"{self.folder}/{LAW_FILE} is missing: it holds the noise that all nights of the"
                " stream share. Restore the folder whole; nothing was drawn."
            )
        return self.stored

    @property
    def stream(self) -> Stream:
        """Terms, encoder and law."""
        mechanism = self.drawn_by.mechanism
        if not isinstance(mechanism, CountMechanism) or mechanism.stream is None:
            raise ValueError("the law of a stream is one of counts")
        return mechanism.stream

    @property
    def counts_pairs(self) -> bool:
        """Whether a night is a matrix of pairs, or one for each group."""
        method = self.drawn_by.method
        return isinstance(method, CountedMethod) and method.statistic is Statistic.PAIR_COUNTS

    def drawn(self) -> Drawn | None:
        """What was drawn for the night, which is read once; None: nothing yet.

        Raises:
            InputError: it was drawn for something else.
        """
        if self._known is None:
            self.remember(drawn_night(self.folder, self.stream_id, self.number, self.stream))
        return self._known

    def remember(self, drawn: Drawn | None) -> None:
        """Save reading what is known to be stored."""
        self.__dict__["_known"] = drawn

    @cached_property
    def _known(self) -> Drawn | None:
        return None

    def keep_law(self, calibrated: Calibrated) -> None:
        """Store what draws every night, unless that was done before."""
        text = text_of_law(calibrated)
        content = f"{text}\n{self._digest_of(text)}".encode()
        write_once(f"{self.folder}/{LAW_FILE}", content)
        self.__dict__.pop("stored", None)


def stream_folder(area: Place, stream_id: str) -> str:
    """Where a stream keeps what its next night needs."""
    return str(area / f"{STREAM_FOLDER}{stream_id}")


@contextmanager
def told_as_input() -> Iterator[None]:
    """Raise as ConfigError what the files of a stream are refused with."""
    try:
        yield
    except InputError as error:
        raise ConfigError.from_input(error) from None
