"""`certificate.json`: its format, version 1. `docs/certificate.schema.json` is made from it.

The number of the format is that of the whole release, `release.json` and its tables included: a
verifier does not judge a release of a newer one. Every field is in the verifier's own list, too.

Numbers that a checker computes with are exact. Integers are JSON integers; every other number is
the text of a fraction in lowest terms, `p/q`, or `inf`. A budget in `guarantee` and `ledger`
(epsilon, delta, rho) is the exact value of the decimals that `release.json` and the ledger show:
0.1 is `1/10`. A cost of a draw is that or the float itself, whichever is less. Scales, ridges and
other numbers that a program has computed with are the exact values of its floats.

Reading certificates back, and whether one agrees with its release.

This compares what this code wrote; `verifier/` in the checkout checks a certificate without it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import date
from typing import Literal

from pydantic import AwareDatetime, Field, JsonValue, ValidationError

from hushrank.flows.errors import ArchiveError
from hushrank.flows.methods.draws import (
    Cost,
    Count,
    CountNoise,
    Digest,
    Draw,
    Part,
    Rational,
    as_shown,
)
from hushrank.flows.release.archive import CERTIFICATE, RELEASE, SIGNATURE, files_of
from hushrank.flows.release.provenance import AuditedPair, Software
from hushrank.flows.release.release import Release, json_text, load_release
from hushrank.transforms.common.local_files import MostBytes
from hushrank.transforms.storage.places import Place, read_whole

FORMAT: Literal[1] = 1
OPTIONAL_IN_LEDGER = ("lifetime_epsilon", "stated_by", "stated_at", "together", "terms")


class Released(Part):
    """Identity of the release; every field is that of `release.json`.

    Attributes:
        population: name of the people whose budget is counted together, `name` of the release.
        job: id of the configuration.
        night: the day whose rows are ranked; null: the job selects no nights.
        created: time at which its noise was drawn.
        safe: whether it is for publication.
    """

    release_id: str
    population: str
    job: str
    method: str
    night: date | None
    created: AwareDatetime
    safe: bool


class Guarantee(Part):
    """Guarantee that is claimed; all of it stands in `release.json` as well.

    Attributes:
        epsilon, delta, rho: the guarantee in exact numbers; rho is null where it is no zCDP.
        charged: cost that the ledger is charged, once for all draws; for a night of a stream, the
            cost of all its nights together, in the line `ledger.paid_by`.
        statement, not_protected, theorem: the guarantee in words.
    """

    unit: Literal["comparison", "user", "local"]
    adjacency: Literal["replace-one", "add-remove"] | None
    epsilon: Rational
    delta: Rational
    rho: Rational | None
    charged: Cost
    statement: tuple[str, ...]
    not_protected: tuple[str, ...]
    theorem: str


class Bounds(Part):
    """Bounds that are enforced on the rows of one unit.

    Attributes:
        max_contributions: L, the most rows, answered items or rankings of a person; null: none.
        per_item_cap: the most rows of a person in which the same item occurs.
        distinct_pairs: a person's rows are on distinct pairs.
        bounding: rule for further rows: they are left out, or all rows weigh less.
        max_weight: the largest weight of a row; null: rows have no weights.
        names_per_person: names of a person that are protected together, each with these bounds;
            null: one.
        groups_per_answer: the most groups in which a row counts beside the whole, where groups
            overlap; left out where they do not.
    """

    max_contributions: Count | None
    per_item_cap: Count | None
    distinct_pairs: bool
    bounding: Literal["leave-out", "weights"]
    max_weight: Rational | None
    names_per_person: Count | None = None
    groups_per_answer: Count | None = None


class Metered(Part):
    """Terms of a stream that counts a person's rows.

    Attributes:
        rows: the most rows of one person that count on all nights together.
        pair_gap: nights in which rows of a person on the same two items count once at most.
        burst: the most rows of one person that count on the first night; the allowance grows evenly
            from it to `rows` on the last night, or by `refill` a night.
        refill: rows by which the allowance grows a night, up to `rows`; null: evenly.
    """

    rows: Count
    pair_gap: Count
    burst: Count
    refill: Rational | None = None


class MeteredBySquares(Part):
    """Terms of a stream that counts squares of a person's numbers of rows.

    Attributes:
        squares: allowance of one person for all nights together; a night on which l rows of the
            person count takes l^2 + l from it.
        gap: the least distance between two nights on which rows of a person count.
        burst: the part of the allowance that there is on the first night; it grows evenly from it
            to `squares` on the last night, or by `refill` a night.
        refill: amount by which the allowance grows a night, up to `squares`; null: evenly.
    """

    squares: Count
    gap: Count
    burst: Count
    refill: Rational | None = None


class Nights(Part):
    """The nights of the stream that one guarantee covers together.

    Attributes:
        stream: id of the stream.
        night: number of this night, from 1.
        nights: number of nights of the stream.
        participations: the most nights on which one person's rows count; null: rows or squares are
            counted.
        gap: the least distance between two of them; null: as above.
        participation: terms that count rows or squares; null: nights are counted.
        window: number of nights that a release shows; null: all nights so far.
    """

    stream: str
    night: Count
    nights: Count
    participations: Count | None
    gap: Count | None
    participation: Metered | MeteredBySquares | None = None
    window: Count | None


class Domain(Part):
    """Inputs for which the guarantee is claimed: public sizes and enforced bounds.

    Attributes:
        items: size of the catalogue.
        catalogue_sha256: digest of its names as a JSON array, sorted by code points, without
            blanks, in UTF-8.
        groups: names of groups that have counts of their own.
        other_rows: rows of no listed group count as well, in one more group.
        ties: rule for comparisons without a winner.
        stream: facts of one night of a stream.
    """

    items: Count
    catalogue_sha256: Digest
    bounds: Bounds
    groups: tuple[str, ...]
    other_rows: bool
    ties: Literal["drop", "split", "random", "model"] | None
    stream: Nights | None


class Rows(Part):
    """Rules by which bytes of the input become rows: public settings alone decide it.

    Attributes:
        kind: kind of a row.
        settings: settings of the section `input`, without its paths.
        schedule: rule for which rows a night reads.
        rules: the rules in words.
    """

    kind: Literal["comparisons", "rankings", "responses"]
    settings: dict[str, JsonValue]
    schedule: dict[str, JsonValue]
    rules: tuple[str, ...]


class PublicFact(Part):
    """Something that the guarantee takes for public, by the word of the operator.

    Attributes:
        fact: the fact in words.
        value: value of the fact, if it is short.
        sha256: digest of the file that holds it.
    """

    fact: str
    value: str | None = None
    sha256: Digest | None = None


class Spends(Part):
    """Equal costs of several releases."""

    times: Count
    epsilon: Rational
    delta: Rational
    rho: Rational | None
    l2_squared: Count


class Total(Part):
    """Joint cost of releases.

    Attributes:
        spends: each cost, and how often it was paid.
        sum: sums of all costs: epsilons, deltas, and rhos.
        epsilon: epsilon for which all are together (epsilon, delta)-DP; `inf` where no bound is
            known.
        delta: delta of the budget.
        rule: the filter of `hushrank.privacy.filters` whose smallest limit `epsilon` is, so that it
            holds although costs were chosen in view of earlier results; null: it holds for costs
            that were fixed before, as all totals of older versions do.
        first: cost that was set aside first, which selects the filters; null: without a rule.
    """

    spends: tuple[Spends, ...]
    sum: Cost
    epsilon: Rational
    delta: Rational
    rule: Literal["sum", "equal-costs", "gaussian", "renyi", "one"] | None = None
    first: Cost | None = None


class Position(Part):
    """A line of the ledger.

    Attributes:
        line: number of the line, from 1; `seq` of the entry.
        hash: hash of the entry.
        previous: hash of the line above.
    """

    line: Count
    hash: Digest
    previous: Digest
    time: AwareDatetime


class SameInput(Part):
    """Another population that had read the same input.

    Attributes:
        population: name of the population.
        stated_other_people: the operator states that its people are others.
        period, lifetime: its joint costs in the period and ever; null where it counts by another
            unit or
        stated_by: the account that first recorded that statement; left out where there is none,
            and by older versions.
        stated_at: time of that statement.
    """

    population: str
    stated_other_people: bool
    period: Total | None
    lifetime: Total | None
    stated_by: str | None = None
    stated_at: AwareDatetime | None = None


class Budget(Part):
    """The terms of a population: what its releases may cost together, in each period.

    Attributes:
        lifetime_epsilon: limit of their joint cost over all periods; left out where there is no
            limit.
    """

    epsilon: Rational
    delta: Rational
    refresh: Literal["daily", "weekly", "monthly", "yearly"] | None
    lifetime_epsilon: Rational | None = None


class TermsSet(Part):
    """One entry that set the terms of the population.

    Attributes:
        line: its number in the ledger.
        time: its time.
        budget: the terms.
        by: account that recorded it.
        reason: reason, in the words of the officer; empty: none was given.
        approved_by: id of the key whose holder approved it; null: the terms belonged to nobody.
    """

    line: Count
    time: AwareDatetime
    budget: Budget
    by: str
    reason: str
    approved_by: str | None


class LedgerPart(Part):
    """State of the ledger when this release was set aside, this release counted.

    All totals are over the lines up to `entry`, of a night of a stream those up to its own entry.

    Attributes:
        attempt: 1 but where the noise of an earlier attempt was lost, which costs again.
        entry: the line that reserved this release.
        paid_by: the line that reserved what pays for it: `entry`, or that of its stream.
        period_start, period_end: the period of `entry`; null: no limit.
        period: total of the period.
        lifetime: total over all periods.
        same_input: other populations that had read the same input.
        together: total over all periods of this population and of those in `same_input`, if all
            were the same people; left out where there is none, and by older versions.
        terms: who set the terms, oldest first; left out where they were never changed and nobody
            approved them, and by older versions.
    """

    population: str
    protects: Literal["rows", "outcomes", "answer", "person"] | None
    unit: Literal["comparison", "user", "local"]
    adjacency: Literal["replace-one", "add-remove"]
    attempt: Count
    entry: Position
    paid_by: Position
    budget: Budget
    period_start: AwareDatetime | None
    period_end: AwareDatetime | None
    period: Total
    lifetime: Total
    same_input: tuple[SameInput, ...]
    together: Total | None = None
    terms: tuple[TermsSet, ...] | None = None


class Certificate(Part):
    """Proof of a release, in a form that a stranger can check without our code.

    Attributes:
        hushrank_certificate: version of the format.
        files: SHA-256 of the other files of the release, by name.
        bits: sources of the random bits, by what they decided; null: not recorded.
        reconstructed: the law was not stored with the noise, and was worked out again.
        draws: every draw of noise; their costs add up.
        ledger: null where no lasting ledger counts the release.
        post_processing: list of what is computed from the draws and from public facts alone.
        errata: differences from the papers.
        not_proved: facts that no checker can see.
        audit: left out where there was none.
    """

    hushrank_certificate: Literal[1] = FORMAT
    release: Released
    files: dict[str, Digest]
    guarantee: Guarantee
    domain: Domain
    rows: Rows
    public_facts: tuple[PublicFact, ...]
    draws: tuple[Draw, ...] = Field(min_length=1)
    bits: dict[str, tuple[str, ...]] | None
    reconstructed: bool
    ledger: LedgerPart | None
    software: Software
    post_processing: tuple[str, ...]
    errata: tuple[str, ...]
    not_proved: tuple[str, ...]
    audit: tuple[AuditedPair, ...] | None = None

    def to_json(self) -> str:
        """Strict JSON with keys in a fixed order."""
        content = self.model_dump(mode="json")
        if self.ledger is not None:
            part = content["ledger"]
            budgets = [each["budget"] for each in part["terms"] or ()]
            for each in (part, part["budget"], *budgets, *part["same_input"]):
                _leave_out(each, *OPTIONAL_IN_LEDGER)
        _leave_out(content, "audit")
        return json_text(content) + "\n"


def _leave_out(content: dict[str, JsonValue], *names: str) -> None:
    """Remove fields that are null, as certificates of versions without them have it."""
    for name in names:
        if name in content and content[name] is None:
            del content[name]


def schema() -> str:
    """The JSON Schema of the format, as `docs/certificate.schema.json` holds it."""
    described = Certificate.model_json_schema(mode="serialization")
    return (
        json_text({"$schema": "https://json-schema.org/draft/2020-12/schema", **described}) + "\n"
    )


def load_certificate(folder: Place) -> Certificate | None:
    """The certificate in a folder of a release; None: versions before have made none.

    Raises:
        ArchiveError: the file cannot be read, or is no certificate.
    """
    path = folder / CERTIFICATE
    if not path.exists():
        return None
    try:
        return Certificate.model_validate_json(read_whole(path, MostBytes.RELEASE))
    except OSError as error:
        raise ArchiveError(f"{path}: cannot be read: {error.strerror}") from error
    except ValidationError:
        raise ArchiveError(
            f"{path}: is no certificate that this version of hushrank can read, or was changed"
        ) from None


def problems_of_certificate(folder: Place) -> Iterator[str]:
    """Yield a sentence for each difference between an archived release and its certificate.

    Args:
        folder: folder of a release whose files are as published; a release without a certificate
            has no certificate.
    """
    try:
        certificate = load_certificate(folder)
    except ArchiveError as error:
        yield str(error)
        return
    if certificate is None:
        return
    release = load_release(folder / RELEASE)
    place = folder / CERTIFICATE
    for name in files_of(folder):
        if name in (CERTIFICATE, SIGNATURE):
            continue
        found = hashlib.sha256(read_whole(folder / name, MostBytes.RELEASE)).hexdigest()
        if certificate.files.get(name) != found:
            yield f"{place}: names another digest of {name}."
    for what, stated, released in _pairs(certificate, release):
        if stated != released:
            yield f"{place}: {what} is {stated}, and the release says {released}."


def _pairs(certificate: Certificate, release: Release) -> Iterator[tuple[str, object, object]]:
    """Yield facts that both state: a name, the certificate's value, the release's value."""
    own, privacy = certificate.release, release.privacy
    for name in ("release_id", "job", "method", "night", "created", "safe"):
        yield name, getattr(own, name), getattr(release, name)
    yield "population", own.population, release.name
    guarantee = certificate.guarantee
    yield "epsilon", guarantee.epsilon, as_shown(privacy.epsilon)
    yield "delta", guarantee.delta, as_shown(privacy.delta)
    yield "unit", guarantee.unit, privacy.unit.value
    counts = [draw for draw in certificate.draws if isinstance(draw, CountNoise)]
    if privacy.sensitivity_l1 is not None:
        found = [(draw.sensitivity.l1, draw.sensitivity.l2_squared) for draw in counts]
        wanted = (privacy.sensitivity_l1, privacy.sensitivity_l2_squared)
        yield "sensitivity", wanted in found, True
