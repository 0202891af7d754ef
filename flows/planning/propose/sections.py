"""Lines of a proposed file that depend on the kind of input. Pure.

No value of a row is written, only names of columns and words that this room knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hushrank.flows.planning.propose.columns import ColumnGuess
from hushrank.flows.planning.propose.item_sets import (
    columns_of_ranking,
    items_questions,
    shown_lines,
)
from hushrank.flows.planning.propose.names import TIES, flow, line, scalar
from hushrank.flows.planning.propose.pairs import PairsGuess
from hushrank.flows.planning.propose.people import (
    Confidence,
    UserGuess,
    group_lines,
    may_name_people,
)
from hushrank.flows.planning.propose.questions import (
    Question,
    best_question,
    bound_question,
    codes_of_result_question,
    codes_questions,
    column_question,
    design_question,
    doubtful_items_question,
    empty_winner_question,
    epsilon_question,
    items_question,
    not_ranked_question,
    place_questions,
    unknown_result_question,
    unlisted_question,
)
from hushrank.flows.planning.propose.rankings import NOBODY, SEVERAL, RankingGuess
from hushrank.flows.planning.propose.responses import (
    ResponseGuess,
    asked_question,
    blank_codes_question,
    booklets_question,
    key_question,
    missing_question,
    most_points_question,
    points_question,
)
from hushrank.transforms.common.schema import GroupSets

# The proposed method for each kind of input.
DEFAULT_METHODS = {"comparisons": "auto", "responses": "auto", "rankings": "borda"}

LOOK = 0.02  # share of epsilon for the pilot query (`privacy.look`)

_COMPARISON_ROLES = {
    "user": "whose answer it is",
    "left": "one of the two items compared",
    "right": "the other item",
    "outcome": "1: left won, -1: right won, 0: a tie",
    "winner": "the item that won",
    "loser": "the item that lost",
    "event": "id of the answer: a second copy is not counted",
}
_RESPONSE_ROLES = {
    "user": "whose answer it is",
    "item": "the test item",
    "correct": "1: right, 0: wrong",
}
_RANKING_ROLES = {
    "user": "whose ranking it is",
    "item": "what was ranked",
    "rank": "the rank, a number (see best)",
    "ranking": "a list of items, best first",
    "best": "the item chosen as the best",
    "worst": "the item chosen as the worst",
    "contest": "id of the ranking among a person's rankings",
}
_ADJACENCY = line(
    "  adjacency", "replace-one", "hides what a person answered; add-remove: also whether"
)
_DISTINCT = line(
    "  distinct_pairs",
    "true",
    "needs less noise: of a person's answers on a pair one counts; false where all should",
)
_FOR_PAIRS = (
    "10 is within 15 % of the best error for nearly all surveys with this noise; write fewer if"
    " people were asked fewer, and with noise: laplace the fewest that anybody was asked"
)
_TOTAL_DELTA = "1.0e-5"  # total delta of the ledger
_NO_PERSON = (
    ". Does no column say so? Remove this line, max_contributions and distinct_pairs, and write"
    " unit: comparison, which protects single answers and not people"
)
_ADVICE = {
    "user": _NO_PERSON,
    "outcome": ". Or write winner: and the column of the winning item. Where scores or several"
    " columns say who won, first make one column of them",
}
_NO_SHEET_OWNER = ". Does no column say so? Add one to the file, with another number in every row"


@dataclass(frozen=True, slots=True, kw_only=True)
class KindLines:
    """Parts of a proposed file that depend on the kind of input.

    Attributes:
        kind: the kind of input.
        input: more lines of the section `input`.
        items: lines that say what can be ranked.
        privacy: lines of the section `privacy`.
        further: sections that only this kind has.
        budget: total epsilon of the ledger.
        delta: delta of the ledger, for noise that needs it; empty: none does.
        questions: questions that the lines marked CHOOSE ask, in their order.
    """

    kind: str
    input: tuple[str, ...]
    items: tuple[str, ...]
    privacy: tuple[str, ...]
    budget: str
    questions: tuple[Question, ...]
    further: tuple[str, ...] = ()
    delta: str = ""

    @property
    def method(self) -> str:
        """Method to propose."""
        return DEFAULT_METHODS[self.kind]

    @property
    def method_remark(self) -> str:
        """Remark on the method; empty: there is none."""
        if self.kind != "comparisons":
            return ""
        return "`hushrank plan` compares methods and says when a simpler one is better"


_OF_PEOPLE = (
    "# If people wrote the names themselves and nobody has a list: items: discover, with method:",
    "# noisy-pairs and without privacy.look; the names that enough people wrote are ranked.",
)
_OF_LISTS = (
    "# If people wrote the names themselves and nobody has a list: items: discover, with",
    "# input.max_length, unlisted: unknown, and without privacy.look; the names that enough people",
    "# wrote are ranked.",
)


def comparisons_lines(
    columns: list[str],
    guess: ColumnGuess,
    group: str | None = None,
    overlapping: GroupSets | None = None,
) -> KindLines:
    """Build the lines for a log of comparisons; the person fills in unknown roles.

    Args:
        columns: columns of the file.
        guess: guess of the columns' roles.
        group: a column that may say which group a row is in.
        overlapping: columns that may say in which groups a row is, if it is in several.
    """
    of_user = may_name_people(columns, guess.user)
    if guess.asked is not None:
        return _pairs_lines(columns, guess, guess.asked, of_user)
    roles = _column_questions(_COMPARISON_ROLES, guess.unknown(), columns, _ADVICE, of_user)
    words = _words_question(guess)
    design, items = design_question(), _items_questions("compared", guess.numbered)
    epsilon, bound = epsilon_question(), bound_question(_FOR_PAIRS)
    return KindLines(
        kind="comparisons",
        input=(
            "  columns:",
            *_role_lines(
                _COMPARISON_ROLES,
                guess.known(),
                roles,
                worded="outcome" if guess.words is not None or words is not None else None,
            ),
            *_remark_on_sets(guess.otherwise),
            *(_result_words(guess) if words is None else (words.line,)),
            design.line,
            line("  ties", "drop", "or split (half a win each), or random (a fair coin)"),
        ),
        items=(*_item_lines(items), *([] if guess.numbered else _OF_PEOPLE)),
        privacy=(
            _unit_line(guess.user),
            _ADJACENCY,
            epsilon.line,
            *_noise_lines("best where about 8 or more answers of a person count; else laplace"),
            bound.line,
            _DISTINCT,
            _look_line(),
        ),
        further=tuple(group_lines(group, overlapping)),
        budget="10",
        delta=_TOTAL_DELTA,
        questions=(*roles, *_any(words), design, *items, epsilon, bound),
    )


def _pairs_lines(
    columns: list[str], guess: ColumnGuess, asked: PairsGuess, of_user: str
) -> KindLines:
    """Build the lines for a form with a column for each pair of items, which its header names."""
    taken = {column for column, _, _ in asked.pairs}
    free = [column for column in columns if column not in taken]
    roles = _column_questions(_COMPARISON_ROLES, guess.unknown(), free, _ADVICE, of_user)
    column, *sides = asked.pairs[0]
    words = codes_of_result_question(column, sides, asked.readings) if asked.readings else None
    design, epsilon = design_question(), epsilon_question()
    named = (f"      {scalar(column)}: {flow(items)}" for column, *items in asked.pairs)
    ties = "words for no preference, such as these; a cell with another word does not count"
    pairs = f"a person answers {len(asked.pairs)} pairs at most; fewer need less noise"
    return KindLines(
        kind="comparisons",
        input=(
            line("  layout", "pairs-wide", "a row a person, a column a pair of items"),
            "  columns:",
            *_role_lines(_COMPARISON_ROLES, guess.known(), roles),
            line("    pairs", "", "the two items of each column; a cell names one of them"),
            *named,
            *((words.line,) if words else (line("  words", f"{{tie: {flow(TIES)}}}", ties),)),
            design.line,
            line("  ties", "drop", "or split (half a win each), or random (a fair coin)"),
        ),
        items=("items:", line("  names", flow(asked.items), "as the columns name them")),
        privacy=(
            _unit_line(guess.user),
            _ADJACENCY,
            epsilon.line,
            *_noise_lines("best where about 8 or more answers of a person count; else laplace"),
            line("  max_contributions", str(len(asked.pairs)), pairs),
            _DISTINCT,
            _look_line(),
        ),
        budget="10",
        delta=_TOTAL_DELTA,
        questions=(*roles, *_any(words), design, epsilon),
    )


def responses_lines(columns: list[str], guess: ResponseGuess) -> KindLines:
    """Build the lines for a log of test answers; a sheet's items are its columns."""
    wide = guess.layout == "wide"
    maybe = {*guess.items, *guess.doubtful, *guess.points}
    sheet = [column for column in columns if column in maybe]
    bound = asked_question(len(sheet)) if wide else bound_question()
    free = [column for column in columns if column not in maybe]
    roles = _column_questions(
        _RESPONSE_ROLES,
        guess.unknown(),
        free,
        {"user": _NO_SHEET_OWNER if wide else ""},
        may_name_people(free, guess.user),
    )
    items = _questions_of_items(guess, sheet)
    scoring = _question_of_scoring(guess, sheet)
    words, missing, booklets = _questions_of_blanks(guess, sheet)
    epsilon = epsilon_question()
    return KindLines(
        kind="responses",
        input=(
            line("  layout", guess.layout, "long: a row an answer; wide: a row a person"),
            "  columns:",
            *_role_lines(
                _RESPONSE_ROLES,
                guess.known(),
                roles,
                worded="correct" if guess.words is not None or words is not None else None,
            ),
            *(_answer_words(guess) if words is None else (words.line,)),
            *(each.line for each in (*_any(scoring), *_any(missing), *_any(booklets))),
        ),
        items=_item_lines(items) if items else tuple(_sheet_items(guess)),
        privacy=tuple(_privacy_lines(epsilon, bound, guess.user)),
        budget="10",
        delta=_TOTAL_DELTA,
        questions=(
            *(*roles, *_any(words), *_any(scoring), *_any(missing), *_any(booklets)),
            *(*items, epsilon, bound),
        ),
    )


def _questions_of_items(guess: ResponseGuess, sheet: Sequence[str]) -> tuple[Question, ...]:
    """Ask for the items of a log, or which more columns of a sheet are items."""
    if guess.layout == "wide" and (guess.empty or guess.doubtful or guess.points):
        return (doubtful_items_question(sheet, guess.empty, guess.doubtful, guess.points),)
    return () if guess.layout == "wide" else _items_questions("asked", guess.coded)


def _question_of_scoring(guess: ResponseGuess, sheet: Sequence[str]) -> Question | None:
    """Ask for the right answers or for the points of items; None: answers are right or wrong."""
    if guess.letters:
        return key_question(sheet)
    if guess.points:
        return most_points_question(guess.points, among=guess.layout == "wide")
    return None


def _questions_of_blanks(
    guess: ResponseGuess, sheet: Sequence[str]
) -> tuple[Question | None, Question | None, Question | None]:
    """Ask what a code or a number means, what a blank means, and for booklets; None: no need."""
    wide, words = guess.layout == "wide", None
    if guess.blanks:
        marks = guess.words or ("1", "0")
        words = blank_codes_question(guess.blanks, None if guess.letters else marks)
    elif guess.numbers and not guess.points and not guess.letters:
        words = points_question(guess.correct or "")
    asked = wide or guess.gaps or guess.points
    missing = missing_question(gaps=guess.gaps) if asked else None
    return words, missing, booklets_question(sheet) if wide and guess.gaps else None


def _privacy_lines(epsilon: Question, bound: Question, user: UserGuess | None) -> Iterator[str]:
    """Yield the guarantee of a test, in which one person moves many counts a little."""
    yield _unit_line(user)
    yield _ADJACENCY
    yield epsilon.line
    yield from _noise_lines("a person moves many counts a little; or laplace, without delta")
    yield bound.line
    yield _look_line()


def _number_questions(guess: RankingGuess, *, in_file: bool) -> tuple[Question, ...]:
    in_ranks = not in_file and guess.layout in ("long", "wide")
    ranks = (best_question(), not_ranked_question(guess.markers)) if in_ranks else ()
    return place_questions() if guess.places else ranks


def rankings_lines(
    columns: list[str],
    guess: RankingGuess,
    ties: str = "refuse",
    items_file: str | None = None,
    *,
    complete: bool = False,
) -> KindLines:
    """Build the lines for a log of rankings.

    Args:
        columns: columns of the file.
        guess: guess of the columns' roles.
        ties: rule for ties in layout `long`.
        items_file: the file whose header names the items; None: the person must name them.
        complete: whether each ranking lists all items, by the kind of the file.
    """
    in_file = items_file is not None
    ranked = columns_of_ranking(guess)
    free = [each for each in columns if each not in ranked]
    roles = _column_questions(
        _RANKING_ROLES, guess.unknown(), free, {}, may_name_people(free, guess.user)
    )
    numbers = _number_questions(guess, in_file=in_file)
    items: tuple[Question, ...] = ()
    if guess.empty:
        items = (doubtful_items_question(ranked, guess.empty),)
    elif not in_file and not guess.items:
        items = _items_questions("ranked", guess.coded)
    written = items and not guess.coded and guess.layout in ("long", "list", "places")
    chosen = guess.layout == "best-worst"
    unlisted = None if complete or chosen else unlisted_question()
    epsilon = epsilon_question()
    known = (*guess.known(), *guess.unknown())
    renamed = list(_columns_of_items(guess))
    return KindLines(
        kind="rankings",
        input=(
            line("  layout", guess.layout, _LAYOUTS[guess.layout]),
            *(("  columns:",) if known or renamed or guess.places else ()),
            *_role_lines(_RANKING_ROLES, guess.known(), roles),
            *renamed,
            *_place_lines(guess),
            *(each.line for each in numbers),
            *_tie_lines(guess, ties),
            *(each.line for each in _any(unlisted)),
        ),
        items=(
            *(_item_lines(items) if items else _ranked_items(guess, items_file)),
            *(_OF_LISTS if written else ()),
        ),
        privacy=tuple(_trusted_lines(epsilon, guess, owned="user" in known)),
        budget="10",
        delta=_TOTAL_DELTA,
        questions=(*(*roles, *items_questions(guess), *numbers, *_any(unlisted), *items, epsilon),),
    )


def _any(question: Question | None) -> tuple[Question, ...]:
    return () if question is None else (question,)


def _items_questions(done: str, coded: str | None) -> tuple[Question, ...]:
    """Ask for the items; `coded` is a column that holds whole numbers in place of names."""
    return (items_question(done),) if coded is None else codes_questions(done, coded)


def _item_lines(questions: Sequence[Question]) -> tuple[str, ...]:
    lines = [each.line for each in questions]
    return tuple(lines) if questions[0].key == "items" else ("items:", *lines)


def _words_question(guess: ColumnGuess) -> Question | None:
    """Ask what the result's codes or empty cells mean; None: both are clear."""
    if guess.readings is not None and guess.outcome is not None and guess.sides is not None:
        return codes_of_result_question(guess.outcome, guess.sides, guess.readings)
    if guess.empty_winner and guess.winner is not None:
        return empty_winner_question(guess.winner, TIES, guess.empty_winner)
    if guess.sides is not None and "outcome" in guess.unknown():
        return unknown_result_question(guess.sides)
    return None


_LAYOUTS = {
    "long": "a row a ranked item; list: a row a ranking",
    "list": "a row a ranking; long: a row a ranked item",
    "wide": "a row a ranking, a column an item; an empty cell is unranked",
    "places": "a row a ranking, a column a place, whose cells name the item there",
    "best-worst": "a row a choice of the best and the worst of the items shown",
}


def _tie_lines(guess: RankingGuess, ties: str) -> Iterator[str]:
    """Yield the rule for items at one rank, where a row may have them."""
    if guess.layout in ("long", "wide"):
        meaning = "refuse: set aside; random: a secret coin puts tied items in order"
        yield line("  ties", ties, meaning)
    if guess.layout == "best-worst":
        yield line("  ties", "random", "a secret coin orders those between best and worst")


def _place_lines(guess: RankingGuess) -> Iterator[str]:
    """Yield the columns of places or of items shown, and the words that name no item."""
    yield from shown_lines(guess)
    if guess.places:
        yield line("    places", flow(guess.places), "the first place first")
        yield line("  not_ranked", flow(NOBODY), "cells that name nobody, beside empty ones")
        yield line("  overvoted", flow(SEVERAL), "cells that say that several were marked there")
        yield "  # A ballot with a name that is not one of the items is excluded; or let such names"
        yield "  # count as one item, which must be one of items, for example write_ins: Write-in"


def _columns_of_items(guess: RankingGuess) -> Iterator[str]:
    """Yield the item of each column of ranks, if its name does not state it."""
    if any(column != item for column, item in guess.items):
        yield line("    items", "", "the item whose ranks a column holds").rstrip()
        yield from (f"      {scalar(column)}: {scalar(item)}" for column, item in guess.items)


def _ranked_items(guess: RankingGuess, items_file: str | None) -> Iterator[str]:
    if items_file is not None:
        yield line("items", f"{{file: {scalar(items_file)}}}", "as its header names them")
    elif guess.items:
        yield "items:"
        yield line("  names", "", "columns of the table; remove what was not ranked").rstrip()
        yield from (f"    - {scalar(item)}" for _, item in guess.items)


def _trusted_lines(epsilon: Question, guess: RankingGuess, *, owned: bool) -> Iterator[str]:
    """Yield the guarantee of rankings that are counted before noise is added."""
    yield line(
        "  unit", "user", "you hold the raw rankings; if nobody may, use local with mechanism: auto"
    )
    yield _ADJACENCY
    yield epsilon.line
    yield from _noise_lines("for many counts that move a little; or laplace, without delta")
    bound = "the most rankings per person that count"
    if guess.layout == "best-worst":
        bound = "the most sets per person that count: as many as everybody was asked"
    if not owned:
        bound = "nothing says whose a ranking is: each is another person's"
    yield line("  max_contributions", f"{max(len(guess.sets), 1)}", bound)
    yield _look_line()


def _noise_lines(reason: str) -> Iterator[str]:
    """Yield Gaussian noise and its delta; `reason` says where it is the better noise."""
    yield line("  noise", "gaussian", reason)
    yield line(
        "  delta", "1.0e-6", "probability that the guarantee fails: far below 1 / number of people"
    )


def _look_line() -> str:
    return line(
        "  look",
        f"{LOOK}",
        f"of epsilon pays for a noisy look first: do rows fit? {{share: {LOOK}, people: 900}}:"
        " and are 900 there?",
    )


def _column_questions(
    roles: Mapping[str, str],
    unknown: Sequence[str],
    columns: Sequence[str],
    advice: Mapping[str, str],
    of_user: str,
) -> tuple[Question, ...]:
    """Ask for the column of each missing role, in the order of `roles`.

    Args:
        roles: meaning of each role.
        unknown: missing roles.
        columns: the columns that the person chooses from.
        advice: more text for missing roles, after their meaning.
        of_user: evidence for a column of people.
    """
    return tuple(
        column_question(
            role, meaning, columns, advice.get(role, ""), of_user if role == "user" else ""
        )
        for role, meaning in roles.items()
        if role in unknown
    )


def _role_lines(
    roles: Mapping[str, str],
    known: Mapping[str, str],
    asked: Sequence[Question],
    *,
    worded: str | None = None,
) -> Iterator[str]:
    """Yield one line for each role that is known or asked for, in the order of `roles`.

    Args:
        roles: meaning of each role.
        known: the column of each role that was found.
        asked: text that asks about the other roles.
        worded: the role whose words are explained below it.
    """
    meanings = {} if worded is None else {worded: "the result, in the words below"}
    questions = {each.key.rpartition(".")[2]: each for each in asked}
    for role, meaning in roles.items():
        if role in known:
            yield line(f"    {role}", scalar(known[role]), meanings.get(role, meaning))
        elif role in questions:
            yield questions[role].line


def _remark_on_sets(otherwise: str | None) -> Iterator[str]:
    if otherwise is not None:
        yield f"    # Check the result: {otherwise}."


def _result_words(guess: ColumnGuess) -> Iterator[str]:
    words = guess.words
    if words is None:
        return
    what = (
        "words for a tie"
        if guess.winner
        else "words of the result; rows with other words are excluded"
    )
    yield line("  words", "", what)
    for role, meaning in (("left", "left won"), ("right", "right won")):
        if found := getattr(words, role):
            yield line(f"    {role}", flow(found), meaning)
    if words.tie:
        yield line("    tie", flow(words.tie))
        yield (
            "    # Delete any word that is not a tie (for example both_bad); its rows are then"
            " ignored."
        )


def _answer_words(guess: ResponseGuess) -> Iterator[str]:
    if guess.words is None:
        return
    yield line(
        "  words", "", "rows with other words are excluded; an empty cell means not answered"
    )
    yield line("    right", flow(guess.words[:1]))
    yield line("    wrong", flow(guess.words[1:]))


def _sheet_items(guess: ResponseGuess) -> Iterator[str]:
    yield "items:"
    yield line("  names", "", "columns of the sheet; remove those that are not test items").rstrip()
    for name in guess.items:
        yield f"    - {scalar(name)}"
    if guess.left_out:
        left_out = ", ".join(map(scalar, guess.left_out))
        yield f"    # Left out, though they have the same two values: {left_out}"


def _unit_line(user: UserGuess | None) -> str:
    doubtful = user is not None and user.confidence is not Confidence.NAMED
    whose = f"one {scalar(user.column)}" if user is not None and doubtful else "one person"
    return line("  unit", "user", f"protects all answers of {whose}")
