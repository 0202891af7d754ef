"""Stored result of a draw: the arrays, and the mechanism and bits that drew them.

Beside the arrays, `drawn.npz` holds the mechanism that drew them and the random bits that were
used, as JSON. Whatever publishes the release, that run or a later version of hushrank years after,
states these and calibrates nothing again. Files of before that have no such entry; their law is
reconstructed from the configuration, and the release says so.

Where a look at the rows comes first (`privacy.look`), it is drawn, stored and marked in the
ledger together with the rest: or alone, where it says that rows do not fit, and nothing else is
drawn. So a run that dies has left one mark or none, as without a look (`flows.run.run`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from hushrank.estimation.common.central_noise import Calibration, Seen
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import DrawError, EstimateError, LookStopped
from hushrank.flows.ledger.account import Attempt, ReleaseState
from hushrank.flows.methods.base import Arrays, Calibrated, Choice, Method, RankingMethod
from hushrank.flows.methods.registry import METHODS, calibrate
from hushrank.flows.release.provenance import AuditedPair, Software, installed_version
from hushrank.flows.run.confidential_folder import DRAWN_FILE
from hushrank.flows.statement.mechanism import Mechanism
from hushrank.flows.statement.record import (
    CountsRecord,
    LookRecord,
    PrivacyRecord,
    lost_look_text,
    record_with_counts,
    record_with_look,
    stop_text,
)
from hushrank.flows.statement.sentences import ROWS_SPAN_LINES
from hushrank.privacy.noise import add_noise
from hushrank.privacy.randomness import BitsUsed, RandomBits
from hushrank.privacy.units import Query
from hushrank.transforms.storage.places import Place, npz_arrays, read_whole

if TYPE_CHECKING:  # loaded for jobs that count beside the ranking, or find names, alone
    from hushrank.estimation.common.private_counts import Numbers
    from hushrank.flows.statement.found_names import FoundNames

# Entries beside the arrays.
CREATED, CODE, LAW, VOTES, NAMES = "created", "code_version", "law", "look", "names"
LISTED = "listed"
BESIDE = "beside_"  # begins the name of each query beside the ranking
FORMAT = 1  # version of the entry `LAW`


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A release before it is ranked.

    Attributes:
        arrays: the mechanism's noisy output; empty if a pilot query stopped the run.
        drawn_by: method and mechanism that drew them; that method ranks by them.
        bits: sources of the random bits; None if they were not recorded.
        votes: noisy result of the pilot query, shape (2,), or (3,) with unlisted items; None:
            there was none.
        counts: noisy counts beside the ranking; empty: there are none.
        people: number of people who were asked, as the configuration says; None: it does not say.
        created: time of the draw, with a time zone.
        code_version: version of hushrank that drew.
        software: more of it; None where that was not recorded.
        audit: results of an audit of the job so far; None: the job names no audit, or an earlier
            version drew.
        found: names of items that were drawn first; None: the items are public.
        listed: items that the night listed; None: all nights have one list, that of the job.
    """

    arrays: Arrays
    drawn_by: Calibrated
    bits: BitsUsed | None
    votes: NDArray[np.int64] | None = None
    counts: Numbers = field(default_factory=dict)
    people: int | None = None
    created: datetime
    code_version: str
    software: Software | None = None
    audit: tuple[AuditedPair, ...] | None = None
    found: FoundNames | None = None
    listed: tuple[str, ...] | None = None

    @property
    def mechanism(self) -> Mechanism:
        """Mechanism that drew the arrays."""
        return self.drawn_by.mechanism

    @property
    def seen(self) -> Seen | None:
        """Result of the pilot query; None: there was none."""
        return seen_by(self.votes, self.drawn_by, self.people)

    @property
    def stopped(self) -> bool:
        """Whether nothing was drawn after the look."""
        return self.votes is not None and not self.arrays

    @property
    def reconstructed(self) -> bool:
        """Whether the mechanism was worked out again, because it was not stored."""
        return self.bits is None


def entries_of(drawn: Drawn) -> Arrays:
    """Return all entries of `drawn.npz`.

    Raises:
        ValueError: the bits were not recorded, so there is no law to store.
    """
    if drawn.bits is None:
        raise ValueError("a release without a record of its bits is not stored")
    return {
        **drawn.arrays,
        **({} if drawn.votes is None else {VOTES: drawn.votes}),
        **{f"{BESIDE}{query}": numbers for query, numbers in drawn.counts.items()},
        **({} if drawn.found is None else {NAMES: np.array(drawn.found.to_json().decode())}),
        **({} if drawn.listed is None else {LISTED: np.array(json.dumps(drawn.listed))}),
        CREATED: np.array(drawn.created.isoformat(timespec="seconds")),
        CODE: np.array(drawn.code_version),
        LAW: np.array(
            _text_of(
                drawn.drawn_by,
                drawn.code_version,
                drawn.bits,
                software=drawn.software,
                audit=drawn.audit,
            )
        ),
    }


def text_of_law(drawn_by: Calibrated) -> str:
    """Method and mechanism as they are stored where nothing was drawn yet."""
    return _text_of(drawn_by, installed_version("hushrank"), BitsUsed())


def law_of(text: str) -> Calibrated:
    """Return the law that `text_of_law` stored.

    Raises:
        EstimateError: this version cannot read the law.
    """
    return _read(text, "of another version")[0]


def _text_of(drawn_by: Calibrated, code: str, bits: BitsUsed, **for_certificate: Any) -> str:
    document = _document_of(drawn_by.method.mechanism)(
        format=FORMAT,
        method=drawn_by.method.facts.name,
        reason=drawn_by.chosen.reason,
        code_version=code,
        mechanism=drawn_by.mechanism,
        look=drawn_by.look,
        counts=drawn_by.counts,
        bits=bits.to_dict(),
        **for_certificate,
    )
    optional = ("reason", "look", "counts", "software", "audit")
    unsaid = {name for name in optional if not getattr(document, name)}
    text: str = document.model_dump_json(exclude=unsaid)
    return text


def drawn_of(entries: Arrays, config: SurveyConfig) -> Drawn:
    """Return the draw that the entries of `drawn.npz` hold.

    Raises:
        EstimateError: this version cannot read the law.
        ConfigError: no law is stored, and the configuration no longer suits the method that drew.
    """
    arrays = dict(entries)
    created, code = (str(arrays.pop(name)) for name in (CREATED, CODE))
    law, votes, names, listed = (arrays.pop(each, None) for each in (LAW, VOTES, NAMES, LISTED))
    counts = {
        query: arrays.pop(name)
        for query, name in [(each, f"{BESIDE}{each}") for each in Query]
        if name in arrays
    }
    if law is None:
        drawn_by, bits, document = calibrate(config), None, None
    else:
        drawn_by, bits, document = _read(str(law), code)
    return Drawn(
        arrays=arrays,
        drawn_by=drawn_by,
        bits=bits,
        votes=votes,
        counts=counts,
        people=people_asked(config),
        created=datetime.fromisoformat(created),
        code_version=code,
        software=None if document is None else document.software,
        audit=None if document is None else document.audit,
        found=None if names is None else _names_in(str(names)),
        listed=None if listed is None else tuple(json.loads(str(listed))),
    )


def _names_in(text: str) -> FoundNames:
    """Names of items that were drawn first, as they are stored."""
    from hushrank.flows.statement.found_names import FoundNames

    return FoundNames.from_json(text)


def stored_drawn(
    work: Place, release_id: str, attempts: Sequence[Attempt], config: SurveyConfig
) -> Drawn:
    """Return the draw that the ledger's mark names for a release.

    Args:
        work: the folder of the release.
        release_id: id of the release.
        attempts: the ledger's attempts; empty: no digest is compared.
        config: as for `drawn_of`.

    Raises:
        EstimateError: the file is damaged or another one, or this version cannot read it.
        ConfigError: as `drawn_of`.
    """
    path, mine = work / DRAWN_FILE, [each for each in attempts if each.release_id == release_id]
    of_stream = any(each.of for each in mine)  # its file may have been made again
    marks = {each.result for each in mine if each.result and not of_stream}
    try:
        content = read_whole(path)
        if not marks or hashlib.sha256(content).hexdigest() in marks:
            return drawn_of(npz_arrays(content), config)
    except (ValueError, KeyError, IsADirectoryError):
        pass
    remedy = (
        "Delete it and run again: it is made again from the folder of the stream, at no cost."
        if of_stream
        else "Put a copy of it back, as it was after the draw, and run again, which costs nothing."
        " Without a copy, delete it: hushrank run --again then draws new noise and pays again."
    )
    raise EstimateError(
        f"estimate: {path} is damaged, or is not what was drawn for this release. The noise is"
        f" paid for, and nothing was published. {remedy}"
    )


def people_asked(config: SurveyConfig) -> int | None:
    """Return the number of people asked, for the pilot query; None: the job does not say."""
    return None if config.privacy.look is None else config.privacy.look.people


def noisy_votes(
    votes: NDArray[np.int64] | None, look: Calibration | None, bits: RandomBits
) -> NDArray[np.int64] | None:
    """Add the pilot query's noise to exact `votes`; None: there is no pilot query."""
    return None if look is None or votes is None else add_noise(votes, look.law, bits)


def seen_by(
    votes: NDArray[np.int64] | None, drawn_by: Calibrated, people: int | None
) -> Seen | None:
    """Return the pilot query's result from its noisy `votes`; None: there was no pilot query."""
    if votes is None or drawn_by.look is None:
        return None
    fit, unfit, *unlisted = votes.tolist()
    return Seen(fit, unfit, drawn_by.look.law, people, *unlisted)


def look_of(drawn: Drawn, config: SurveyConfig) -> LookRecord | None:
    """Return the record of a release's pilot query; None: there was none.

    Raises:
        LookStopped: the pilot query told the run to stop.
    """
    if drawn.seen is None:
        return None
    record = LookRecord.of(drawn.seen, drawn.drawn_by.params)
    if drawn.stopped:
        raise LookStopped(stop_text(config, record, drawn.created))
    return record


def counts_of(drawn: Drawn) -> CountsRecord | None:
    """Return the record of a release's counts beside the ranking; None: there are none."""
    if not drawn.counts:
        return None
    return CountsRecord.of(drawn.counts, drawn.drawn_by.counts, drawn.drawn_by.params)


def completed(
    privacy: PrivacyRecord, drawn: Drawn, look: LookRecord | None, config: SurveyConfig
) -> PrivacyRecord:
    """Add what a method does not know: why it was chosen, its pilot query, how rows are read."""
    if look is not None:
        privacy = record_with_look(privacy, look, drawn.drawn_by.params)
    if drawn.counts:
        privacy = record_with_counts(privacy, drawn.drawn_by.params)
    if drawn.found is not None:
        from hushrank.flows.statement.found_names import record_with_names

        privacy = record_with_names(privacy, drawn.drawn_by.params)
    changes: dict[str, object] = {}
    if reason := drawn.drawn_by.chosen.reason:
        changes["parameters"] = {**privacy.parameters, "method_chosen_because": reason}
    if config.input.multiline and privacy.mechanism != "none":
        changes["not_protected"] = (ROWS_SPAN_LINES, *privacy.not_protected)
    return privacy.model_copy(update=changes)


def refuse_stopped(release_id: str, attempt: Attempt | None) -> None:
    """Raise LookStopped for a release that its look has stopped, and of which nothing is kept."""
    if attempt is None or attempt.state is not ReleaseState.STOPPED or attempt.drawn_at is None:
        return
    raise LookStopped(lost_look_text(release_id, attempt.drawn_at))


def refuse_lost(attempt: Attempt, work: Place) -> None:
    """Raise DrawError for a release that is paid for and whose noise `work` does not hold."""
    run = "run" if attempt.night is None else f"run --date {attempt.night}"
    raise DrawError(
        f"draw: release {attempt.release_id} is paid for, but {work} holds no {DRAWN_FILE}: the"
        f" mechanism failed, or somebody removed it. Put it back; or hushrank {run} --again draws"
        " new noise, which costs its budget once more. Nothing was spent now."
    )


def recorded_hash(config: SurveyConfig, attempt: Attempt | None) -> str:
    """Identity of the job as the ledger has it for a release, be it that of an earlier version."""
    hashes = config.job_hashes
    recorded = "" if attempt is None else attempt.config_hash
    return recorded if recorded in hashes else hashes[0]


class _Law(BaseModel):
    """The entry `LAW`; `_document_of` adds the mechanism, whose class depends on the method.

    Numbers are written in the shortest form that reads back as the same number.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    format: Literal[1]
    method: str
    reason: str = ""
    look: Calibration | None = None
    counts: dict[Query, Calibration] = Field(default_factory=dict)
    code_version: str
    bits: dict[str, tuple[str, ...]]
    software: Software | None = None
    audit: tuple[AuditedPair, ...] | None = None


class _Named(BaseModel):
    """The part of the entry that says how to read the rest."""

    method: str


def _document_of(mechanism: type[Any]) -> Any:
    if mechanism not in _DOCUMENTS:
        _DOCUMENTS[mechanism] = create_model("Law", __base__=_Law, mechanism=(mechanism, ...))
    return _DOCUMENTS[mechanism]


_DOCUMENTS: dict[type[Any], Any] = {}  # to make one takes a hundredth of a second


def _read_by(method: Method | None, text: str) -> tuple[RankingMethod[Any], Any]:
    """The way of ranking under this name whose mechanism it is, and the document."""
    ways = () if method is None else method.ways
    for way in ways[:-1]:
        try:
            return way, _document_of(way.mechanism).model_validate_json(text)
        except ValidationError:
            continue
    if not ways:
        raise ValueError("the method that drew is not known here")
    return ways[-1], _document_of(ways[-1].mechanism).model_validate_json(text)


def _read(text: str, code: str) -> tuple[Calibrated, BitsUsed, _Law]:
    try:
        method, document = _read_by(METHODS.get(_Named.model_validate_json(text).method), text)
        bits = BitsUsed.from_dict(document.bits)
    except ValueError:  # ValidationError among them
        raise EstimateError(
            f"estimate: what the noise was drawn by is stored in a form of hushrank {code} that"
            " this version cannot read. The noise is paid for and kept, and nothing is published:"
            " publish it with that version."
        ) from None
    chosen = Choice(method, document.reason)
    return Calibrated(chosen, document.mechanism, document.look, document.counts), bits, document
