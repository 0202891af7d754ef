"""The certificate of a release: made of what was stored with its noise, and of the ledger.

Nothing here reads a row, and nothing comes from this run: the law, the bits, the time and the code
are those of the draw, and the ledger is read up to the release's own line. So a run that was killed
and is taken up again writes the same bytes.

It states the line of the release in the ledger and the totals up to it; and of the inputs, their
bounds, how bytes become rows, and what is public.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import repeat
from typing import Any

from hushrank.flows.config.comparisons import InputConfig
from hushrank.flows.config.section import BadRows
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.ledger.account import Attempt, Costs, account_of
from hushrank.flows.ledger.approval import changes_of
from hushrank.flows.ledger.entries import ALWAYS, Chain, ChangeTerms, Open, period_at
from hushrank.flows.ledger.keys import load_signer
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.ledger.rules import Sharing, sharing_of, together_with
from hushrank.flows.methods.base import Arrays, Calibrated
from hushrank.flows.methods.draws import INFINITE, Cost, Draw, as_shown, cost_of, exact, text_of
from hushrank.flows.methods.formulas import noise_of_names, sides_of
from hushrank.flows.release.archive import CERTIFICATE, SIGNATURE, Contents
from hushrank.flows.release.provenance import AuditedPair, Software
from hushrank.flows.release.release import Release
from hushrank.flows.release.stream import MeteredRows, MeteredSquares
from hushrank.flows.trust.certificate.model import (
    Bounds,
    Budget,
    Certificate,
    Domain,
    Guarantee,
    LedgerPart,
    Metered,
    MeteredBySquares,
    Nights,
    Position,
    PublicFact,
    Released,
    Rows,
    SameInput,
    Spends,
    TermsSet,
    Total,
)
from hushrank.privacy.accounting import Spend, composed_epsilon, decimal_value
from hushrank.privacy.filters import adaptive_total
from hushrank.privacy.units import Adjacency, Unit


def ledger_part(ledger: Ledger, release_id: str) -> LedgerPart | None:
    """Return the ledger's state when a release was set aside, that release counted.

    It is computed from the lines up to the release's own, so it never changes afterwards. None: the
    ledger does not know the release.

    Raises:
        LedgerError: the ledger is damaged or cannot be read.
    """
    book = ledger.known()
    attempt = book.account.attempt(release_id)
    return None if attempt is None else _part(book.chain, ledger, attempt)


def _part(chain: Chain, ledger: Ledger, attempt: Attempt) -> LedgerPart | None:
    terms, place = ledger.terms, ledger.backend.place
    entries = chain.entries[: attempt.seq]
    account = account_of(entries, terms.population, place)
    own = account.attempt(attempt.release_id)
    if own is None or account.terms is None:
        return None
    budget, period = account.terms, period_at(entries[-1].time, account.terms.refresh)
    then = replace(terms, other_people=own.others)  # as the release's own line says
    now, ever = (sharing_of(entries, then, own.inputs, span, place) for span in (period, ALWAYS))
    return LedgerPart(
        population=terms.population,
        protects=None if terms.protects is None else terms.protects.value,
        unit=terms.unit.value,
        adjacency=terms.adjacency.value,
        attempt=own.number,
        entry=_position(chain, own),
        paid_by=_position(chain, account.attempt(own.of) or own),
        budget=_budget(budget),
        period_start=period.start,
        period_end=period.end,
        period=total(account.costs(period), budget.delta, budget.epsilon),
        lifetime=total(account.costs(ALWAYS), budget.delta),
        same_input=tuple(map(_same_input, now, ever, repeat(budget.delta))),
        together=total(together_with(account, ALWAYS, ever), budget.delta) if ever else None,
        terms=_terms_set(chain, terms.population, attempt.seq),
    )


def _budget(terms: Open | ChangeTerms) -> Budget:
    limit = terms.lifetime_epsilon
    return Budget(
        epsilon=as_shown(terms.epsilon),
        delta=as_shown(terms.delta),
        refresh=terms.refresh,
        lifetime_epsilon=None if limit is None else as_shown(limit),
    )


def _terms_set(chain: Chain, population: str, last: int) -> tuple[TermsSet, ...] | None:
    """Who set the terms up to a line; None: they were never changed and nobody approved them."""
    found = tuple(
        TermsSet(
            line=each.line,
            time=each.time,
            budget=_budget(each.what),
            by=each.operator,
            reason=each.what.reason,
            approved_by=each.approved_by or None,
        )
        for each in changes_of(chain, population, last)
    )
    told = len(found) > 1 or any(each.approved_by for each in found)
    return found if told else None


def _position(chain: Chain, attempt: Attempt) -> Position:
    entry = chain.entries[attempt.seq - 1]
    return Position(
        line=attempt.seq,
        hash=chain.hash_of(attempt.seq) or "",
        previous=entry.previous,
        time=entry.time,
    )


def _same_input(now: Sharing, ever: Sharing, delta: float) -> SameInput:
    """Another population that had read the same input: its costs of the period, and of all time."""
    made = ever.statement
    return SameInput(
        population=now.population,
        stated_other_people=now.stated,
        period=None if now.costs is None else total(now.costs, delta),
        lifetime=None if ever.costs is None else total(ever.costs, delta),
        stated_by=None if made is None else made.by,
        stated_at=None if made is None else made.at,
    )


def total(costs: Costs, delta: float, limit: float = math.inf) -> Total:
    """Return the joint cost of releases, at `delta`; releases that cost nothing are left out.

    A version whose totals held only for costs that were fixed before may have let them pass under
    `limit`. Where they are above it by the rules of today, the total is that version's.
    """
    counts = Counter(spend for spend in costs.spends if spend != Spend())
    found = adaptive_total(costs.spends, delta, costs.first)
    fixed = found.epsilon if found.epsilon <= limit else composed_epsilon(costs.spends, delta)
    older = fixed <= limit < found.epsilon
    paid = tuple(
        Spends(
            times=times,
            epsilon=as_shown(spend.epsilon),
            delta=as_shown(spend.delta),
            rho=None if spend.rho is None else as_shown(spend.rho),
            l2_squared=spend.l2_squared,
        )
        for spend, times in counts.items()
    )
    return Total(
        spends=paid,
        sum=_sum(counts),
        epsilon=as_shown(fixed if older else found.epsilon),
        delta=as_shown(delta),
        rule=None if older else found.rule.value,
        first=None if older or costs.first is None else cost_of(costs.first, as_shown),
    )


def _sum(counts: Counter[Spend]) -> Cost:
    rhos = [(spend.rho, times) for spend, times in counts.items() if spend.rho is not None]
    return Cost(
        epsilon=_added((spend.epsilon, times) for spend, times in counts.items()),
        delta=_added((spend.delta, times) for spend, times in counts.items()),
        rho=_added(rhos) if rhos else None,
    )


def _added(parts: Iterable[tuple[float, int]]) -> str:
    """The sum of decimals, each so many times."""
    found = Fraction(0)
    for value, times in parts:
        if as_shown(value) == INFINITE:
            return INFINITE
        found += times * decimal_value(value)
    return text_of(found)


OWN_BYTES = (
    "What a row means follows from its own bytes and from the settings above alone; no other row,"
    " and no file besides the catalogue, changes it."
)
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


FIRST_GROUPS = (
    "An answer in more groups than groups_per_answer counts in the first of them, in the order of"
    " the list; every answer counts once in the whole."
)
UNITED_GROUPS = (
    "Rows of one user, pair and event that differ in their groups alone are one answer, in all of"
    " these groups."
)
APART_GROUPS = "Rows of one user, pair and event in different groups contradict each other."


def domain_of(config: SurveyConfig, release: Release) -> Domain:
    """Sizes and bounds, as the release states them."""
    privacy, names = config.privacy, config.items.catalogue.names
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
            names_per_person=release.privacy.names_per_person,
            groups_per_answer=release.privacy.groups_per_answer,
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
            participation=_metered(stream.participation),
            window=stream.window,
        ),
    )


def _metered(
    told: MeteredRows | MeteredSquares | None,
) -> Metered | MeteredBySquares | None:
    """Terms that count rows or squares, with exact numbers; None: nights are counted."""
    if told is None:
        return None
    refill = None if told.refill is None else str(Fraction(str(told.refill)))  # of its decimals
    form = Metered if isinstance(told, MeteredRows) else MeteredBySquares
    return form.model_validate({**told.model_dump(), "refill": refill})


def rows_of(config: SurveyConfig) -> Rows:
    """Return how the input is read, without its paths, which may name what is private."""
    settings: dict[str, Any] = config.input.model_dump(mode="json", exclude={"paths", "pairs"})
    if (pairs := config.counted_pairs()) is not None:
        settings["pairs"] = len(pairs)
    for key in ("source", "version", "points", "key"):
        if settings.get(key, "") is None:
            del settings[key]
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
    yield from rows.row_rules(config.items.catalogue.names)
    if config.groups is not None and config.groups.most is not None:
        yield FIRST_GROUPS
        if isinstance(rows, InputConfig) and rows.columns.event is not None:
            yield UNITED_GROUPS
    elif isinstance(rows, InputConfig) and config.groups is not None and rows.columns.event:
        yield APART_GROUPS
    if config.counted_pairs() is not None:
        yield "A row on a pair that was not asked about breaks a rule."
    if config.privacy.max_contributions is not None:
        yield BOUNDED if config.privacy.bounding.value == "leave-out" else WEIGHED


def public_facts_of(config: SurveyConfig) -> Iterator[PublicFact]:
    """Yield what the guarantee takes for public because the operator says so."""
    privacy = config.privacy
    if config.items.discover is None:
        digest = catalogue_digest(config.items.catalogue.names)
        yield PublicFact(fact="the items, none of which was made from the answers", sha256=digest)
    else:
        rules = config.items.discover.model_dump_json()
        yield PublicFact(fact="the rules by which names of items are found", value=rules)
    if config.groups is not None:
        of_ballots = config.input.kind == "rankings"
        what = "counts" if of_ballots else "rankings"
        yield PublicFact(fact=f"the groups that have {what} of their own")
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
    yield PublicFact(fact="every setting under `rows` and `domain`")
    if config.input.version is not None:
        yield PublicFact(fact=VERSION_OF_ROWS, value=config.input.version)
    for fact, value in config.input.public_facts():
        yield PublicFact(fact=fact, value=exact(value) if isinstance(value, float) else value)
    if config.ledger.other_people:
        yield PublicFact(
            fact="people of these populations are others, although they are in the same files",
            value=", ".join(config.ledger.other_people),
        )


VERSION_OF_ROWS = "the version of the rows, a name that the operator gave them"
POST_PROCESSING = (
    "Everything in the release beside what `draws` lists: the ranking, scores, ranks, intervals,"
    " chances, groups, warnings and figures. It is computed from the draws and from public facts,"
    " by no further look at the rows, and costs nothing."
)
NIGHTS_BEFORE = (
    "What this night shows is computed from the draws of all nights of the stream so far."
)
BUDGET_BEFORE = "The report shows the balance of the ledger when it was written, which is public."

NOT_PROVED = (
    "That the bounds of `domain` were enforced, and that rows were read as `rows` says.",
    "That the random bits came from the operating system, and that nobody kept them.",
    "That the code that `software` names is the code that ran, on a machine that nobody else read.",
    "That exact counts and rows were seen by nobody and deleted.",
    "That the public facts are public, and were not made from the answers.",
    "That the released numbers were drawn once: who draws often and keeps the best breaks it.",
    "That the derivations are right: a person has to read them, and may check small cases.",
)
LOCAL_NOT_PROVED = (
    "That answers which came privatised were privatised by this law where they were given."
)
LEDGER_NOT_PROVED = (
    "That the ledger is the only one of these people, and that nobody put an older copy back"
    " before a line was added; lines after this release are not covered."
)


def certified(
    release: Release,
    config: SurveyConfig,
    drawn_by: Calibrated,
    drawn: Arrays,
    software: Software,
    ledger: LedgerPart | None,
    files: Contents,
    audit: tuple[AuditedPair, ...] | None = None,
) -> Contents:
    """`certificate.json` of the other published files of a release; arguments: `certificate_of`.

    Where the ledger's lines are signed, the same key signs it: `certificate.sig`.

    Raises:
        LedgerError: the key cannot be read.
    """
    made = certificate_of(release, config, drawn_by, drawn, software, ledger, files, audit)
    content, key = made.to_json().encode(), config.ledger.signing_key
    signed = {} if key is None else {SIGNATURE: load_signer(key).sign(content)}
    return {CERTIFICATE: content, **signed}


def certificate_of(
    release: Release,
    config: SurveyConfig,
    drawn_by: Calibrated,
    drawn: Arrays,
    software: Software,
    ledger: LedgerPart | None,
    files: Mapping[str, bytes],
    audit: tuple[AuditedPair, ...] | None = None,
) -> Certificate:
    """The certificate of a release.

    Args:
        release: the release.
        config: the job of the release.
        drawn_by: method and mechanism, as they were stored with the noise.
        drawn: the draws of the mechanism.
        software: the software that drew.
        ledger: up to its own line; None: no ledger counts it.
        files: files that are published of the release, by name.
        audit: results of attacks on its mechanism; None: there were none.
    """
    return Certificate(
        release=Released(
            release_id=release.release_id,
            population=release.name,
            job=release.job,
            method=release.method,
            night=release.night,
            created=release.created,
            safe=release.safe,
        ),
        files={name: hashlib.sha256(files[name]).hexdigest() for name in sorted(files)},
        guarantee=_guarantee(release, drawn_by),
        domain=domain_of(config, release),
        rows=rows_of(config),
        public_facts=tuple(public_facts_of(config)),
        draws=(*_draws_of_names(release, drawn_by), *drawn_by.certified(drawn)),
        bits=release.privacy.bits,
        reconstructed=release.privacy.reconstructed,
        ledger=ledger,
        software=software,
        post_processing=tuple(_post_processing(release)),
        errata=() if release.privacy.erratum is None else (release.privacy.erratum,),
        not_proved=tuple(_not_proved(config, ledger)),
        audit=audit,
    )


def _draws_of_names(release: Release, drawn_by: Calibrated) -> Iterator[Draw]:
    """Yield the draw of the names of items, by the law that was stored with them."""
    found, terms = release.found, drawn_by.discovery
    if found is not None and terms is not None:
        from hushrank.flows.statement.found_names import mechanism_of

        params = drawn_by.params
        yield noise_of_names(mechanism_of(found, terms, params), terms, sides_of(params))


def _guarantee(release: Release, drawn_by: Calibrated) -> Guarantee:
    privacy, spend = release.privacy, drawn_by.spend
    return Guarantee(
        unit=privacy.unit.value,
        adjacency=None if privacy.adjacency is None else privacy.adjacency.value,
        epsilon=as_shown(privacy.epsilon),
        delta=as_shown(privacy.delta),
        rho=None if privacy.rho is None else as_shown(privacy.rho),
        charged=cost_of(spend, as_shown),
        statement=privacy.statement,
        not_protected=privacy.not_protected,
        theorem=privacy.theorem,
    )


def _post_processing(release: Release) -> Iterator[str]:
    yield POST_PROCESSING
    if release.stream is not None:
        yield NIGHTS_BEFORE
    if release.safe:
        yield BUDGET_BEFORE


def _not_proved(config: SurveyConfig, ledger: LedgerPart | None) -> Iterator[str]:
    yield from NOT_PROVED
    if config.privacy.unit is Unit.LOCAL and config.privacy.already_private:
        yield LOCAL_NOT_PROVED
    if ledger is not None:
        yield LEDGER_NOT_PROVED
