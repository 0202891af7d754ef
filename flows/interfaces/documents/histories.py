"""JSON documents of `hushrank history` and `hushrank verify`."""

from __future__ import annotations

from datetime import date
from typing import Literal

from hushrank.flows.interfaces.documents.runs import Document, ReleaseSummary
from hushrank.flows.report.changes import Changes
from hushrank.flows.statement.record import Record


class ChangeOfItem(Document):
    """Change of one item between two releases.

    Attributes:
        item: item as it is shown.
        before, now: scores of the item, with the unit.
        change: change of the score, with its sign.
        interval: 95 % interval of the change, one item at a time.
        ranks: ranks before and now.
        beyond: whether noise and chance do not explain it, with 95 % for all items together.
    """

    item: str
    before: str
    now: str
    change: str
    interval: str
    ranks: str
    beyond: bool


class ChangesDocument(Document):
    """Changes from one release to another, as the report shows them.

    Attributes:
        since: day of the earlier release.
        sentence: sentence that says what changed.
        how: what is compared, for nights of a stream; else empty.
        items: the largest changes; empty where the releases cannot be compared item by item.
        left_out: number of items that changed less.
    """

    since: str
    sentence: str
    how: str
    items: tuple[ChangeOfItem, ...]
    left_out: int


class JobChange(Record):
    """Place in the history where the releases of one job end and those of its successor begin.

    Attributes:
        before: id of the first release after the change.
        says: sentence on what changed, as far as releases show it, and what can be compared.
    """

    before: str
    says: str


class LateFiles(Record):
    """A night whose files have changed since its release.

    Attributes:
        release_id: id of the release, which stays as it is.
        says: sentence on what can be done.
    """

    release_id: str
    says: str


class Alarm(Record):
    """An item of a stream that passed another one.

    Attributes:
        release_id: id of the night's release.
        day: date of the night.
        item: item that is ahead now.
        passed: item that was ahead before.
    """

    release_id: str
    day: date
    item: str
    passed: str


class HistoryDocument(Document):
    """Document of `hushrank history`.

    Attributes:
        releases: the releases, the earliest first.
        left_out: ids of unsafe releases that are left out because there are safe ones.
        plot: the picture that was drawn; null: none.
        changes: changes since the day of `--since`; null: not asked for.
        job_changes: places where the job itself changed.
        late_files: nights whose files have changed since their release.
        alarms: items that passed each other for certain, on nights of streams.
    """

    command: Literal["history"] = "history"
    releases: tuple[ReleaseSummary, ...]
    left_out: tuple[str, ...]
    plot: str | None
    changes: ChangesDocument | None = None
    job_changes: tuple[JobChange, ...] = ()
    late_files: tuple[LateFiles, ...] = ()
    alarms: tuple[Alarm, ...] = ()


class VerifyDocument(Document):
    """Document of `hushrank history --verify` if every release is unchanged; else it is an error.

    Attributes:
        releases: number of releases that were checked.
    """

    command: Literal["history --verify"] = "history --verify"
    releases: int


class Finding(Document):
    """One line of the findings of `hushrank verify`.

    Attributes:
        found: whether a claim holds or is wrong, or cannot be proved from the files; `newer`:
            nothing was judged.
        text: the claim.
    """

    found: Literal["holds", "WRONG", "unproved", "newer"]
    text: str


class FindingsDocument(Document):
    """Document of `hushrank verify` for one release.

    Attributes:
        good: whether nothing is wrong; otherwise the exit code is 1, or 5.
        judged: false where the release is of a newer format than this version knows: exit code 5.
        findings: line by line.
    """

    command: Literal["verify"] = "verify"
    good: bool
    judged: bool
    findings: tuple[Finding, ...]


def changes_document(changes: Changes) -> ChangesDocument:
    """Build the document of the changes that the report shows."""
    items = (
        ChangeOfItem(
            item=row.item,
            before=row.before,
            now=row.now,
            change=row.change,
            interval=row.interval,
            ranks=row.ranks,
            beyond=row.beyond == "yes",
        )
        for row in changes.rows
    )
    return ChangesDocument(
        since=changes.since,
        sentence=changes.sentence,
        how=changes.how,
        items=tuple(items),
        left_out=changes.left_out,
    )
