"""What a run leaves at the Prefect server for people: summary, ranking, picture and link.

Everything is taken from the published release and the balance: the server learns nothing that
`release.json` does not hold.
"""

from __future__ import annotations

import base64
import re
import zlib
from typing import Any

from hushrank.flows.ledger.texts import (
    left_text,
    shared_text,
    since_first_text,
    spend_text,
)
from hushrank.flows.release.archive import REPORT
from hushrank.flows.release.release import Release
from hushrank.flows.release.scale import WORDS, interval_text, score_decimals, score_text
from hushrank.flows.release.wording import rank_interval, verdict
from hushrank.flows.report.figures import figures_of
from hushrank.flows.report.svg import WIDTH, standalone
from hushrank.flows.run.stages import Outcome
from hushrank.transforms.storage.cloud_storage import CloudPath

MOST_ROWS = 100  # of the table; ranking.csv has all


def leave_artifacts(outcome: Outcome) -> None:
    """Create the artifacts of the run that this is called in."""
    from prefect.artifacts import (
        create_image_artifact,
        create_link_artifact,
        create_markdown_artifact,
        create_table_artifact,
    )

    release = outcome.release
    key = artifact_key(release.name)
    create_markdown_artifact(summary(outcome), key=f"{key}-summary", description=verdict(release))
    create_table_artifact(
        ranking_rows(release), key=f"{key}-ranking", description=f"Ranking of {release.day}"
    )
    image = picture(release)
    if image is not None:
        create_image_artifact(image, key=f"{key}-plot", description=f"Scores of {release.day}")
    create_link_artifact(report_address(outcome), link_text="The report", key=f"{key}-report")


def artifact_key(population: str) -> str:
    """A key that Prefect accepts: lower-case letters, digits and dashes; one a population."""
    slug = re.sub(r"[^a-z0-9]+", "-", population.lower()).strip("-")
    if slug == population:
        return f"hushrank-{slug}"
    return f"hushrank-{slug}-{zlib.crc32(population.encode()):08x}"  # two names may look alike


def summary(outcome: Outcome) -> str:
    """The release in a few lines of Markdown."""
    release, balance = outcome.release, outcome.balance
    privacy = release.privacy
    guarantee = f"epsilon {privacy.epsilon:g}"
    if privacy.delta:
        guarantee += f", delta {privacy.delta:g}"
    spent = "nothing: it was drawn before" if outcome.spent is None else spend_text(outcome.spent)
    if outcome.spent is not None and not outcome.charged:
        spent = "nothing: its stream is paid for"
    notes = [*release.warnings, *filter(None, [shared_text(balance)])]
    head = [
        f"## {_plain(release.heading)}, {release.day}",
        f"**{_plain(verdict(release))}**",
        *(f"> **Please note.** {_plain(text)}" for text in notes),
    ]
    ever = since_first_text(balance)
    table = [
        "| | |\n|---|---|",
        f"| Method | {release.method} |",
        f"| Guarantee | {guarantee}, unit {privacy.unit} |",
        f"| Mechanism | {privacy.mechanism} |",
        f"| Cost of this run | {spent} |",
        f"| Budget left | epsilon {left_text(balance.remaining_epsilon)} of"
        f" {left_text(balance.total)} |",
        *([f"| Since the first release | {ever} |"] if ever else []),
        f"| Release | {release.release_id} |",
    ]
    return "\n\n".join([*head, "\n".join(table)]) + "\n"


def ranking_rows(release: Release) -> list[dict[str, Any]]:
    """The best items, best first, with intervals."""
    words, decimals = WORDS[release.scale], score_decimals(release.scale, release.ranking)
    rows = [
        {
            "place": place,
            "item": line.shown,
            words.heading.lower(): (
                f"{score_text(release.scale, line.score, decimals)}{words.unit}"
            ),
            "95 % interval": interval_text(release.scale, line, decimals),
            "rank": rank_interval(line),
        }
        for place, line in zip(release.places(), release.ranking, strict=True)
    ]
    return rows[:MOST_ROWS]


def picture(release: Release) -> str | None:
    """The report's first figure as a `data:` address; None where it has none."""
    figures = figures_of(release)
    if not figures:
        return None
    svg = standalone(figures[0].svg, WIDTH)
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


def report_address(outcome: Outcome) -> str:
    """Where the report is."""
    report = outcome.folder / REPORT
    return str(report) if isinstance(report, CloudPath) else report.resolve().as_uri()


def _plain(text: str) -> str:
    """Text that Markdown leaves as it is: a name may hold asterisks or a link."""
    return re.sub(r"([\\`*_{}\[\]<>()#|!~])", r"\\\1", text)
