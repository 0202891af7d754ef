"""Rules between the sections of a job. Each rule yields the key, from the root, and a text."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce
from pathlib import Path

from hushrank.flows.config.apart import problems_of_places
from hushrank.flows.config.comparisons import InputConfig
from hushrank.flows.config.method import MethodFacts, Methods, Problems, Sections, Weights
from hushrank.flows.config.privacy import PrivacyConfig, RankingChoice
from hushrank.flows.config.rankings import (
    MOST_CANDIDATES,
    SEVERAL_SEATS,
    STV,
    USUAL_RULES,
    ElectionRule,
    Overvotes,
    RankingsConfig,
    Skipped,
    Unlisted,
    approval_rules,
)
from hushrank.flows.config.responses import ResponsesConfig
from hushrank.flows.config.row_rules import (
    problems_of_counts,
    problems_of_extras,
    problems_of_groups,
    problems_of_look,
    problems_of_stream,
    problems_of_words,
)
from hushrank.flows.config.runner import DataflowRunner, LocalRunner, SparkRunner
from hushrank.flows.config.schedule import problems_of_paths, selects_nights
from hushrank.pipelines.engine.runner import memory_for, most_workers
from hushrank.privacy.random_pairs import Hide
from hushrank.privacy.units import Adjacency, Unit
from hushrank.transforms.common.plain_text import short
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.rankings.ranking_columns import Repeated
from hushrank.transforms.storage.places import CLOUD_PREFIX, is_cloud
from hushrank.transforms.tables.names import is_object, is_source, is_table

MOST_ITEMS_LOCAL = 100_000  # with many items, only compared pairs have sums
MOST_ITEMS_RANKED = 1_000  # three matrices of this size are released: 20 MB of JSON

NOT_FOR_SPARK = (
    "not with kind: spark, which computes parts again that it lost: what is drawn for a person in"
    " the job (a private answer, or which of many rankings count) would be drawn twice, and both"
    " draws could be counted. Use another kind; or, of comparisons and test answers, privatise at"
    " the source (already_private: true)"
)
ONE_EPSILON = (
    "needs exactly one of privacy.epsilon (a number for all), privacy.epsilon_table (a file with"
    " the columns user and epsilon) and input.columns.epsilon (a column of the {})"
)
_TIES_SHOW = (
    "{} would show which answers were ties, because only the other ones count in full. Write ties:"
    " random, which decides a tie by a fair coin before it is privatised"
)
_NO_PERSONAL_EPSILON = (
    "a personal epsilon only counts where each person's answers are privatised one by one; under"
    " unit comparison or user everybody is protected at privacy.epsilon. Remove this line"
)


def problems_of_job(config: Sections, methods: Methods, survey: Path | None = None) -> Problems:
    """Yield key and text of the rules that sections break together, with keys from the file's root.

    Args:
        config: the sections.
        methods: the methods that exist.
        survey: the YAML file; None: there is none.
    """
    yield from problems_of_places(config, survey)
    for key, rule in problems_of_paths(config.input.paths):
        yield f"input.{key}", rule
    yield from _problems_of_source(config)
    if config.items.discover is None:
        yield from _problems_of_items(config)
    else:
        from hushrank.flows.config.discover_rules import problems_of_discovery

        yield from problems_of_discovery(config, methods)
    yield from _problems_of_method(config, methods)
    yield from _problems_of_kind(config, methods)
    if isinstance(config.input, RankingsConfig) and config.input.layout == "best-worst":
        yield from _problems_of_best_worst(config, methods)
    yield from problems_of_groups(config, methods)
    yield from problems_of_look(config)
    yield from problems_of_counts(config)
    yield from _problems_of_runner(config)
    yield from _problems_of_report(config, methods)
    yield from _problems_of_rules(config, methods)
    yield from problems_of_stream(config, methods)


def _problems_of_best_worst(config: Sections, methods: Methods) -> Problems:
    """Refuse what would take the order of a secret coin for an answer."""
    if config.privacy.unit is not Unit.USER:
        yield "privacy.unit", "must be user with input.layout: best-worst; change one of the two"
    if not methods[config.method].best_worst:
        suitable = " or ".join(sorted({each.name for each in methods.values() if each.best_worst}))
        yield (
            "method",
            f"must be {suitable} with input.layout: best-worst; other methods would take the order"
            " of a secret coin for an answer",
        )


def _problems_of_source(config: Sections) -> Problems:
    """Yield the broken rules between rows of a Beam transform and the rest of a job."""
    if config.input.version is None:
        return
    for key in ("window", "partition"):
        if getattr(config.schedule, key) is not None:
            yield (
                f"schedule.{key}",
                "is for files, and a Beam transform yields the rows; remove it, write {date} into"
                " input.version, and select the rows of a night in input.source",
            )


def _problems_of_rules(config: Sections, methods: Methods) -> Problems:
    """Yield the rules of elections that a job asks for and its counts cannot tell."""
    if not config.rules:
        return
    if not isinstance(config.input, RankingsConfig) or config.privacy.unit is not Unit.USER:
        yield "rules", "needs input.kind: rankings and privacy.unit: user; remove it"
        return
    most = len(config.items.catalogue.names)
    longest = min(config.input.max_length or most, most)
    told: dict[str | None, Collection[str]] = {
        "pairs": USUAL_RULES["pairs"],
        "rounds": USUAL_RULES["rounds"],
        "places": [*USUAL_RULES["places"], *approval_rules(longest)],
    }
    known = {name: told.get(each.elections, ()) for name, each in methods.items()}
    if (n_items := len(config.items.catalogue.names)) > MOST_CANDIDATES:
        yield "rules", f"are for at most {MOST_CANDIDATES} items, got {n_items:,}; remove it"
    for rule in config.rules:
        if rule.lower() in STV:
            yield "rules", SEVERAL_SEATS
            continue
        suitable = [method for method, rules in known.items() if rule in rules]
        if not suitable:
            names = ", ".join(ElectionRule)
            yield "rules", f"no rule is named {short(rule)}; write {names} or approval-2"
        elif config.method not in suitable:
            yield "rules", f"{rule} needs method: {' or '.join(suitable)}; remove one of the two"


def _problems_of_report(config: Sections, methods: Methods) -> Problems:
    facts, link = methods[config.method], config.model.link
    if config.report.scale != "elo" or facts.logistic:
        return
    if not facts.linked:
        suitable = (name for name, each in methods.items() if each.linked or each.logistic)
        yield (
            "report.scale",
            f"elo needs one score of a logistic link for each item, which method: {config.method}"
            f" does not have; remove it, or choose among the methods {', '.join(suitable)}",
        )
    elif link != "logistic":
        yield "report.scale", f"elo needs model.link: logistic, got {link}; change one of the two"


def _problems_of_items(config: Sections) -> Problems:
    catalogue = config.items.catalogue
    if config.items.dated:
        yield from _problems_of_dated_items(config)
    if config.top_k is not None and config.top_k >= len(catalogue):
        yield "top_k", f"must be below the number of items ({len(catalogue)}), got {config.top_k}"
    yield from problems_of_words(config.input, catalogue)


def _problems_of_dated_items(config: Sections) -> Problems:
    """Yield the broken rules of a file that lists items by night."""
    if not selects_nights(config.input.paths, config.schedule):
        yield (
            "items.file",
            "lists items by night ({date} in its name, or columns from and until), and this job"
            " selects no nights. Name one list without nights, or write {date} into input.paths or"
            " set schedule.window or schedule.partition",
        )
    if config.schedule.stream is not None:
        yield (
            "items.file",
            "lists items by night, and all nights of a stream have one list. Name one list with"
            " all items, also of those that come later, or remove schedule.stream",
        )


def _problems_of_method(config: Sections, methods: Methods) -> Problems:
    own = methods[config.method]
    if config.input.kind not in own.kinds:
        suits = [name for name, each in methods.items() if config.input.kind in each.kinds]
        yield (
            "method",
            f"{config.method} is not for input.kind: {config.input.kind}; write"
            f" {', '.join(suits[:-1])} or {suits[-1]}",
        )
    yield from _problems_of_keys(config, own, methods)
    if isinstance(config.input, InputConfig):
        yield from _problems_of_adjacency(config, config.input, own)
    if config.input.kind in own.kinds:
        yield from own.rules(config)


def _problems_of_keys(config: Sections, own: MethodFacts, methods: Methods) -> Problems:
    """Refuse keys that the method does not use, and require those that it needs."""
    if config.spectral is not None and not own.uses("spectral"):
        users = [name for name, each in methods.items() if each.uses("spectral")]
        yield "spectral", f"is for method: {' or '.join(users)}; remove it"
    for key in sorted(config.model.model_fields_set):
        if not own.uses(f"model.{key}"):
            yield f"model.{key}", f"is not used by method: {own.name}; remove it"
    if config.model.link == "auto" and not own.chooses_link:
        choosers = ", ".join(name for name, each in methods.items() if each.chooses_link)
        yield "model.link", f"auto is for methods {choosers}; write logistic"
    if (design := config.model.design()) is not None:
        try:
            design.exposures(config.items.catalogue.names)
        except ValueError as error:
            yield "model.exposures", f"{config.model.exposures}: {error}"
    if config.privacy.public_graph and not own.uses("privacy.public_graph"):
        yield "privacy.public_graph", f"changes nothing with method: {own.name}; remove it"
    yield from problems_of_extras(config, own, methods)
    for key, missing in own.requires.items():
        if reduce(getattr, key.split("."), config) is None:
            yield key, missing


def _problems_of_adjacency(config: Sections, rows: InputConfig, own: MethodFacts) -> Problems:
    """Refuse inputs in which one changed unit moves the statistic by more than its sensitivity."""
    privacy = config.privacy
    public = privacy.public_graph and own.uses("privacy.public_graph")
    if public and rows.ties is Ties.DROP:
        yield (
            "input.ties",
            "must be split or random with public_graph: true: a dropped tie makes who compared"
            " what depend on the outcomes",
        )
    if public and rows.columns.event is not None:
        yield (
            "input.columns.event",
            "not with public_graph: true: which events contradict themselves, and so who"
            " compared what, depends on the outcomes; remove copies from the input",
        )
    # Not allowed: the removed row may have excluded its event. Then the event and the new row both
    # count: one item gains two wins, and the calibration assumes one.
    replaced = privacy.adjacency is Adjacency.REPLACE_ONE
    if privacy.unit is Unit.COMPARISON and replaced and rows.columns.event is not None:
        yield (
            "input.columns.event",
            "under unit: comparison needs adjacency: add-remove, because a replaced row can"
            " change two events; set that, or unit: user",
        )


def _problems_of_kind(config: Sections, methods: Methods) -> Problems:
    """Refuse keys that no input of that kind uses, or that contradict unit `local`."""
    local = config.privacy.unit is Unit.LOCAL
    if config.input.kind == "rankings":
        yield from _problems_of_rankings(config, methods[config.method])
        return
    if config.privacy.mechanism is not None:
        yield "privacy.mechanism", "is for input.kind: rankings; remove it"
    if config.input.kind == "comparisons":
        if not local and config.comparisons.columns.epsilon is not None:
            yield "input.columns.epsilon", _NO_PERSONAL_EPSILON
        if local:
            yield from _problems_of_answers(config)
    if isinstance(config.input, ResponsesConfig) and not local and config.input.columns.epsilon:
        yield "input.columns.epsilon", _NO_PERSONAL_EPSILON
    own = methods[config.method]
    if local != (own.local and config.input.kind in own.kinds):
        suits = [each for each in methods.values() if config.input.kind in each.kinds]
        yield "method", _wrong_unit(config, suits)


def _wrong_unit(config: Sections, suits: Sequence[MethodFacts]) -> str:
    """Message for a method that adds noise after counting under unit `local`, or the reverse."""
    local = [each.name for each in suits if each.local]
    central = [each.name for each in suits if not each.local]
    if config.input.kind == "responses":
        return (
            f"privacy.unit: local goes with method: {' or '.join(local)}, which privatises every"
            f" answer by itself, and unit: user with {', '.join(central)}, which add noise after"
            " counting. Change one of them"
        )
    if config.privacy.unit is Unit.LOCAL:
        return (
            f"{config.method} adds noise after counting, which privacy.unit: local rules out;"
            f" write {', '.join(local[:-1])} or {local[-1]}"
        )
    return (
        f"{config.method} privatises every answer by itself; set privacy.unit: local, or"
        f" write {central[0]}"
    )


def _problems_of_sources(privacy: PrivacyConfig, column: str | None, rows: str) -> Problems:
    """Refuse epsilons that have no source, or two sources."""
    sources = (privacy.epsilon, privacy.epsilon_table, column)
    if sum(source is not None for source in sources) != 1:
        yield "privacy", ONE_EPSILON.format(rows)


def _problems_of_answers(config: Sections) -> Problems:
    privacy, columns = config.privacy, config.comparisons.columns
    yield from _problems_of_sources(privacy, columns.epsilon, "answers")
    if columns.event is not None:
        yield (
            "input.columns.event",
            "under unit: local copies of one event are privatised one by one, each at a cost;"
            " remove copies from the input, and this line",
        )
    ties = config.comparisons.ties
    if privacy.already_private and ties is not Ties.DROP:
        yield "input.ties", "must be drop: answers that were privatised have no ties"
    elif not privacy.already_private and ties is not Ties.RANDOM:
        yield "input.ties", _TIES_SHOW.format(ties)
    if len(config.items.catalogue.names) > MOST_ITEMS_LOCAL:
        yield "items", f"must be at most {MOST_ITEMS_LOCAL} with method: {config.method}"


def _problems_of_rankings(config: Sections, own: MethodFacts) -> Problems:
    """Yield key and text of the rules that the sections of a job on rankings break together."""
    privacy, n_items = config.privacy, len(config.items.catalogue.names)
    if privacy.unit is Unit.COMPARISON:
        yield (
            "privacy.unit",
            "must be user (noise is added to counts) or local (rankings are privatised one by one)"
            " with input.kind: rankings, got comparison",
        )
        return
    if own.kind == "rankings" and privacy.unit not in own.units:
        yield (
            "method",
            f"{own.name} adds noise after counting, which privacy.unit: local rules out; write"
            " borda, or unit: user",
        )
    if privacy.unit is Unit.USER:
        yield from _problems_of_trusted_rankings(config)
        return
    if privacy.mechanism is None:
        yield "privacy.mechanism", "missing; add mechanism: mallows"
    if "budget" in privacy.model_fields_set:
        yield "privacy.budget", "has no meaning for rankings; set max_contributions, and remove it"
    if n_items > MOST_ITEMS_RANKED:
        yield "items", f"must be at most {MOST_ITEMS_RANKED} with input.kind: rankings"
    yield from _problems_of_epsilon(config)
    yield from _problems_of_pairs(config)
    yield from _problems_of_private_ballots(config.rankings)
    if config.rankings.person_features is not None and not own.uses("input.person_features"):
        yield "input.person_features", f"changes nothing with method: {own.name}; remove it"
    if config.rankings.columns.user is None and config.rankings.layout == "list":
        for key, given in (
            ("privacy.max_contributions", privacy.max_contributions is not None),
            ("privacy.epsilon_table", privacy.epsilon_table is not None),
        ):
            if given:
                yield key, "needs input.columns.user, which says whose ranking a row is"


def _problems_of_pairs(config: Sections) -> Problems:
    """Yield the broken rules of private answers to random pairs."""
    privacy, layout = config.privacy, config.rankings.layout
    answered = privacy.already_private and privacy.mechanism is RankingChoice.RANDOM_PAIRS
    if answered and layout != "pairs":
        yield (
            "input.layout",
            "must be pairs with mechanism: random-pairs and already_private: true: the rows are"
            f" private answers, not rankings; got {layout}",
        )
    if layout != "pairs":
        return
    if not answered:
        yield (
            "input.layout",
            "pairs is for private answers; set privacy.mechanism: random-pairs and"
            " already_private: true, or write long, list, wide or places",
        )
    if privacy.hide is Hide.ITEMS and config.rankings.columns.length is not None:
        yield "input.columns.length", "is hidden by privacy.hide: items; remove it"
    if privacy.max_contributions is not None:
        yield (
            "privacy.max_contributions",
            "not with input.layout: pairs, where each row counts as another person's; remove it",
        )


def _problems_of_private_ballots(rankings: RankingsConfig) -> Problems:
    """Yield the broken rules of ballots under unit `local`, whose mechanisms need listed items."""
    if rankings.unlisted is Unlisted.BELOW:
        yield (
            "input.unlisted",
            "below is for unit: user; where nobody may see a ballot, ask each person for all items,"
            " or write unknown",
        )
    ends = {
        "overvotes": rankings.overvotes is Overvotes.EXHAUST,
        "skipped": rankings.skipped is Skipped.EXHAUST,
        "repeated": rankings.repeated is Repeated.EXHAUST,
    }
    for name, exhausted in ends.items():
        if exhausted:
            yield (
                f"input.{name}",
                "exhaust is for unit: user: where a private ballot ends is not hidden; end it where"
                " it is filled in, and remove this line",
            )
    for name, given in (
        ("overvoted", bool(rankings.overvoted)),
        ("repeated", rankings.repeated is Repeated.FIRST),
    ):
        if given:
            yield f"input.{name}", "is for unit: user, where ballots are counted as they are"


def _problems_of_trusted_rankings(config: Sections) -> Problems:
    """Yield the broken rules of rankings that are counted before noise is added."""
    privacy, rankings = config.privacy, config.rankings
    if len(config.items.catalogue.names) > MOST_ITEMS_RANKED:
        yield "items", f"must be at most {MOST_ITEMS_RANKED} with input.kind: rankings"
    if rankings.layout == "pairs":
        yield "input.layout", "pairs is for unit: local; write long, list, wide or places"
    if privacy.mechanism is not None:
        yield "privacy.mechanism", "is for unit: local; remove it"
    if rankings.columns.epsilon is not None:
        yield "input.columns.epsilon", _NO_PERSONAL_EPSILON
    for key in ("per_item_cap", "distinct_pairs"):
        if key in privacy.model_fields_set:
            yield f"privacy.{key}", "is for input.kind: comparisons; remove it"
    for key in sorted({"debiased", "common_order"} & config.model.model_fields_set):
        yield f"model.{key}", "is for unit: local, where there is something to undo; remove it"
    if not rankings.names_people and privacy.names_per_person > 1:
        yield (
            "privacy.names_per_person",
            "needs a column of user names, whose number it bounds; name it in input.columns.user",
        )
    if not rankings.names_people and (privacy.max_contributions or 1) > 1:
        yield (
            "privacy.max_contributions",
            "must be 1 where nothing says whose ranking a row is; name that column in"
            " input.columns.user, or write 1",
        )


def _problems_of_epsilon(config: Sections) -> Problems:
    privacy, columns = config.privacy, config.rankings.columns
    yield from _problems_of_sources(privacy, columns.epsilon, "rankings")
    if privacy.mechanism is RankingChoice.LAPLACE_RANKS and privacy.epsilon is None:
        yield "privacy.epsilon", "missing; mechanism: laplace-ranks takes one number for all"
    if config.model.weights is not Weights.PRECISION and privacy.epsilon is not None:
        yield "model.weights", "is for rankings whose epsilons differ; remove it"


def _problems_of_runner(config: Sections) -> Problems:
    """Yield the broken rules between the engine and the rest of a job."""
    runner = config.runner
    spills = isinstance(runner, LocalRunner) and runner.spill is not None
    if spills and not is_cloud(str(config.confidential)):
        yield (
            "runner.spill",
            "is for confidential in Cloud Storage; rows wait in a confidential folder of this"
            " machine as it is. Remove it",
        )
    if isinstance(runner, LocalRunner) and runner.workers != "auto":
        yield from _problems_of_workers(runner.workers, config.memory_limit)
    if isinstance(runner, DataflowRunner):
        for place, path in enumerate(config.input.paths):
            if not is_cloud(path) and not is_source(path):
                yield f"input.paths[{place}]", _must_be_remote(path)
        if not is_cloud(str(config.confidential)):
            yield "confidential", _must_be_remote(str(config.confidential))
        if config.privacy.epsilon_table is not None:
            yield (
                "privacy.epsilon_table",
                "not with kind: dataflow, whose workers cannot reach a local file; give each answer"
                " its epsilon in a column (input.columns.epsilon)",
            )
    draws = not config.privacy.already_private or config.input.kind == "rankings"
    if isinstance(runner, SparkRunner) and config.privacy.unit is Unit.LOCAL and draws:
        yield "runner", NOT_FOR_SPARK


def _problems_of_workers(workers: int, memory_limit: int) -> Problems:
    if memory_limit < (least := memory_for(workers)):
        yield (
            "runner.workers",
            f"{workers} workers need a memory_limit of {-(-least >> 20)} MiB, and it is"
            f" {memory_limit >> 20} MiB, enough for {most_workers(memory_limit)}; raise it, or"
            " write workers: auto",
        )


def _must_be_remote(path: str) -> str:
    if is_table(path) or is_object(path):
        return (
            f"{path} is not read with kind: dataflow, whose workers have neither its libraries nor"
            f" its credentials; write runner: local, or copy the rows to {CLOUD_PREFIX}"
        )
    return (
        f"must start with {CLOUD_PREFIX} with kind: dataflow, whose workers cannot reach a local"
        f" path, got {path!r}; copy it to Cloud Storage"
    )
