"""The published files inside the report itself, for readers who only have the page."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass

from hushrank.flows.release.archive import (
    DIF,
    EFFECTS,
    FIT,
    PRECINCTS,
    RANKING,
    RELEASE,
    SCORES,
    STEP_FILE,
)
from hushrank.flows.release.effects import effects_csv
from hushrank.flows.release.publish import ranking_pieces, round_table
from hushrank.flows.release.release import Release
from hushrank.flows.release.sheet_report import dif_csv, fit_csv, scores_csv, step_rows, steps_csv

MOST_BYTES = 300_000  # most bytes of one file in the page; a page stays under 1 MB


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """A link to a file.

    Attributes:
        name: name of the file.
        what: its content, in a few words.
        address: its content as a `data:` address; or `name`, if it lies beside the page.
        inside: whether the page holds it.
    """

    name: str
    what: str
    address: str
    inside: bool


def downloads_of(release: Release) -> list[Download]:
    """The ranking, effects of covariates and abilities as tables, and the release as JSON.

    A file that is too large for the page is linked; it lies beside the page. The certificate does
    too, because it names the digest of the page.
    """
    what, pieces = "the ranking, for a spreadsheet", ranking_pieces(release)
    table = _download(RANKING, what, "text/csv", pieces)
    more = []
    if release.effects is not None:
        what = "what position and features do, for a spreadsheet"
        more = [_download(EFFECTS, what, "text/csv", [effects_csv(release.effects)])]
    if release.test is not None:
        what = "abilities by raw score, for a spreadsheet"
        more.append(_download(SCORES, what, "text/csv", [scores_csv(release.test)]))
        if steps := step_rows(release.test):
            what = "step difficulties, for a spreadsheet"
            more.append(_download(STEP_FILE, what, "text/csv", [steps_csv(steps)]))
    if release.dif is not None:
        what = "items by group, for a spreadsheet"
        more.append(_download(DIF, what, "text/csv", [dif_csv(release.dif)]))
    if release.fit is not None:
        what = "how well items fit, for a spreadsheet"
        more.append(_download(FIT, what, "text/csv", [fit_csv(release.fit)]))
    if release.precincts is not None:
        from hushrank.flows.release.precincts import precincts_csv

        what, rows = (
            "votes by precinct, for maps",
            precincts_csv(release.precincts, release.released),
        )
        more.append(_download(PRECINCTS, what, "text/csv", [rows]))
    for name, text in round_table(release).items():
        more.append(_download(name, "all rounds, for a spreadsheet", "text/csv", [text]))
    pieces = release.json_pieces()
    whole = _download(RELEASE, "all that was released", "application/json", pieces)
    return [table, *more, whole]


def _download(name: str, what: str, kind: str, pieces: Iterable[str]) -> Download:
    """A link to a file of these `pieces`, of which only as many are made as fit into the page."""
    text = bytearray()
    for piece in pieces:
        text += piece.encode()
        if len(text) > MOST_BYTES:
            break
    address = f"data:{kind};charset=utf-8;base64,{base64.b64encode(text).decode()}"
    inside = len(address) <= MOST_BYTES
    return Download(name=name, what=what, address=address if inside else name, inside=inside)
