"""A data-protection impact assessment to complete, from the YAML file alone.

What hushrank knows is filled in: data, flow, guarantee, budget, retention, risks that remain. What
only the organisation knows is marked `TO COMPLETE`. No row is read, and nothing is spent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from hushrank.flows.config.apart import NamedPlace, Use, named_places
from hushrank.flows.config.collect import CollectConfig
from hushrank.flows.config.method import AboutConfig
from hushrank.flows.config.rankings import RankingsConfig
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.run.context import Survey
from hushrank.flows.statement.local import LocalGuarantee
from hushrank.flows.statement.mechanism import ALL_NIGHTS, RHO_DELTA
from hushrank.flows.statement.night_words import (
    night_bounds,
    night_sentences,
    not_protected_on_nights,
    who_on_nights,
)
from hushrank.flows.statement.rankings import (
    RankingCountMechanism,
    bound_of_rankings,
    not_protected_by_counts,
    of_rankings,
)
from hushrank.flows.statement.sentences import (
    CHANGE,
    GRAPH_NOT_PROTECTED,
    OUTCOMES_CHANGE,
    Guarantee,
    against_what,
    bounds,
    delta_sentence,
    graph_sentences,
    name_sentences,
    never_protected,
    not_protected,
    who,
)
from hushrank.privacy.accounting import epsilon_of
from hushrank.privacy.units import Unit

OPEN = "**TO COMPLETE**"
_USES = {
    Use.INPUT: "true answers; only read",
    Use.READ: "settings; only read",
    Use.OWN_FOLDER: "written by hushrank alone",
    Use.SHARED_FOLDER: "written by hushrank and others",
    Use.WRITTEN: "written by hushrank",
}
_CONTENTS = {  # of places whose key says too little
    "output": "releases, which are made to be published",
    "confidential": "exact counts while a run lasts, rows that were set aside, stored noise",
    "ledger.path": "what each release cost, and the account that ran it, which may be an e-mail"
    " address of staff; no answer, and nobody who answered",
}
_RISKS = (
    (
        "Somebody learns from a release what one person answered.",
        "Noise bounds how much any release says about one unit, whatever else the reader knows"
        " (section 4). The ledger adds up all releases and refuses one too many (section 5).",
    ),
    (
        "Somebody reads the answers where they are kept.",
        "hushrank makes its confidential folder readable by its owner alone, and deletes exact"
        " counts when a run ends. It does not encrypt the input or this folder.",
    ),
    (
        "Releases are made again until a result pleases.",
        "The same job on the same input is one release and costs once; a new draw must be asked"
        " for, is paid for, and shows in the ledger.",
    ),
    (
        "Somebody raises epsilon or the total of the budget.",
        "Each release states its epsilon, its certificate proves it, and the ledger holds every"
        " total in a chain of hashes. Whoever may edit the YAML file may raise them.",
    ),
    (
        "Readers take the ranking for more than it is.",
        "Scores and ranks have intervals that include the noise, and the page says who was asked.",
    ),
)


def assessment(survey: Survey) -> str:
    """The text in Markdown.

    Raises:
        ConfigError: the method cannot be calibrated for this file.
    """
    config = survey.config
    title = (config.report.about and config.report.about.title) or config.name
    sections = (
        ("1. Purpose and people", _purpose(config)),
        ("2. Data", _data(config)),
        ("3. Flow and places", _flow(config)),
        ("4. What is protected, and what is not", _guarantee(survey)),
        ("5. Budget", _budget(config)),
        ("6. Retention and erasure", _retention(config)),
        ("7. Risks", _risks()),
        ("8. Rights, roles and decision", _decision()),
    )
    lines = [
        f"# Data-protection impact assessment: {_plain(title)}",
        "",
        "Made by `hushrank dpia` from the configuration alone; no answer was read. It is a draft"
        f" for the officer in charge: each {OPEN} needs a person.",
    ]
    for heading, body in sections:
        lines += ["", f"## {heading}", "", *body]
    return "\n".join(lines) + "\n"


def _purpose(config: SurveyConfig) -> Iterator[str]:
    about, collect = config.report.about or AboutConfig(), config.collect
    asker = collect.about if isinstance(collect, CollectConfig) else None
    yield from _table(
        ("", ""),
        [
            ("Population", config.name),
            ("Organisation", asker.organisation if asker else None),
            ("Contact", about.contact or (asker.contact if asker else None)),
            ("Purpose", None),
            ("Legal basis", None),
            ("Question", about.question),
            ("Who is asked", about.who),
            ("How they are found", about.how_recruited),
            ("When", about.dates),
        ],
    )


def _data(config: SurveyConfig) -> Iterator[str]:
    yield f"Kind of answers: {config.input.kind}. Columns that are read, and no others:"
    yield ""
    named = config.input.columns.model_dump(mode="json", exclude_none=True)
    roles = {role: column for role, column in named.items() if isinstance(column, str)}
    if config.groups is not None:
        roles["group"] = ", ".join(config.groups.read)
    if config.schedule.window is not None:
        roles["time"] = config.schedule.window
    told = {*roles.values(), *(() if config.groups is None else config.groups.read)}
    others = [name for name in config.columns().names() if name not in told]
    rows = list(roles.items())
    if others:
        rows.append(("items, places, features", ", ".join(others)))
    yield from _table(("role", "column"), rows)
    yield ""
    yield f"Special categories of data among the answers or the groups: {OPEN}"


def _flow(config: SurveyConfig) -> Iterator[str]:
    first = "A process of its own reads, bounds and counts the rows; noise is added once."
    if config.privacy.unit is Unit.LOCAL:
        first = "A process of its own reads and counts the private answers."
        if not config.privacy.already_private:
            first = "A process of its own reads the rows and changes each answer by chance."
    yield (
        f"{first} From then on only private numbers are used. Releases, logs and messages hold"
        " nothing else that was computed from answers."
    )
    yield ""
    places = {each.key: each for each in reversed(named_places(config))}
    rows = [
        (each.key, f"{each.place}", _content(each, config), None)
        for each in reversed(places.values())
    ]
    yield from _table(("key", "place", "holds", "who may open it"), rows)
    yield ""
    yield f"Engine that reads the rows: {config.runner.kind}."


def _content(place: NamedPlace, config: SurveyConfig) -> str:
    if place.use is Use.INPUT and config.privacy.already_private:
        return "private answers; only read"
    if place.key == "collect.folder":
        return "private answers, from the collector"
    return _CONTENTS.get(place.key, _USES[place.use])


def _guarantee(survey: Survey) -> Iterator[str]:
    config, spend = survey.config, survey.calibrated.spend
    privacy = config.privacy
    if privacy.unit is Unit.LOCAL:
        yield from _local_guarantee(config, spend.epsilon)
        lost: Iterator[str] = never_protected()
    else:
        promised, lost = _central_guarantee(survey)
        if isinstance(config.input, RankingsConfig):
            promised, lost = map(of_rankings, promised), map(of_rankings, lost)
        yield from (f"- {each}" for each in promised)
    yield from ("", "Not protected:", "")
    yield from (f"- {each}" for each in lost)
    yield from ("", f"Why this epsilon is right for these people: {OPEN}")


def _central_guarantee(survey: Survey) -> tuple[Iterator[str], Iterator[str]]:
    """Sentences on what is protected, and on what is not."""
    privacy, mechanism = survey.config.privacy, survey.mechanism
    params, whole, stream = privacy.params(), _whole(survey), survey.config.schedule.stream
    change = CHANGE[params.unit, params.adjacency]
    if privacy.public_graph:
        change = OUTCOMES_CHANGE[params.unit]
    first, what, counted = who(params), "this release", bounds(params)
    lost = not_protected(params, whole)
    if stream is not None:
        first, what = who_on_nights(params.adjacency, stream.terms), ALL_NIGHTS
        counted = chain(night_sentences(stream.terms), night_bounds(params, stream.terms))
        lost = not_protected_on_nights(params, whole, stream.terms)
    elif isinstance(mechanism, RankingCountMechanism):
        counted = iter([bound_of_rankings(mechanism)])
        lost = chain(not_protected_by_counts(mechanism), lost)
    promised = chain(
        [first],
        name_sentences(params),
        against_what(change, whole, what),
        graph_sentences(privacy.public_graph_statement),
        [delta_sentence(whole.delta, params.unit)] if whole.delta > 0 else [],
        counted,
    )
    return promised, chain(GRAPH_NOT_PROTECTED if privacy.public_graph else (), lost)


def _whole(survey: Survey) -> Guarantee:
    """The guarantee as a release states it: what is charged as rho has an epsilon too."""
    privacy, spend = survey.config.privacy, survey.calibrated.spend
    if spend.rho is None:
        return Guarantee(epsilon=spend.epsilon, delta=spend.delta, rho=None)
    if privacy.rho is None and privacy.epsilon is not None:
        return Guarantee(epsilon=privacy.epsilon, delta=privacy.delta, rho=spend.rho)
    return Guarantee(epsilon=epsilon_of(spend, RHO_DELTA), delta=RHO_DELTA, rho=spend.rho)


def _local_guarantee(config: SurveyConfig, charged: float) -> Iterator[str]:
    privacy, collect = config.privacy, config.collect
    what = "ranking" if isinstance(config.input, RankingsConfig) else "answer"
    where = (
        "on the person's own device, before it is sent"
        if privacy.already_private
        else "by itself, as it is read: the input holds true answers"
    )
    yield f"- Each {what} is changed by chance {where}."
    yield f"- The ledger is charged epsilon {charged:g} for {_charged_unit(config)}."
    if collect is not None and what == "answer":
        most = collect.answers_of_a_person(config.input, len(config.items.catalogue.names))
        yield f"- The page asks a respondent for at most {most} answers."
    yield "- The statement of each release says what is protected at which epsilon."


def _charged_unit(config: SurveyConfig) -> str:
    """The unit that the total of the ledger is about."""
    privacy = config.privacy
    if privacy.unit is Unit.USER:
        return "each person"
    if privacy.unit is Unit.COMPARISON:
        return "each answer"
    if LocalGuarantee.of(config).person is not None:
        return "all that counts of each person"
    if isinstance(config.input, RankingsConfig):
        return "each ranking"
    return "each answer, of any number of them"


def _budget(config: SurveyConfig) -> Iterator[str]:
    ledger = config.ledger
    period = "in total" if ledger.refresh is None else f"in each period ({ledger.refresh})"
    yield (
        f"All releases about {_plain(config.name)} may cost at most epsilon {ledger.epsilon:g}"
        f" {period}, at delta {ledger.delta:g}, for {_charged_unit(config)}."
    )
    if ledger.refresh is not None:
        ever = ledger.lifetime_epsilon
        yield (
            f"Over all periods the limit is {ever:g}."
            if ever is not None
            else "Over all periods there is no limit (`ledger.lifetime_epsilon` would set one)."
        )
    signed = "signed by a key" if ledger.signing_key is not None else "not signed"
    anchored = "anchored in a second place" if ledger.anchor is not None else "not anchored"
    yield f"Lines of the ledger are {signed}, and {anchored}."
    yield ""
    yield f"Who may raise the total, and who is told: {OPEN}"


def _retention(config: SurveyConfig) -> Iterator[str]:
    kept = config.retention
    days = f"{kept.rejects_days} days, by `hushrank clean`"
    yield from _table(
        ("what", "how long"),
        [
            ("the input", None),
            ("exact counts", "until the run ends; after a failure, until the next run or `clean`"),
            (
                "parts of a count over many files that was interrupted: rows under pseudonyms, key",
                f"until the next run has drawn the noise, or {days}",
            ),
            ("rows that were set aside", days),
            ("stored noise of a release", f"{kept.drawn_days} days, by `hushrank clean`"),
            ("releases and the ledger", "for good: the ledger must know every release"),
        ],
    )
    yield ""
    yield (
        "A person who asks to be erased is removed from the input: no later release counts them."
        " Earlier releases stay: what they can say about one person is bounded as section 4 says,"
        " and what they cost stays in the ledger."
    )


def _risks() -> Iterator[str]:
    rows = [(risk, measure, None, None) for risk, measure in _RISKS]
    yield from _table(
        ("risk", "what hushrank does", "likelihood, severity", "further measures"), rows
    )


def _decision() -> Iterator[str]:
    for what in (
        "How people are informed, and how they object",
        "Who runs the nights, who holds the keys, who answers for the budget",
        "What is done when a file is lost (docs: Operations)",
        "Opinion of the data-protection officer, decision and date of the next review",
    ):
        yield f"- {what}: {OPEN}"


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str | None, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(_plain(cell) if cell else OPEN for cell in row)} |"


def _plain(text: str) -> str:
    """Text in a cell of Markdown: one line, without signs that would be formatting."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
