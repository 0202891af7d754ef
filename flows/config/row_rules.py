"""Rules about the content and time of rows: weights, covariates, ties, words, groups, nights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from hushrank.flows.config.chosen_sets import items_of_sets
from hushrank.flows.config.comparisons import MOST_ASKED, GroupsConfig, InputConfig
from hushrank.flows.config.method import MethodFacts, Methods, Problems, Sections
from hushrank.flows.config.participation import ParticipationConfig
from hushrank.flows.config.privacy import PrivacyConfig
from hushrank.flows.config.rankings import RankingsConfig
from hushrank.flows.config.responses import ResponsesConfig
from hushrank.flows.config.schedule import NightlyBudget, StreamConfig, selects_nights
from hushrank.flows.config.section import Section
from hushrank.privacy.units import Bounding, NoiseKind, Query, Unit
from hushrank.transforms.common.catalogue import MOST_GROUPS, UNKNOWN, Catalogue
from hushrank.transforms.common.encode import TIE_WORD
from hushrank.transforms.common.schema import CHOICE, LEFT_ITEM, RIGHT_ITEM, Ties
from hushrank.transforms.rankings.ranking_columns import are_unranked, cells_among

TIE_MODEL = "input.tie_model"
STREAM = "schedule.stream"
ASKED = "input.pairs"
DISTRICTS = "groups.districts"
NO_FACTORS = (
    "weights does not go with method: {}; write noisy-pairs, noisy-counts or win-loss (auto"
    " compares noise alone, and these weights change the signal too)"
)
NO_WEIGHTS = (
    "method: {} counts every row once; remove it, or write noisy-pairs, noisy-counts or win-loss"
)


def problems_of_extras(config: Sections, own: MethodFacts, methods: Methods) -> Problems:
    """Yield key and text of the rules that weights and covariates break with other sections."""
    yield from problems_of_weights(config, own)
    yield from problems_of_covariates(config, own, methods)
    yield from problems_of_ties(config, own, methods)
    yield from problems_of_asked(config, own, methods)


def takes_extras(config: Sections, facts: MethodFacts) -> bool:
    """Whether a method supports what a job asks beside a ranking of all rows.

    These are: a ranking of each group, weights and covariates of rows, ties as an outcome, a stream
    of nights.
    """
    rows, uses = config.input, facts.uses
    tied = isinstance(rows, InputConfig) and rows.ties is Ties.MODEL
    features = isinstance(rows, InputConfig) and bool(rows.features)
    first = isinstance(rows, InputConfig) and rows.columns.first is not None
    return (
        (config.groups is None or uses("groups"))
        and (not features or uses("input.features"))
        and (not first or uses("input.features") or uses("input.columns.first"))
        and (not tied or uses(TIE_MODEL))
        and (config.schedule.stream is None or facts.streams)
        and not any(problems_of_weights(config, facts))
    )


def problems_of_weights(config: Sections, own: MethodFacts) -> Problems:
    """Refuse weights of rows that the method does not take, or that have no bound or no column."""
    privacy, rows = config.privacy, config.input
    column = rows.columns.weight if isinstance(rows, InputConfig) else None
    if privacy.bounding is Bounding.WEIGHTS and not own.uses("privacy.bounding"):
        yield "privacy.bounding", NO_FACTORS.format(own.name)
    if column is not None and privacy.unit is Unit.LOCAL:
        yield (
            "input.columns.weight",
            "not under unit: local, where each answer is privatised by itself and counts as one;"
            " remove it",
        )
    elif column is not None and not own.uses("input.columns.weight"):
        yield "input.columns.weight", NO_WEIGHTS.format(own.name)
    elif column is not None and privacy.max_weight is None:
        yield (
            "privacy.max_weight",
            "missing; input.columns.weight needs the largest weight of a row, a public number."
            " Add for example max_weight: 3",
        )
    if column is None and privacy.max_weight is not None:
        yield "privacy.max_weight", "bounds input.columns.weight; add that, or remove this"


def problems_of_covariates(config: Sections, own: MethodFacts, methods: Methods) -> Problems:
    """Refuse covariates that the method does not use."""
    if not isinstance(config.input, InputConfig) or own.uses("input.features"):
        return
    first = config.input.columns.first is not None and not own.uses("input.columns.first")
    for key, given in (
        ("input.features", bool(config.input.features)),
        ("input.columns.first", first),
    ):
        if given:
            using = {"input.features", key}
            users = " or ".join(
                name
                for name, each in methods.items()
                if any(map(each.uses, using)) and not each.also
            )
            yield key, f"is for method: {users}; remove it, or write that method"


def problems_of_ties(config: Sections, own: MethodFacts, methods: Methods) -> Problems:
    """Refuse ties as an outcome if the method cannot count them, or cannot do the rest of the
    job."""
    if not isinstance(config.input, InputConfig) or config.input.ties is not Ties.MODEL:
        return
    if not own.uses(TIE_MODEL):
        users = " or ".join(name for name, each in methods.items() if each.uses(TIE_MODEL))
        yield (
            "input.ties",
            f"model is for method: {users}, which counts ties apart; write that method, or ties:"
            " random",
        )
        return
    privacy = config.privacy
    if config.model.link != "logistic":
        yield "model.link", "must be logistic with ties: model, whose models are logistic"
    for key, given in (
        ("privacy.public_graph", privacy.public_graph),
        ("privacy.bounding", privacy.bounding is Bounding.WEIGHTS),
        ("input.columns.weight", config.input.columns.weight is not None),
        ("schedule.stream", config.schedule.stream is not None),
    ):
        if given:
            yield key, "does not go with ties: model; remove one of the two"


def problems_of_asked(config: Sections, own: MethodFacts, methods: Methods) -> Problems:
    """Refuse a list of asked pairs if the method takes all pairs, or the list is invalid."""
    if not isinstance(config.input, InputConfig) or (design := config.input.asked()) is None:
        return
    if config.privacy.unit is Unit.LOCAL:
        yield ASKED, "is not for unit: local, where pairs without answers get no noise; remove it"
        return
    if not own.uses(ASKED):
        users = " or ".join(name for name, each in methods.items() if each.uses(ASKED))
        yield ASKED, f"is for method: {users}, got {own.name}; change one of the two"
        return
    if (n_items := len(config.items.catalogue.names)) > MOST_ASKED:
        yield ASKED, f"is for at most {MOST_ASKED:,} items, got {n_items:,}; remove it"
        return
    try:
        design.pairs(config.items.catalogue.names)
    except ValueError as error:
        text = str(error)
        if not isinstance(config.input.pairs, Path):
            text = text.replace("line ", "pair ", 1).replace("remove the line", "remove the pair")
        yield ASKED, text
    for key, given in (
        ("model.exposures", config.model.exposures is not None),
        ("groups", config.groups is not None),
        ("privacy.public_graph", config.privacy.public_graph),
        ("privacy.bounding", config.privacy.bounding is Bounding.WEIGHTS),
        ("input.columns.weight", config.input.columns.weight is not None),
        ("input.ties", config.input.ties is Ties.MODEL),
        (STREAM, config.schedule.stream is not None),
    ):
        if given:
            yield ASKED, f"does not go with {key}; remove one of the two"


def problems_of_look(config: Sections) -> Problems:
    """Refuse a count of unlisted items where no row can name one, or where it is not counted."""
    look, rows = config.privacy.look, config.input
    if look is None or not look.unlisted:
        return
    if not isinstance(rows, InputConfig):
        yield "privacy.look.unlisted", f"is for comparisons, got kind: {rows.kind}; remove it"
    elif rows.columns.pairs is not None:
        yield (
            "privacy.look.unlisted",
            "has nothing to count with input.columns.pairs, whose items are all listed; remove it",
        )


def problems_of_counts(config: Sections) -> Problems:
    """Refuse a count of contradictions where nobody can answer a pair twice, or says who did."""
    counts = config.privacy.counts
    if counts is None or Query.CONTRADICTIONS not in (counts.of or ()):
        return
    if not isinstance(config.input, InputConfig):
        yield (
            "privacy.counts.of",
            f"contradictions is for comparisons, got kind: {config.input.kind}; remove it",
        )
    elif config.input.columns.pairs is not None:
        yield (
            "privacy.counts.of",
            "contradictions has nothing to count with input.columns.pairs, where a person answers"
            " each pair once; remove it",
        )


def problems_of_words(rows: Section, catalogue: Catalogue) -> Problems:
    """Refuse words and columns of the input that contradict the names of the items."""
    if isinstance(rows, InputConfig) and rows.columns.winner is not None:
        yield from _problems_of_winners(rows, catalogue)
    if isinstance(rows, InputConfig) and rows.columns.pairs is not None:
        yield from _problems_of_pairs(rows, catalogue)
    if isinstance(rows, RankingsConfig) and rows.layout == "wide":
        yield from _problems_of_wide(rows, catalogue)
    if isinstance(rows, RankingsConfig) and rows.layout in ("places", "best-worst"):
        yield from _problems_of_places(rows, catalogue)


def _problems_of_pairs(rows: InputConfig, catalogue: Catalogue) -> Problems:
    """Refuse pairs of items that are not listed, and words that a cell may hold as a name."""
    told = {name for _, *names in rows.columns.asked() for name in names}
    for name in sorted(told - {*catalogue.names}):
        yield "input.columns.pairs", f"{name} is not one of items; correct one of the two"
    names = {name.strip().lower() for name in catalogue.names}
    words = [TIE_WORD] if rows.told is None else [w for w, _ in rows.told.words().meanings]
    for word in sorted({word.strip().lower() for word in words} & names):
        yield "input.words", f"the word {word} also names an item; rename one of the two"


def _problems_of_wide(rows: RankingsConfig, catalogue: Catalogue) -> Problems:
    """Refuse columns of ranks whose item is not in the catalogue, and items without one column."""
    told = list((rows.columns.items or {}).values())
    for name in sorted({name for name in told if name not in catalogue.names}):
        yield "input.columns.items", f"{name} is not one of items; correct one of the two"
    for name in catalogue.names if told else ():
        if told.count(name) != 1:
            many = "two columns" if name in told else "no column"
            yield "input.columns.items", f"item {name} has {many}; it needs one of its own"


def _problems_of_places(rows: RankingsConfig, catalogue: Catalogue) -> Problems:
    """Refuse words of a place that name an item, write-ins and items of sets that are no item."""
    for name in sorted({*items_of_sets(rows.columns)} - {*catalogue.names}):
        yield "input.columns.sets", f"{name} is not one of items; correct one of the two"
    texts, codes = catalogue.texts
    codes = codes[: len(texts)]
    for key in ("write_ins", "no_valid_vote"):
        if (name := getattr(rows, key)) is not None and name not in catalogue.names:
            yield f"input.{key}", f"{name} is not one of items; add it to them"
    for key in ("not_ranked", "overvoted"):
        for word in getattr(rows, key):  # words compare like cells: in lower case, and as numbers
            if (found := codes[cells_among(texts, [word])]).size:
                yield (
                    f"input.{key}",
                    f"the word {word} also names item {catalogue.names[found[0]]}; rename the item,"
                    " or remove the word",
                )
    for code in codes[are_unranked(texts)]:
        yield (
            "items",
            f"an item is named {catalogue.names[code]}, which means an empty cell; rename it",
        )


def _problems_of_winners(rows: InputConfig, catalogue: Catalogue) -> Problems:
    """Refuse words of the column `winner` that name an item, or the position of an item."""
    if rows.columns.loser is None and TIE_WORD in map(str.lower, catalogue.names):
        yield (
            "items",
            f"an item is named {TIE_WORD}, which means a tie in column winner; rename it",
        )
    if rows.told is None:
        return
    names = {name.strip().lower() for name in catalogue.names}
    texts = [word for word, _ in rows.told.words().meanings]
    found = catalogue.codes(pa.array(texts, pa.string()))
    for word, code in zip(texts, found.tolist(), strict=True):
        if code != UNKNOWN or word.strip().lower() in names:
            which = "an item" if word.strip().lower() in names else f"item {catalogue.names[code]}"
            yield (
                "input.words" if rows.words is not None else "input.columns.winner_values",
                f"the word {word} also names {which} in column {rows.columns.winner}. If that"
                " column holds no item, write columns.outcome instead of columns.winner; otherwise"
                " rename one of the two",
            )


MOST_WATCHED = 300  # items whose joint errors a release states (`MOST_LISTED`)


def problems_of_stream(config: Sections, methods: Methods) -> Problems:
    """Yield key and text of the rules that a stream and other sections break together."""
    own = methods[config.method]
    if config.schedule.stream is None:
        return
    if not own.streams:
        if isinstance(config.input, RankingsConfig):
            yield (
                STREAM,
                "is for comparisons, not for rankings: an election is counted once. Remove it, and"
                " run the job when all ballots are there",
            )
            return
        suitable = " or ".join(name for name, each in methods.items() if each.streams)
        yield STREAM, f"is for method: {suitable}, got {own.name}; change one of the two"
        return
    yield from _problems_of_nights(config)
    if config.schedule.alarms is not None:
        yield from _problems_of_alarms(config, config.schedule.alarms.pairs)
    yield from _problems_of_its_guarantee(config.privacy, config.schedule.stream)
    if config.schedule.stream.participation is not None:
        yield from _problems_of_its_rows(config, config.schedule.stream.participation, methods)


def _problems_of_nights(config: Sections) -> Problems:
    if not selects_nights(config.input.paths, config.schedule):
        yield (
            STREAM,
            "needs nights: write {date} into input.paths, or set schedule.partition or"
            " schedule.window",
        )
    if config.schedule.budget is NightlyBudget.PER_MONTH:
        yield (
            "schedule.budget",
            "must be per-night with schedule.stream, of which section privacy pays all nights;"
            " remove this line",
        )


def _problems_of_alarms(config: Sections, pairs: Sequence[tuple[str, str]]) -> Problems:
    names = config.items.catalogue.names
    if unknown := sorted({item for pair in pairs for item in pair} - set(names)):
        yield "schedule.alarms.pairs", f"{unknown[0][:40]} is none of the items; correct it"
    if len(names) > MOST_WATCHED:
        yield (
            "schedule.alarms",
            f"is for at most {MOST_WATCHED} items, whose errors a release states, got"
            f" {len(names):,}; remove it",
        )


def _problems_of_its_guarantee(privacy: PrivacyConfig, stream: StreamConfig) -> Problems:
    if privacy.unit is not Unit.USER:
        yield (
            STREAM,
            "protects a person on all nights together, so it needs privacy.unit: user, got"
            f" {privacy.unit}; set that, or remove stream",
        )
    if privacy.look is not None:
        yield (
            "privacy.look",
            "not with schedule.stream: a look takes epsilon every night, and the nights of a stream"
            " are paid for once; remove it",
        )
    if privacy.counts is not None:
        yield (
            "privacy.counts",
            "not with schedule.stream: counts take epsilon every night, and the nights of a stream"
            " are paid for once; remove it",
        )
    if privacy.public_graph:
        yield (
            "privacy.public_graph",
            "not with schedule.stream: on which nights a person's rows count would show in who"
            " compared what; remove one of the two",
        )
    if privacy.bounding is Bounding.WEIGHTS or privacy.max_weight is not None:
        yield (
            STREAM,
            "not with weights of rows (privacy.bounding, input.columns.weight), of which every"
            " night would have to release the sum of squares too; remove one of the two",
        )
    if not privacy.private:
        yield "privacy.epsilon", "must be finite with schedule.stream"
    if privacy.noise is NoiseKind.LAPLACE and stream.bands not in (None, 1):
        yield (
            f"{STREAM}.bands",
            f"must be 1 with noise: laplace, got {stream.bands}; remove it, or set noise: gaussian",
        )


def _problems_of_its_rows(
    config: Sections, participation: ParticipationConfig, methods: Methods
) -> Problems:
    """Refuse terms that count rows where they do not bound what a person moves."""
    key, metered = f"{STREAM}.participation", methods[config.method].metered
    by_pairs, by_squares, by_rows = (
        " or ".join(name for name, each in methods.items() if each.metered == terms)
        for terms in ("pair_gap", "squares", "gap")
    )
    if participation.pair_gap is not None and metered != "pair_gap":
        instead = "squares and gap" if metered == "squares" else "participations and gap"
        yield (
            key,
            f"with pair_gap is for method: {by_pairs}. Rows on two pairs may count for the same"
            f" item, so a gap of pairs does not bound what a person moves in {config.method};"
            f" set method: {by_pairs}, or write {instead}",
        )
    if participation.squares is not None and metered != "squares":
        yield (
            key,
            f"with squares is for method: {by_squares}; set that, or for method: {by_pairs} write"
            " rows and pair_gap",
        )
    if participation.meters:
        if not config.privacy.distinct_pairs:
            yield (
                "privacy.distinct_pairs",
                f"must be true with {key}, which counts the same two items once a night; remove"
                " this line",
            )
    elif metered != "gap" or config.privacy.max_contributions != 1:
        yield (
            key,
            f"with rows and gap is for method: {by_rows} with privacy.max_contributions: 1, where a"
            f" night has one row of a person; write participations and gap, for method: {by_pairs}"
            f" rows and pair_gap, or for method: {by_squares} squares and gap",
        )


def _problems_of_grouped_rankings(
    rankings: RankingsConfig, groups: GroupsConfig, config: Sections
) -> Problems:
    """Refuse rankings whose rows do not say once which group they are of, or that are private."""
    if config.privacy.unit is Unit.LOCAL:
        yield (
            "groups",
            "needs privacy.unit: user, where true rankings of each group are counted; private"
            " rankings are counted all together. Change the unit, or remove groups",
        )
    if rankings.layout in ("long", "pairs"):
        yield (
            "groups",
            "needs input.layout: list, wide, places or best-worst, where a row is a ranking;"
            " several rows of one could name different groups. Change input.layout:"
            f" {rankings.layout}, or remove it",
        )
    if rankings.in_preflib:
        yield "groups", "needs a column, and files of PrefLib have none; remove it"
    if rankings.person_features is not None:
        yield "input.person_features", "not with groups; remove one of them"
    taken = rankings.columns.model_dump(exclude_none=True)
    many = ("places", "items", "shown")
    names = [name for role in many for name in taken.pop(role, ())] + [*taken.values()]
    if rankings.layout == "wide" and rankings.columns.items is None:
        names += config.items.catalogue.names
    key = "groups.column" if groups.columns is None else "groups.columns"
    for column in sorted({*groups.read} & {*names}):
        yield key, f"{column} is a column of the ranking already; name another"


def _problems_of_ungrouped(config: Sections, methods: Methods) -> Problems:
    """Refuse groups beside a method that ranks all rows together only."""
    kind = config.input.kind
    able = " or ".join(
        name
        for name, each in methods.items()
        if each.uses("groups") and kind == each.kind and not each.also
    )
    needed = (
        "needs a method that releases counts, from which every group is ranked at one"
        f" epsilon: write method: {able}; or remove it"
    )
    if kind == "rankings":
        needed = (
            f"does not go with method: {config.method}, whose counts are of all rankings"
            f" together; write method: {able}, or run a job for each group, at a cost of its"
            " own, or remove it"
        )
    yield "groups", needed


def problems_of_groups(config: Sections, methods: Methods) -> Problems:
    """Refuse jobs whose rows cannot be ranked by group, or count where no group is."""
    rows, groups = config.input, config.groups
    invalid = rows.no_valid_vote if isinstance(rows, RankingsConfig) else None
    if invalid is not None and not methods[config.method].uses(DISTRICTS):
        users = " or ".join(name for name, each in methods.items() if each.uses(DISTRICTS))
        yield "input.no_valid_vote", f"is for method: {users}, whose cell it is; remove it"
    if groups is None:
        return
    if not methods[config.method].uses("groups"):
        yield from _problems_of_ungrouped(config, methods)
        return
    if groups.districts is not None and not methods[config.method].uses(DISTRICTS):
        users = " or ".join(name for name, each in methods.items() if each.uses(DISTRICTS))
        yield DISTRICTS, f"is for method: {users}; remove it"
    ranked = DISTRICTS not in methods[config.method].reads  # a table of precincts ranks none
    if ranked and len(groups.values) > MOST_GROUPS:
        yield (
            "groups.values",
            f"at most {MOST_GROUPS} groups can be ranked, got {len(groups.values)}",
        )
    if groups.most is not None:
        yield from _problems_of_overlap(config, groups, methods)
    if isinstance(config.input, RankingsConfig):
        yield from _problems_of_grouped_rankings(config.input, groups, config)
        return
    for column in groups.read:
        yield from _problems_of_grouped_answers(config, column)


def _problems_of_overlap(config: Sections, groups: GroupsConfig, methods: Methods) -> Problems:
    """Refuse groups that overlap where an answer, or a person, is in one group."""
    if isinstance(config.input, ResponsesConfig):
        yield (
            "groups.most",
            "is for comparisons and rankings: a test compares the difficulty of an item between"
            " groups of people, which must not share people. Remove it, and run a job for each way"
            " to group them, at a cost of its own",
        )
        return
    if DISTRICTS in methods[config.method].reads:
        yield (
            "groups.most",
            f"not with method: {config.method}, where a ballot is cast in one place; remove it",
        )
        return
    if not isinstance(config.input, InputConfig):
        return
    if config.input.columns.event is not None and config.privacy.unit is Unit.COMPARISON:
        yield (
            "groups.most",
            "with input.columns.event needs unit: user, for one row more could exchange all groups"
            " of an answer; set that, or remove one of the two",
        )
    for name, key in ((LEFT_ITEM, "left"), (RIGHT_ITEM, "right"), (CHOICE, "outcome")):
        if name in groups.read:
            yield "groups.columns", f"no column of groups may be called {name}; it is {key} already"


def _problems_of_grouped_answers(config: Sections, group: str) -> Problems:
    """Refuse comparisons and test answers whose columns or options do not go with groups."""
    flagged = config.groups is not None and config.groups.columns is not None
    key = "groups.columns" if flagged else "groups.column"
    if config.privacy.public_graph:
        yield (
            "groups",
            "not with privacy.public_graph: true, which would release how often each group compared"
            " what; remove one of them",
        )
    for role, column in config.input.columns.model_dump(exclude_none=True).items():
        if column == group:
            yield key, f"{column} is input.columns.{role} already; name another"
    asked = config.input.columns.asked() if isinstance(config.input, InputConfig) else ()
    if group in {*(column for column, _, _ in asked), LEFT_ITEM, RIGHT_ITEM, CHOICE}:
        yield key, f"{group} is a column of a pair already; name another"
    if isinstance(config.input, ResponsesConfig):
        if config.input.layout == "wide" and group in config.items.catalogue.names:
            yield "groups.column", f"{group} is the column of an item; name another"
        return
    weighted = isinstance(config.input, InputConfig) and config.input.columns.weight is not None
    if weighted or config.privacy.bounding is Bounding.WEIGHTS:
        yield (
            "groups",
            "not with input.columns.weight, nor with privacy.bounding: weights; remove one of them",
        )
