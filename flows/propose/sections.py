"""Lines of a proposed file that depend on the kind of input. Pure.

No value of a row is written, only names of columns and words that this room knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hushrank.flows.propose.columns import ColumnGuess
from hushrank.flows.propose.groups import group_lines
from hushrank.flows.propose.people import Sureness, UserGuess
from hushrank.flows.propose.rankings import RankingGuess
from hushrank.flows.propose.responses import ResponseGuess
from hushrank.flows.propose.texts import choose, line, scalar

# The proposed method for each kind of input.
DEFAULT_METHODS = {"comparisons": "auto", "responses": "spectral", "rankings": "borda"}

LOOK = 0.02  # of epsilon, for a look at the rows (`privacy.look`)

DESIGN = (
    "was every pair of items asked about equally often? balanced if so; random if people got pairs"
    " at random but some items more often than others; any if you do not know"
)

_COMPARISON_ROLES = {
    "user": "whose answer it is",
    "left": "one of the two items compared",
    "right": "the other one",
    "outcome": "1: left won, -1: right won, 0: a tie",
    "winner": "the item that won",
    "loser": "the item that lost",
    "event": "identity of the answer: a second copy is not counted",
}
_RESPONSE_ROLES = {
    "user": "whose answer it is",
    "item": "the test item",
    "correct": "1: right, 0: wrong",
}
_RANKING_ROLES = {
    "user": "whose ranking it is",
    "item": "what was ranked",
    "rank": "a number; the smallest is the best",
    "ranking": "a list of items, best first",
    "contest": "which of a person's rankings it is",
}
_NO_PERSON = (
    ". Does no column say so? Remove this line and max_contributions, and write unit: comparison,"
    " which protects single answers and not people"
)
_NO_SHEET_OWNER = ". Does no column say so? Add one to the file, with another number in every row"
_MOST_ANSWERS = (
    "how many answers of one person count at most, from how the survey was made and never counted"
    " in the answers: 15 if everybody was asked 15 questions; fewer need less noise"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KindLines:
    """The parts of a proposed file that depend on the kind of input.

    Attributes:
        kind: the kind of input.
        input: more lines of the section `input`.
        items: lines that say what can be ranked.
        privacy: lines of the section `privacy`.
        further: sections that only this kind has.
        budget: total epsilon of the ledger.
        delta: of the ledger, for noise that needs it; empty: none does.
        choices: what the lines marked CHOOSE ask for.
    """

    kind: str
    input: tuple[str, ...]
    items: tuple[str, ...]
    privacy: tuple[str, ...]
    budget: str
    choices: tuple[str, ...]
    further: tuple[str, ...] = ()
    delta: str = ""

    @property
    def method(self) -> str:
        """The method to propose."""
        return DEFAULT_METHODS[self.kind]

    @property
    def method_remark(self) -> str:
        """What the person may want to know of it; empty: nothing."""
        if self.kind != "comparisons":
            return ""
        return "hushrank plan compares it with others and says where it loses to a naive way"


def comparisons_lines(
    columns: list[str], guess: ColumnGuess, group: str | None = None
) -> KindLines:
    """Lines for a log of comparisons; the person fills in unknown roles.

    Args:
        columns: columns of the file.
        guess: their roles.
        group: a column that may say which group a row is in.
    """
    return KindLines(
        kind="comparisons",
        input=(
            "  columns:",
            *_role_lines(
                _COMPARISON_ROLES,
                guess.known(),
                guess.unknown(),
                columns,
                guess.user,
                {
                    "user": _NO_PERSON,
                    "outcome": ". Or write winner: and the column of the winning item. Where scores"
                    " or several columns say who won, first make one column of them",
                },
                worded="outcome" if guess.words is not None else None,
            ),
            *_other_reading(guess.otherwise),
            *_result_words(guess),
            choose("  design", DESIGN),
            line("  ties", "drop", "or split (half a win each), or random (a fair coin)"),
        ),
        items=(_choose_items("compared"),),
        privacy=(
            _unit_line(guess.user),
            *_adjacency_and_epsilon(),
            choose("  max_contributions", _MOST_ANSWERS),
            _look_line(),
        ),
        further=tuple(group_lines(group)),
        budget="10",
        choices=(
            *_columns_asked(guess.unknown()),
            "the design",
            "the items",
            "epsilon",
            "answers a person",
        ),
    )


def responses_lines(columns: list[str], guess: ResponseGuess) -> KindLines:
    """Lines for a log of test answers; a sheet's items are its columns, which no answer changes."""
    wide = guess.layout == "wide"
    bound = (
        line(
            "  max_contributions", str(len(guess.items)), "a sheet has that many answers: all count"
        )
        if wide
        else choose("  max_contributions", _MOST_ANSWERS)
    )
    return KindLines(
        kind="responses",
        input=(
            line("  layout", guess.layout, "long: a row an answer; wide: a row a person"),
            "  columns:",
            *_role_lines(
                _RESPONSE_ROLES,
                guess.known(),
                guess.unknown(),
                [column for column in columns if column not in guess.items],
                guess.user,
                {"user": _NO_SHEET_OWNER if wide else ""},
                worded="correct" if guess.words is not None else None,
            ),
            *_answer_words(guess),
        ),
        items=tuple(_sheet_items(guess)) if wide else (_choose_items("asked"),),
        privacy=(
            _unit_line(guess.user),
            *_adjacency_and_epsilon(),
            bound,
            _look_line(),
        ),
        budget="10",
        choices=(
            *_columns_asked(guess.unknown()),
            *(() if wide else ("the items",)),
            "epsilon",
            *(() if wide else ("answers a person",)),
        ),
    )


def rankings_lines(
    columns: list[str],
    guess: RankingGuess,
    ties: str = "refuse",
    items_file: str | None = None,
    *,
    complete: bool = False,
) -> KindLines:
    """Lines for a log of rankings.

    Args:
        columns: columns of the file.
        guess: their roles.
        ties: what becomes of ties in layout `long`.
        items_file: the file whose header names the items; None: the person must name them.
        complete: whether each ranking lists all items, by the kind of the file.
    """
    meaning = "refuse: set aside; random: a secret coin puts tied items in order"
    named = items_file is not None
    owned = "user" in (*guess.known(), *guess.unknown())
    return KindLines(
        kind="rankings",
        input=(
            line("  layout", guess.layout, _LAYOUTS[guess.layout]),
            *(("  columns:",) if guess.known() or guess.unknown() or guess.items else ()),
            *_role_lines(_RANKING_ROLES, guess.known(), guess.unknown(), columns, guess.user, {}),
            *_columns_of_items(guess),
            *((line("  ties", ties, meaning),) if guess.layout != "list" else ()),
            *(() if complete else (choose("  unlisted", _UNLISTED),)),
        ),
        items=tuple(_ranked_items(guess, items_file)),
        privacy=tuple(_trusted_lines(owned=owned)),
        budget="10",
        delta="1.0e-5",
        choices=(
            *_columns_asked(guess.unknown()),
            *(() if complete else ("unlisted",)),
            *(() if named or guess.items else ("the items",)),
            "epsilon",
        ),
    )


_UNLISTED = (
    "below (an item that a ranking does not list is worse than those it lists, as on most ballots)"
    " or unknown (a ranking says nothing of it)"
)
_LAYOUTS = {
    "long": "a row a ranked item; list: a row a ranking",
    "list": "a row a ranking; long: a row a ranked item",
    "wide": "a row a ranking, a column an item; an empty cell is unranked",
}


def _columns_of_items(guess: RankingGuess) -> Iterator[str]:
    """The item of each column of ranks, where its name does not say so."""
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
    else:
        yield _choose_items("ranked")


def _trusted_lines(*, owned: bool) -> Iterator[str]:
    """The guarantee of rankings that are counted before noise is added."""
    yield line(
        "  unit", "user", "you may see true rankings; where nobody may: local, with mechanism: auto"
    )
    yield from _adjacency_and_epsilon()
    yield line("  noise", "gaussian", "for many counts that move a little; or laplace")
    yield line("  delta", "1.0e-6", "chance that the promise fails: far below one in the people")
    bound = "the most rankings of one person that count"
    if not owned:
        bound = "nothing says whose a ranking is: each is another person's"
    yield line("  max_contributions", "1", bound)
    yield _look_line()


def _look_line() -> str:
    return line(
        "  look",
        f"{LOOK}",
        f"of epsilon pays for a noisy look first: do rows fit? {{share: {LOOK}, people: 900}}:"
        " and are 900 there?",
    )


def _role_lines(
    roles: dict[str, str],
    known: dict[str, str],
    unknown: list[str],
    columns: list[str],
    user: UserGuess | None,
    advice: dict[str, str],
    *,
    worded: str | None = None,
) -> Iterator[str]:
    """One line for each role that is known or missing, in the order of `roles`.

    Args:
        roles: what each role means.
        known, unknown: the column of each role that was found; missing roles.
        columns: the columns that the person chooses from.
        user: how sure the person's column is.
        advice: more text for missing roles, after their meaning.
        worded: the role whose words are explained below it.
    """
    meanings = {} if worded is None else {worded: "the result, in the words below"}
    for role, meaning in roles.items():
        if role in known:
            doubt = user.doubt if role == "user" and user is not None else None
            yield line(f"    {role}", scalar(known[role]), meanings.get(role, meaning))
            if doubt is not None:
                yield f"    # Check user: {_in_comment(doubt)}."
        elif role in unknown:
            one_of = f"; one of {', '.join(map(scalar, columns))}" if columns else ""
            yield choose(f"    {role}", f"{meaning}{one_of}{advice.get(role, '')}")


def _in_comment(text: str) -> str:
    """The text on one line: a comment ends with its line, but a column's name may hold a break."""
    return " ".join(text.split())


def _other_reading(otherwise: str | None) -> Iterator[str]:
    if otherwise is not None:
        yield f"    # Check the result: {_in_comment(otherwise)}."


def _result_words(guess: ColumnGuess) -> Iterator[str]:
    words = guess.words
    if words is None:
        return
    what = (
        "words for a tie" if guess.winner else "of the result; rows with other words are set aside"
    )
    yield line("  words", "", what)
    for role, meaning in (("left", "left won"), ("right", "right won")):
        if found := getattr(words, role):
            yield line(f"    {role}", _flow(found), meaning)
    if words.tie:
        yield line("    tie", _flow(words.tie))
        yield "    # Remove words that mean no tie, such as both_bad; their rows are set aside."


def _answer_words(guess: ResponseGuess) -> Iterator[str]:
    if guess.words is None:
        return
    yield line("  words", "", "rows with other words are set aside; an empty cell was not answered")
    yield line("    right", _flow(guess.words[:1]))
    yield line("    wrong", _flow(guess.words[1:]))


def _sheet_items(guess: ResponseGuess) -> Iterator[str]:
    yield "items:"
    yield line("  names", "", "columns of the sheet; remove what is no test item").rstrip()
    for name in guess.items:
        yield f"    - {scalar(name)}"
    if guess.left_out:
        left_out = ", ".join(map(scalar, guess.left_out))
        yield f"    # Left out, though they have the same two values: {left_out}"


def _flow(words: Iterable[str]) -> str:
    return f"[{', '.join(map(scalar, words))}]"


def _choose_items(done: str) -> str:
    return choose(
        "items",
        f"all that can be {done}, for example {{names: [London, Paris]}}, {{file: items.txt}}, or"
        " {count: 6} for the numbers 0 to 5",
    )


def _unit_line(user: UserGuess | None) -> str:
    doubtful = user is not None and user.sureness is not Sureness.NAMED
    whose = f"one {scalar(user.column)}" if user is not None and doubtful else "one person"
    return line("  unit", "user", f"protects all answers of {whose}")


def _adjacency_and_epsilon() -> Iterator[str]:
    yield line(
        "  adjacency", "replace-one", "hides what a person answered; add-remove: also whether"
    )
    yield choose("  epsilon", "smaller protects more; 1 is strong, 2 to 4 is usual")


def _columns_asked(unknown: list[str]) -> Iterator[str]:
    yield from (f"the column {role}" for role in unknown)
