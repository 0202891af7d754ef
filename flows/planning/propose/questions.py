"""Questions that the header and the first rows of a file leave open, with their answers. Pure.

A wrong guess would turn a result round, drop items or people, or cost ten times the noise. So
nothing is guessed there: `hushrank init` writes each question as a line marked CHOOSE, `init --ask`
asks it in the terminal, and in Python the argument has no default. No value of a row is shown, only
names of columns and codes that this room knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import yaml

from hushrank.flows.config.items_file import ENDINGS
from hushrank.flows.planning.propose.names import choose, flow, line, scalar

Reading = Mapping[str, tuple[str, ...]]  # codes of each outcome: left, right and maybe tie

NUMBERS: tuple[Reading, ...] = (  # possible meanings of 1, 0 and -1
    {"left": ("1",), "right": ("0",)},
    {"left": ("0",), "right": ("1",)},
    {"left": ("1",), "right": ("-1",), "tie": ("0",)},
)

_NOT_RANKED = ("0", "99", "999", "-", "--", ".", "N/A", "NaN", "none", "x")
_ITEMS = ("items", "items.names")  # keys whose answer is a list of items
MOST_POINTS = 9  # most points of one item; larger numbers are no points
_OPEN = (
    *_ITEMS,
    "input.booklets",
    "input.points",
)  # keys whose answer may differ from the listed choices
_WITH_POINTS = "if all are, with their points in input.points"
_MOST_ANSWERS = (
    "how many answers of one person count at most, from how the survey was made and never counted"
    " in the answers"
)
_ENDS = "The ballot counts up to that place and says nothing of what comes after it."
_TURNED = "The wrong choice turns the ranking round."
_EXCLUDED = "The whole ballot does not count."
_FEWER = "15 if everybody was asked 15 questions; fewer need less noise"


@dataclass(frozen=True, slots=True)
class Choice:
    """One possible answer to a question.

    Attributes:
        answer: text that a person types.
        effect: advice on when to choose it, after its value.
        value: value in the YAML file; empty: the answer itself.
        result: what the choice does to the result, as a sentence; empty: `effect` says it.
    """

    answer: str
    effect: str
    value: str = ""
    result: str = ""

    @property
    def written(self) -> str:
        """Value in the YAML file."""
        return self.value or self.answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Question that neither the header nor the first rows answer.

    Attributes:
        key: dotted key of the YAML file.
        short: the question in a few words, for a list of all.
        asks: the question, one sentence.
        choices: all answers; empty: the person writes a value.
        because: reason for the question in the header or the first rows; empty: every file has it.
        columns: the columns that an answer may name; empty: the answer is no column.
    """

    key: str
    short: str
    asks: str
    choices: tuple[Choice, ...] = ()
    because: str = ""
    columns: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Text of the question, its answers and its reason, on one line."""
        choices = "; ".join(f"{each.written} {each.effect}" for each in self.choices)
        reason = f". {self.because[:1].upper()}{self.because[1:]}" if self.because else ""
        # a comment ends with its line, but the name of a column may contain a line break
        return " ".join(f"{f'{self.asks} {choices}'.rstrip()}{reason}".split())

    def as_argument(self, name: str) -> str:
        """Text of the question for a caller of Python, who gives the argument `name`."""
        given = (f"{name}={yaml.safe_load(each.written)!r} {each.effect}" for each in self.choices)
        return " ".join(f"{name}: missing; {self.asks} {'; '.join(given)}".split())

    @property
    def is_open(self) -> bool:
        """Whether the answer may be another one than the listed choices."""
        return not self.choices or self.key in _OPEN

    @property
    def names_items(self) -> bool:
        """Whether the answer is a list of items."""
        return self.key in _ITEMS or self.key.endswith(".items")

    @property
    def line(self) -> str:
        """Line of the YAML file that asks."""
        return choose(self._start, self.text)

    def answered(self, value: str) -> str:
        """Line of the YAML file with its value."""
        return line(self._start, value, self.short)

    @property
    def _start(self) -> str:
        *sections, last = self.key.split(".")
        return f"{'  ' * len(sections)}{last}"

    def value_of(self, typed: str) -> str | None:
        """Return the YAML value for a typed answer; None: it does not answer the question."""
        text = typed.strip()
        for each in self.choices:
            if text.lower() in (each.answer.lower(), each.written.lower()):
                return each.written
        if not text or not self.is_open:
            return None
        if self.names_items and not text.startswith(("{", "[")):
            return _items_of(text, listed=self.key != "items")
        if self.columns:
            return scalar(text) if text in self.columns else None
        try:
            valid = yaml.safe_load(f"{{key: {text}}}").keys() == {"key"}
        except (yaml.YAMLError, AttributeError):
            return None
        return text if valid else None


def _items_of(text: str, *, listed: bool) -> str | None:
    """Parse typed items: a number of them, a file of them, or names with commas.

    None: it is a single name, which is no ranking.
    """
    if not listed and re.fullmatch(r"\d+", text):
        return f"{{count: {text}}}"
    if not listed and text.lower().endswith(ENDINGS):
        return f"{{file: {scalar(text)}}}"
    names = [scalar(each.strip()) for each in text.split(",") if each.strip()]
    if len(names) < 2:
        return None
    return f"[{', '.join(names)}]" if listed else f"{{names: [{', '.join(names)}]}}"


def kind_question() -> Question:
    """Ask for the kind of the rows, if nothing shows it."""
    return Question(
        key="input.kind",
        short="the kind",
        asks="what are the rows?",
        choices=(
            Choice("comparisons", "(two items, and which of them won): the lines below are for it"),
            Choice("responses", "(test answers): run hushrank init --kind responses instead"),
            Choice("rankings", "(of several items): run hushrank init --kind rankings instead"),
        ),
    )


def answers_to(
    questions: Sequence[Question], say: Callable[[str], None], hear: Callable[[str], str]
) -> dict[str, str]:
    """Ask one question after another; return the YAML value for each key.

    Args:
        questions: questions to ask.
        say: shows a line.
        hear: shows a prompt and returns the line that a person typed.

    Raises:
        EOFError: `hear` has no more lines.
    """
    answers = {}
    for number, each in enumerate(questions, 1):
        say(f"{number}/{len(questions)} {each.short} ({each.key}): {each.text}")
        while (value := each.value_of(hear("> "))) is None:
            words = [choice.answer for choice in each.choices] or each.columns
            usual = "two names or more, with commas" if each.names_items else "a value"
            say(f"Answer with {' or '.join(words) or usual}.")
        answers[each.key] = value
    return answers


def column_question(
    role: str,
    meaning: str,
    columns: Sequence[str],
    advice: str = "",
    because: str = "",
) -> Question:
    """Ask for the column of a role.

    Args:
        role: key of `input.columns`.
        meaning: meaning of the column.
        columns: columns of the file, to choose from.
        advice: more text after the columns.
        because: evidence for a column, or the reason why none was taken.
    """
    one_of = f"; one of {', '.join(map(scalar, columns))}" if columns else ""
    return Question(
        key=f"input.columns.{role}",
        short=f"the column {role}",
        asks=f"{meaning}{one_of}{advice}",
        because=because,
        columns=tuple(columns),
    )


def design_question() -> Question:
    """Ask how the pairs that people compared were chosen."""
    return Question(
        key="input.design",
        short="the design",
        asks="which pairs were people asked about?",
        choices=(
            Choice(
                "balanced",
                "(every pair asked equally often)",
                result="Wins are counted as they are. If some pairs were in fact asked more often,"
                " items with weak opponents come out too high.",
            ),
            Choice(
                "random",
                "(random pairs, some items shown more)",
                result="Scores allow for items that were shown more often than others.",
            ),
            Choice(
                "any",
                "(not sure, or the same pair judged several times on purpose, or a schedule such as"
                " a league; list the pairs in input.pairs if few were asked)",
                result="Scores allow for who was compared with whom. This is right for every"
                " design, and needs the most answers.",
            ),
        ),
    )


def items_question(done: str) -> Question:
    """Ask for everything that can be compared, asked or ranked."""
    return Question(
        key="items",
        short="the items",
        asks=f"all that can be {done}, for example {{names: [London, Paris]}}, {{file: items.txt}},"
        " or {count: 6} for the numbers 0 to 5",
    )


def codes_questions(done: str, column: str) -> tuple[Question, Question]:
    """Ask for the items' names and the number of the first one, if rows hold numbers."""
    because = f"column {scalar(column)} holds whole numbers"
    return (
        Question(
            key="items.names",
            short="the items",
            asks=f"all that can be {done}, in the order of their numbers, for example [London,"
            " Paris]; the numbers themselves, as [0, 1, 2], if they have no names",
            because=because,
        ),
        Question(
            key="items.first_code",
            short="the number of the first item",
            asks="which number in the rows means the first of the names?",
            choices=(
                Choice("1", "if they count from 1", result="1 means the first name of your list."),
                Choice("0", "if they count from 0", result="0 means the first name of your list."),
                Choice(
                    "names",
                    "if the names above are these numbers",
                    "null",
                    "Each number is the name of an item.",
                ),
            ),
            because=f"{because}: remove this line if the names above are these numbers",
        ),
    )


def doubtful_items_question(
    items: Sequence[str],
    empty: Collection[str] = (),
    doubtful: Collection[str] = (),
    points: Collection[str] = (),
) -> Question:
    """Ask whether more columns are items: empty ones, those with other names, those with points.

    Args:
        items: all columns that may be items, in the order of the file.
        empty: columns among them without an answer in the rows that were read.
        doubtful: columns among them that hold right and wrong, but are named unlike the others.
        points: columns among them that hold whole numbers above 1.
    """
    told = (
        (empty, "the rows that were read hold no answer in {}"),
        (doubtful, "the rows that were read hold right and wrong in {}, named unlike the others"),
        (points, "the rows that were read hold numbers above 1 in {}: points, or codes of a blank"),
    )
    maybe, unsure = {*empty, *doubtful}, {*empty, *doubtful, *points}
    choices = [
        (
            "no",
            "if not",
            [each for each in items if each not in unsure],
            f"The answers in {listed(items, unsure)} do not count.",
        )
    ]
    if maybe:
        but = f", but for {listed(items, points)}" if points else ""
        named = [each for each in items if each not in points]
        more = listed(items, maybe - {*points})
        result = f"Answers in {more} count, and the result has these items too."
        choices.insert(0, ("yes", f"if so{but}", named, result))
    if points:
        result = "The result has all these items, each with its points."
        choices.append(("points", _WITH_POINTS, list(items), result))
    return Question(
        key="items",
        short="which columns are items"
        if doubtful or points
        else "whether empty columns are items",
        asks=f"is each of {listed(items, unsure)} an item too?",
        choices=tuple(
            Choice(answer, effect, f"{{names: [{', '.join(map(scalar, names))}]}}", result)
            for answer, effect, names, result in choices
        ),
        because="; ".join(text.format(listed(items, some)) for some, text in told if some),
    )


def listed(items: Sequence[str], chosen: Collection[str]) -> str:
    """The names of chosen items, in the order of all."""
    return ", ".join(scalar(each) for each in items if each in chosen)


def epsilon_question() -> Question:
    """Ask for the privacy loss."""
    return Question(
        key="privacy.epsilon",
        short="epsilon",
        asks="smaller protects more; 1 is strong, 2 to 4 is usual",
    )


def bound_question(advice: str = _FEWER) -> Question:
    """Ask how many answers of a person count.

    Args:
        advice: sentence on what a good number depends on.
    """
    asks = f"{_MOST_ANSWERS}: {advice}"
    return Question(key="privacy.max_contributions", short="answers a person", asks=asks)


def codes_of_result_question(
    column: str, sides: Sequence[str], readings: Sequence[Reading]
) -> Question:
    """Ask which code of a result means that the left item won.

    Args:
        column: column of the result.
        sides: the columns of the two items, the left one first.
        readings: possible `input.words`; empty: the codes are values of rows, which are not
            shown, so the person writes them.
    """
    left, right = map(scalar, sides)
    name = scalar(column)
    asks = f"which value of {name} means that {left} won, and which that {right} won?"
    if not readings:
        asks += " Write for example {left: [first], right: [second], tie: [same]}"
    return Question(
        key="input.words",
        short="which value means that left won",
        asks=asks,
        choices=tuple(_reading(each, left, right) for each in readings),
        because=f"{name} holds codes, which say nothing of the side",
    )


def unknown_result_question(sides: Sequence[str]) -> Question:
    """Ask what the values of the result mean, if no column was taken for it.

    Args:
        sides: the columns of the two items, the left one first.
    """
    left, right = map(scalar, sides)
    return Question(
        key="input.words",
        short="which value means that left won",
        asks=f"which value of the result means that {left} won, and which that {right} won?",
        choices=(
            *(_reading(each, left, right) for each in NUMBERS[:2]),
            Choice(
                "usual",
                f"if 1 means that {left} won, -1 that {right} won and 0 a tie; or if the column"
                " names the item that won",
                "null",
                f"{_TURNED} A row with another value is excluded.",
            ),
        ),
        because="other codes need a line such as {left: [first], right: [second], tie: [same]}",
    )


def _reading(words: Reading, left: str, right: str) -> Choice:
    value = ", ".join(f"{side}: {flow(codes)}" for side, codes in words.items())
    won, lost = words["left"][0], words["right"][0]
    tie = f" and {words['tie'][0]} a tie" if "tie" in words else ""
    return Choice(
        f"{won}/{lost}",
        f"if {won} means that {left} won, {lost} that {right} won{tie}",
        f"{{{value}}}",
        f"{won} counts as a win of {left}, {lost} as one of {right}. {_TURNED}",
    )


def empty_winner_question(column: str, ties: Sequence[str], because: str) -> Question:
    """Ask what an empty cell in the column of the winner means.

    Args:
        column: column of the winner.
        ties: words for a tie.
        because: why a cell may be empty.
    """
    return Question(
        key="input.words",
        short="what an empty winner means",
        asks=f"what does an empty cell of {scalar(column)} mean?",
        choices=(
            Choice(
                "tie",
                "if it is a tie",
                f"{{tie: {flow((*ties, ''))}}}",
                "A row without a winner is a tie between its two items.",
            ),
            Choice(
                "nothing",
                "if there was no answer",
                f"{{tie: {flow(ties)}}}",
                "A row without a winner does not count.",
            ),
        ),
        because=because,
    )


def best_question() -> Question:
    """Ask which number of a ranking is the best."""
    return Question(
        key="input.best",
        short="which rank is the best",
        asks="which number of a ranking is its best item's?",
        choices=(
            Choice(
                "lowest",
                "if 1 is the first place",
                result=f"The item with the smallest number comes first. {_TURNED}",
            ),
            Choice(
                "highest",
                "if the largest number is the best, as of points",
                result=f"The item with the largest number comes first. {_TURNED}",
            ),
        ),
    )


def not_ranked_question(markers: Collection[str]) -> Question:
    """Ask which cells say that an item was not ranked, beside empty ones.

    Args:
        markers: texts among the ranks that were read that may say so.
    """
    seen = " and ".join(sorted(markers))
    return Question(
        key="input.not_ranked",
        short="which rank means not ranked",
        asks="which cells say that an item was not ranked, beside empty ones and NA? Any other"
        " number is a rank, 0 too",
        choices=(
            Choice("none", "if no other cell does", "[]", "Every number is a rank."),
            *(
                Choice(mark, "if such a cell does", flow([mark]), f"{mark} is no rank.")
                for mark in ("0", "99", "-")
            ),
            Choice(
                "all",
                "if each of them does",
                flow(_NOT_RANKED),
                f"None of these is a rank: {', '.join(_NOT_RANKED)}.",
            ),
        ),
        because=f"the ranks that were read hold {seen}" if markers else "",
    )


def place_questions() -> tuple[Question, ...]:
    """Ask for the rules of ballots that mark no candidate, several, or one twice."""
    return (
        Question(
            key="input.overvotes",
            short="several candidates at one place",
            asks="what happens to a ballot that marks several candidates at one place?",
            choices=(
                Choice("exhaust", "if it ends before that place", result=_ENDS),
                Choice("set-aside", "if it does not count at all", result=_EXCLUDED),
            ),
        ),
        Question(
            key="input.skipped",
            short="a skipped place",
            asks="what happens to a ballot that leaves a place out?",
            choices=(
                Choice(
                    "close",
                    "if the candidates after it move up",
                    result="The candidates after the gap move up, and all of them count.",
                ),
                Choice("exhaust", "if it ends there", result=_ENDS),
            ),
        ),
        Question(
            key="input.repeated",
            short="a candidate at two places",
            asks="what happens to a ballot that names a candidate at two places?",
            choices=(
                Choice(
                    "first",
                    "if only the first of them counts",
                    result="The second mention is left out, and the ballot goes on.",
                ),
                Choice("exhaust", "if it ends before the second", result=_ENDS),
                Choice("set-aside", "if it does not count at all", result=_EXCLUDED),
            ),
        ),
    )


def lines_question(why: str) -> Question:
    """Ask whether cells of a CSV file hold line breaks.

    Args:
        why: evidence for it in the header or the first rows.
    """
    return Question(
        key="input.multiline",
        short="whether cells hold line breaks",
        asks="do quoted cells hold line breaks?",
        choices=(
            Choice(
                "true",
                "if so, though a row with an open quote then swallows rows of others, which no"
                " noise covers",
                result="Cells with line breaks are read as they are.",
            ),
            Choice(
                "false",
                "if not; a row with a line break is then set aside",
                result="A row with a line break in a cell does not count.",
            ),
        ),
        because=why,
    )


def unlisted_question() -> Question:
    """Ask about the items that a ranking does not list."""
    return Question(
        key="input.unlisted",
        short="unlisted",
        asks="what does a ranking say of an item that it does not list?",
        choices=(
            Choice(
                "below",
                "if it is worse than those listed, as on most ballots",
                result="Items that a ranking does not list are below all that it lists.",
            ),
            Choice(
                "unknown",
                "if the ranking says nothing of it",
                result="A ranking says nothing of items that it does not list.",
            ),
        ),
    )
