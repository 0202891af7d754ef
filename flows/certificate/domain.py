"""What a certificate says of the inputs: bounds, how bytes become rows, what is public."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

from hushrank.flows.certificate.model import Bounds, Domain, Nights, PublicFact, Rows
from hushrank.flows.certificate.numbers import exact
from hushrank.flows.config.comparisons import Design, InputConfig
from hushrank.flows.config.rankings import RankingsConfig
from hushrank.flows.config.section import BadRows
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.release.release import Release
from hushrank.privacy.units import Adjacency, Unit

OWN_BYTES = (
    "What a row means follows from its own bytes and from the settings above alone; no other row,"
    " and no file besides the catalogue, changes it."
)
ASKED = "A row on a pair that was not asked about breaks a rule."
ONE_LINE = "Of CSV files a record ends where its line ends, so a damaged row is damaged alone."
SPANS_LINES = (
    "Of CSV files a quoted field may span lines: a row with an open quote swallows the rows after"
    " it, up to 1 MiB, which no noise covers."
)
SET_ASIDE = "A row that breaks a rule is moved to the confidential folder and counts nowhere."
FAILS = "A row that breaks a rule stops the run before anything is drawn or spent."
ROW_RULES = {
    "comparisons": (
        "A row is a comparison of two different items of the catalogue, with a result that is one"
        " of the words or signs of the settings."
    ),
    "rankings": (
        "A row holds a ranking of items of the catalogue, or one item of it; a ranking with an"
        " item twice, with too many items, or outside the settings counts nowhere."
    ),
    "responses": (
        "A row is one person's answer to one item of the catalogue, or to all; of several answers"
        " of a person to one item those count that `duplicates` of the settings names."
    ),
}
BOUNDED = (
    "Of a person's rows at most max_contributions count, under the other bounds too; which, secret"
    " random bits decide, never what was answered."
)
WEIGHED = (
    "All rows of a person count, with a weight that falls with their number, so that together they"
    " add no more than max_contributions rows do."
)


def catalogue_digest(names: Sequence[str]) -> str:
    """SHA-256 of the names as a JSON array, sorted by code points, without blanks, in UTF-8."""
    text = json.dumps(sorted(names), ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def domain_of(config: SurveyConfig, release: Release) -> Domain:
    """Sizes and bounds, as the release states them."""
    privacy, names = config.privacy, config.items.catalogue().names
    groups, stream = config.groups, release.stream
    return Domain(
        items=len(names),
        catalogue_sha256=catalogue_digest(names),
        bounds=Bounds(
            max_contributions=release.privacy.max_contributions,
            per_item_cap=release.privacy.per_item_cap,
            distinct_pairs=release.privacy.distinct_pairs,
            bounding=privacy.bounding.value,
            max_weight=None if privacy.max_weight is None else exact(privacy.max_weight),
        ),
        groups=() if groups is None else groups.groups().names,
        other_rows=groups is not None and groups.groups().others,
        ties=None if release.privacy.ties is None else release.privacy.ties.value,
        stream=None
        if stream is None
        else Nights(
            stream=stream.stream,
            night=stream.number,
            nights=stream.nights,
            participations=stream.participations,
            gap=stream.gap,
            window=stream.window,
        ),
    )


def rows_of(config: SurveyConfig) -> Rows:
    """How the input is read; where it lies is left out, for a path may name what is private."""
    settings: dict[str, Any] = config.input.model_dump(mode="json", exclude={"paths", "pairs"})
    if (asked := config.asked_design()) is not None:
        settings["pairs"] = len(asked.items)
    if config.items.first_code is not None:
        settings["first_code"] = config.items.first_code
    schedule: dict[str, Any] = config.schedule.model_dump(
        mode="json", include={"timezone", "partition", "window", "epoch", "empty"}
    )
    return Rows(
        kind=config.input.kind,
        settings=settings,
        schedule=schedule if config.nightly else {},
        rules=tuple(_rules(config)),
    )


def _rules(config: SurveyConfig) -> Iterator[str]:
    rows = config.input
    yield ROW_RULES[rows.kind]
    yield SPANS_LINES if rows.multiline else ONE_LINE
    yield FAILS if rows.on_bad_rows is BadRows.FAIL else SET_ASIDE
    yield OWN_BYTES
    if isinstance(rows, InputConfig):
        if spelled := rows.spelled_out(config.items.catalogue().names):
            yield f"{spelled[0].upper()}{spelled[1:]}."
        if rows.asked() is not None:
            yield ASKED
        if rows.columns.event is not None:
            yield "Rows of one user, pair and event count once; contradicting ones never."
    if config.privacy.max_contributions is not None:
        yield BOUNDED if config.privacy.bounding.value == "leave-out" else WEIGHED


def public_facts_of(config: SurveyConfig) -> Iterator[PublicFact]:
    """What the guarantee takes for public, by the word of the operator."""
    privacy = config.privacy
    digest = catalogue_digest(config.items.catalogue().names)
    yield PublicFact(fact="the items, none of which was made from the answers", sha256=digest)
    if config.groups is not None:
        yield PublicFact(fact="the groups that have rankings of their own")
    if privacy.unit is not Unit.LOCAL and privacy.adjacency is Adjacency.REPLACE_ONE:
        units = "people" if privacy.unit is Unit.USER else "rows"
        yield PublicFact(fact=f"how many {units} there are")
    if privacy.unit is Unit.LOCAL:
        yield PublicFact(fact="that an answer was given, and what is not_protected in `guarantee`")
    if privacy.public_graph:
        stated = privacy.public_graph_statement
        yield PublicFact(fact="who compared what", value=stated)
    if config.model.exposures is not None and (design := config.model.design()) is not None:
        numbers = json.dumps(
            sorted(zip(design.items, design.numbers, strict=True)),
            ensure_ascii=False,
            separators=(",", ":"),
        )
        yield PublicFact(
            fact="how often items or pairs are compared: a file of public numbers, of which this"
            " is the digest (sorted pairs of item and number, as JSON)",
            sha256=hashlib.sha256(numbers.encode()).hexdigest(),
        )
    if (asked := config.asked_design()) is not None:
        text = json.dumps(asked.named(), ensure_ascii=False, separators=(",", ":"))
        yield PublicFact(
            fact="the pairs that were asked about: digest of sorted pairs of sorted names, as JSON",
            sha256=hashlib.sha256(text.encode()).hexdigest(),
        )
    if config.nightly:
        yield PublicFact(fact="which nights are ranked, and on which days files arrived")
    yield from _facts_of_rows(config)


def _facts_of_rows(config: SurveyConfig) -> Iterator[PublicFact]:
    rows = config.input
    yield PublicFact(fact="every setting under `rows` and `domain`")
    if isinstance(rows, InputConfig):
        if config.comparisons.design is not Design.ANY:
            yield PublicFact(
                fact="which pairs were asked about; results rest on it, the guarantee does not",
                value=config.comparisons.design.value,
            )
        for name, scale in rows.covariates:
            yield PublicFact(
                fact=f"the covariate {name}, and its scale",
                value=None if scale is None else exact(scale),
            )
    if isinstance(rows, RankingsConfig) and not rows.names_people:
        yield PublicFact(fact="each ranking in the input is another person's")
    if config.ledger.other_people:
        yield PublicFact(
            fact="people of these populations are others, although they are in the same files",
            value=", ".join(config.ledger.other_people),
        )
