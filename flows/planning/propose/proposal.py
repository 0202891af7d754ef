"""`hushrank init`: propose a configuration from a file's column names and its first rows.

No value of a row enters the proposal. In particular the catalogue must come from the person: a list
of the items that occur would depend on who answered what. The columns of a sheet do not depend on
answers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from hushrank.flows.config.items import COMPLETE_ORDERS
from hushrank.flows.config.items_file import PREFLIB_ENDINGS, read_item_names
from hushrank.flows.errors import ConfigError
from hushrank.flows.planning.propose.columns import ColumnGuess, guess_columns
from hushrank.flows.planning.propose.forms import (
    recorded_form,
    unread_column,
    unread_table,
    winners_beside_lists,
)
from hushrank.flows.planning.propose.head import HEAD_ROWS, Head, Source, read_head
from hushrank.flows.planning.propose.item_sets import guess_best_worst
from hushrank.flows.planning.propose.names import (
    about_lines,
    empty_columns,
    holds_numbers,
    line,
    meaning_of,
    scalar,
    text_of,
    words_of,
)
from hushrank.flows.planning.propose.pairs import refuse_pairs
from hushrank.flows.planning.propose.people import (
    UserGuess,
    group_column,
    overlapping_columns,
    rounded_ids,
)
from hushrank.flows.planning.propose.questions import (
    Question,
    answers_to,
    kind_question,
    lines_question,
)
from hushrank.flows.planning.propose.rankings import (
    RankingGuess,
    guess_places,
    guess_rankings,
    guess_wide,
)
from hushrank.flows.planning.propose.responses import ResponseGuess, guess_long, guess_sheet
from hushrank.flows.planning.propose.roles import Guess, menus_of, roles_of, stated_guess
from hushrank.flows.planning.propose.sections import (
    KindLines,
    comparisons_lines,
    rankings_lines,
    responses_lines,
)
from hushrank.flows.reading import read_apart
from hushrank.transforms.common.plain_text import short_list
from hushrank.transforms.common.schema import MOST_COLUMNS
from hushrank.transforms.storage.text_lines import without_packing
from hushrank.transforms.tables.names import is_table

_NO_ITEMS = "List every item yourself: a list taken from the answers would leak who answered."
_ONE_RESULT = (
    "hushrank needs one column that names the winner (or holds 1, -1 or 0, or words: input.words);"
    " if yours is split over several columns or scores, combine them first. Counts of wins cannot"
    " be read: each answer needs a row of its own, or nobody is protected."
)
_EXISTS = "{}: exists already and was not changed; remove it or name another file"
_COUNTS = re.compile("freq|frequency|count|counts")
_FREE_TEXTS = frozenset({"prompt", "conversation", "comment", "comments", "text", "completion"})
MARKED = "The lines marked CHOOSE need a value from you. "
_NUMBERED = (
    'awk \'NR == 1 {{print "id," $0; next}} {{print NR - 1 "," $0}}\' {source} > numbered.csv'
)


class Kind(StrEnum):
    """Kind of the rows of a file."""

    COMPARISONS = "comparisons"
    RESPONSES = "responses"
    RANKINGS = "rankings"


@dataclass(frozen=True, slots=True)
class ConfigProposal:
    """YAML file that the person completes.

    Attributes:
        text: content of the file.
        summary: description of what was read and what it looks like, for the person.
        questions: questions that the lines marked CHOOSE ask, in their order.
        plannable: whether `hushrank plan` can say what accuracy an epsilon gives.
        kind: kind of rows that the lines are for.
        roles: the role of each column that has one, by column.
        menus: the roles that each column may have, by column, in the order of the file.
    """

    text: str
    summary: str
    questions: tuple[Question, ...]
    plannable: bool = False
    kind: str = Kind.RANKINGS
    roles: Mapping[str, str] = field(default_factory=dict)
    menus: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def choices(self) -> tuple[str, ...]:
        """Short names of the values that the lines marked CHOOSE ask for."""
        return tuple(each.short for each in self.questions)

    def answered(self, answers: Mapping[str, str]) -> ConfigProposal:
        """Return the proposal with the lines marked CHOOSE filled in.

        Args:
            answers: values in the YAML file, by the key of their question; a question without one
                stays open.
        """
        left = tuple(each for each in self.questions if each.key not in answers)
        text = self.text if left else self.text.replace(MARKED, "")
        for each in self.questions:
            if each.key in answers:
                text = text.replace(each.line, each.answered(answers[each.key]), 1)
        return replace(self, text=text, questions=left)


def propose_config(
    source: Source,
    target: Path,
    kind: Kind | None = None,
    roles: Mapping[str, str] | None = None,
) -> ConfigProposal:
    """Propose a configuration for the log `source`, to be written to `target`.

    This reads the header and at most `HEAD_ROWS` rows; for a folder, those of its first file.

    Args:
        source: a Parquet, CSV, JSON Lines or PrefLib file, a folder of such files, or a table.
        target: path of the new YAML file; relative paths in it start there.
        kind: the kind of its rows; None: guess it.
        roles: role of each column, as a person states it; None: guess them.

    Raises:
        ConfigError: `source` cannot be read, or a column cannot have its role.
    """
    return proposal_of(source, target, read_apart(read_head, source), kind, roles)


def proposal_of(
    source: Source,
    target: Path,
    head: Head,
    kind: Kind | None = None,
    roles: Mapping[str, str] | None = None,
) -> ConfigProposal:
    """Propose a configuration as `propose_config`, from a header that was read before."""
    if Path(head.file or source).suffix.lower() in PREFLIB_ENDINGS:
        if isinstance(source, str):
            raise ConfigError(f"{source}: init reads PrefLib files of this machine only; copy it")
        return _preflib_proposal(source, target, head)
    guess = _guess(head, kind)
    if roles is not None:
        guess = stated_guess(source, head, guess, roles)
    _refuse_header(source, head, guess)
    _refuse_unread(source, head, guess)
    if guess is not None and guess.user is not None:
        _refuse_rounded(source, head, guess.user.column)
    if isinstance(guess, RankingGuess):
        _refuse_counts(source, head)
    unclear = guess is None
    if guess is None:
        guess = guess_columns(head.columns, head.rows)
    own = _lines_of(head, guess)
    if unclear:
        own = replace(own, questions=(kind_question(), *own.questions))
    if why := _breaks_lines(head, guess):
        asked = lines_question(why)
        own = replace(own, input=(asked.line, *own.input), questions=(asked, *own.questions))
    text = "\n".join(_file_lines(source, target, own, head, unclear=unclear)) + "\n"
    summary = "\n".join(_summary(source, head, guess, unclear=unclear))
    return ConfigProposal(
        text,
        summary,
        own.questions,
        plannable=not isinstance(guess, RankingGuess),
        kind=own.kind,
        roles=roles_of(guess),
        menus=menus_of(guess, head.columns),
    )


def _guess(head: Head, kind: Kind | None) -> Guess | None:
    """Guess the likeliest reading, limited to `kind`; None: the rows could be anything."""
    columns, rows = head.columns, head.rows
    if kind is Kind.COMPARISONS:
        return guess_columns(columns, rows, head.questions)
    if kind is Kind.RESPONSES:
        return guess_sheet(columns, rows, least=2) or guess_long(columns, rows, partial=True)
    if kind is Kind.RANKINGS:
        found = guess_best_worst(columns, rows) or guess_places(columns, rows)
        found = found or guess_wide(columns, rows, head.questions)
        return found or guess_rankings(columns, rows) or RankingGuess(layout="long")
    if (chosen := guess_best_worst(columns, rows)) is not None:
        return chosen
    compared = guess_columns(columns, rows, head.questions)
    if compared.asked is not None:
        return compared
    if compared.sides is not None and {"outcome", "winner"} & compared.known().keys():
        return compared
    if (placed := guess_places(columns, rows)) is not None:
        return placed
    if (wide := guess_wide(columns, rows, head.questions)) is not None:
        return wide
    sheet = guess_sheet(columns, rows)
    if sheet is not None and (sheet.numbered or compared.sides is None):
        return sheet
    if compared.sides is not None:
        return compared
    return guess_rankings(columns, rows) or guess_long(columns, rows)


def _breaks_lines(head: Head, guess: Guess) -> str:
    """Reason why cells of a CSV file may hold line breaks; empty: there is none."""
    if not head.is_csv:
        return ""
    for column in head.columns:
        if any("\n" in text_of(row.get(column)) for row in head.rows):
            return f"a cell of {scalar(column)} that was read holds one"
    roles = guess.known().values()
    free = [c for c in head.columns if c not in roles and _FREE_TEXTS & set(words_of(c))]
    if texts := [column for column in free if not holds_numbers(head.rows, column)]:
        return f"{scalar(texts[0])} may hold free text"
    return ""


def _refuse_header(source: Source, head: Head, guess: Guess | None) -> None:
    """Refuse a CSV file whose first line is a row, or names two columns alike."""
    filled = [column for column in head.columns if column.strip()] if head.is_csv else []
    if guess is None or "user" not in guess.known():
        words = [column for column in filled if not column.strip().isdecimal()]
        below = [{text_of(row.get(column)) for row in head.rows} for column in words]
        if sum(word.strip() in texts for word, texts in zip(words, below, strict=True)) > 1:
            raise ConfigError(
                f"{source}: the first line seems to be a row, because its texts stand in the rows"
                " below too. The first line must name the columns: add one above it"
            )
    for column in filled:
        if filled.count(column) > 1:
            raise ConfigError(f"{source}: column {column} occurs twice. Rename one of them.")


def _refuse_unread(source: Source, head: Head, guess: Guess | None) -> None:
    """Refuse a form that is not read, unless comparisons with a result or places were found."""
    columns, rows = head.columns, head.rows
    asked = isinstance(guess, ColumnGuess) and guess.asked is not None
    told = recorded_form(columns) or (None if asked else refuse_pairs(columns, rows))
    known = {} if guess is None else guess.known()
    compared = asked or (
        isinstance(guess, ColumnGuess) and bool({"outcome", "winner"} & known.keys())
    )
    in_places = isinstance(guess, RankingGuess) and bool(guess.places)
    if told is None and not compared and not in_places:
        told = unread_table(columns, rows)
    if told is None and (guess is None or isinstance(guess, ColumnGuess)) and not compared:
        told = unread_column(columns, rows)
    if told is None and isinstance(guess, RankingGuess) and guess.ranking is not None:
        told = winners_beside_lists(columns, rows, guess.ranking)
    if told is not None:
        raise ConfigError(f"{source}: {told}. Nothing was written")


def _refuse_rounded(source: Source, head: Head, column: str) -> None:
    """Refuse ids of people that were rounded by a spreadsheet or a float, because a run refuses
    them."""
    if rounded_ids(head.rows, column):
        raise ConfigError(
            f"{source}: column {column} holds numbers that were rounded, so it no longer tells"
            " people apart. Export it as text from where it came. Nothing was written"
        )


def _refuse_counts(source: Source, head: Head) -> None:
    """Refuse rankings with a column that says how many people gave each."""
    for column in head.columns:
        if _COUNTS.fullmatch(meaning_of(column)) and holds_numbers(head.rows, column):
            raise ConfigError(
                f"{source}: column {column} seems to say how many people gave the ranking of a row."
                " It is not read, because each ranking needs a row of its own: write every row as"
                " often as it says, or rename that column if it means something else"
            )


def _lines_of(head: Head, guess: Guess) -> KindLines:
    columns = head.columns
    if isinstance(guess, ColumnGuess):
        taken = guess.known().values()
        overlapping = overlapping_columns(columns, head.rows, taken)
        group = group_column(columns, head.rows, taken)
        return comparisons_lines(columns, guess, group, overlapping)
    if isinstance(guess, ResponseGuess):
        return responses_lines(columns, guess)
    return rankings_lines(columns, guess)


def _preflib_proposal(source: Source, target: Path, head: Head) -> ConfigProposal:
    """Propose a configuration for a file whose header names the items; strict kinds have no
    ties."""
    file = Path(head.file or source)
    kind = file.suffix.lower()
    ties, complete = "random" if kind.startswith(".t") else "refuse", kind in COMPLETE_ORDERS
    user = UserGuess.certain("user")
    guess = RankingGuess(layout="long", user=user, item="item", rank="rank")
    own = rankings_lines([], guess, ties, _path(file, target), complete=complete)
    summary = (
        "I read the header and the first ballots only. A PrefLib file of rankings: each ballot"
        f" counts as another person's.\n{len(read_item_names(file))} items found in the header,"
        " which does not depend on the ballots."
    )
    text = "\n".join(_file_lines(source, target, own, head, unclear=False)) + "\n"
    return ConfigProposal(text, summary, own.questions)


def ask_for_answers(
    source: Source,
    target: Path,
    kind: Kind | None,
    say: Callable[[str], None],
    hear: Callable[[str], str],
) -> ConfigProposal:
    """Propose a configuration, ask what it leaves open, and fill that in. Nothing is written.

    Args:
        source, target, kind: as for `propose_config`.
        say, hear: as for `answers_to`.

    Raises:
        ConfigError: `propose_config` refuses; `target` exists; or no more lines come.
    """
    if target.exists():  # check this before asking anything
        raise ConfigError(_EXISTS.format(target))
    proposal = propose_config(source, target, kind)
    try:
        if proposal.questions[0].key == kind_question().key:
            answers = answers_to(proposal.questions[:1], say, hear)
            proposal = propose_config(source, target, Kind(answers["input.kind"]))
        say(proposal.summary)
        return proposal.answered(answers_to(proposal.questions, say, hear))
    except EOFError:
        raise ConfigError(
            f"init --ask: the input ended before all questions were answered; {target} was not"
            " written. Run it in a terminal, or leave --ask out and fill in the lines marked CHOOSE"
        ) from None


def write_proposal(proposal: ConfigProposal, target: Path) -> str:
    """Write the proposed file, never over another one; return the text for the person.

    Raises:
        ConfigError: `target` exists, or cannot be written.
    """
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(proposal.text)
    except FileExistsError:
        raise ConfigError(_EXISTS.format(target)) from None
    except OSError as error:
        raise ConfigError(f"{target}: cannot be written ({error.strerror})") from None
    if not proposal.questions:
        return f"Wrote {target}. Next: hushrank validate {target}"
    plan = f" (hushrank plan {target} --people N says what each epsilon is worth)"
    plan = plan if proposal.plannable else ""
    count = len(proposal.choices)
    marked = "1 line in it is" if count == 1 else f"{count} lines in it are"
    return (
        f"{proposal.summary}\nWrote {target}; {marked} marked CHOOSE"
        f" ({', '.join(proposal.choices)}). Next: fill in what is marked{plan}, then hushrank"
        f" validate {target}"
    )


def _summary(source: Source, head: Head, guess: Guess, *, unclear: bool) -> Iterator[str]:
    """Yield lines on what was read, how it looks, what is in doubt and what is missing."""
    many = f", the first of {head.files} files" if head.files > 1 else ""
    where = "" if head.file is None else f" of {head.file}{many}"
    read = f"I read the header and at most {HEAD_ROWS} rows{where}."  # how many is not said
    known = ", ".join(f"{role}={column}" for role, column in guess.known().items())
    looks = f"{_described(guess)}{known}" if known else _described(guess).removesuffix(": ")
    told = bool(known) or (not isinstance(guess, ColumnGuess) and bool(guess.items))
    told = told or (isinstance(guess, RankingGuess) and bool(guess.places))
    told = told or (isinstance(guess, ColumnGuess) and guess.asked is not None)
    yield f"{read} Looks like {looks}." if told and not unclear else read
    if unclear:
        yield (
            "Could not tell whether these are comparisons, test answers or rankings. The file is"
            f" written for comparisons; for the others: hushrank init {source} --kind responses,"
            " or --kind rankings."
        )
    yield from _missing(source, head.columns, guess)
    if isinstance(guess, ColumnGuess) and guess.otherwise is not None:
        yield f"Check {guess.winner}: {guess.otherwise}."
    roles = set(guess.known().values())
    others = [c for c in empty_columns(head.rows, head.columns) if c.strip() and c not in roles]
    if others:
        yield f"Nothing is known of {short_list(others, MOST_COLUMNS)}: empty in those rows."
    yield from _items_told(head, guess, {*roles, *others})


def _items_told(head: Head, guess: Guess, others: set[str]) -> Iterator[str]:
    """Yield lines on the items, and on the columns that were taken for them.

    Args:
        others: columns that are no items.
    """
    if isinstance(guess, ResponseGuess | RankingGuess) and guess.layout == "wide":
        names = [each if isinstance(each, str) else each[0] for each in guess.items]
        yield (
            f"{len(names)} columns are taken for items, {names[0]} to"
            f" {names[-1]}: check that nothing else is among them."
        )
        free = [each for each in head.columns if each not in {*names, *others}]
        if isinstance(guess, ResponseGuess) and free:
            yield f"Not among them: {short_list(free, MOST_COLUMNS)}."
        return
    if isinstance(guess, ColumnGuess) and guess.asked is not None:
        names = [column for column, _, _ in guess.asked.pairs]
        asks = f"columns ask about a pair of items, {names[0]} to {names[-1]}"
        yield (
            f"{len(names)} {asks if len(names) > 1 else f'column asks about a pair, {names[0]}'}:"
            f" {len(guess.asked.items)} items. Check that the names suit the cells; case is"
            " ignored there."
        )
        return
    yield _NO_ITEMS


def _described(guess: Guess) -> str:
    if isinstance(guess, ColumnGuess):
        asked = "" if guess.asked is None else ", with a row a person and a column a pair of items"
        return f"comparisons{asked}: "
    if isinstance(guess, RankingGuess):
        if guess.layout == "wide":
            return "rankings, with a row a ranking and a column an item: "
        if guess.layout == "places":
            ends = f"{guess.places[0]} to {guess.places[-1]}"
            return f"rankings, with a row a ranking and a column a place ({ends}): "
        if guess.layout == "best-worst":
            if guess.sets:
                ends = f"{guess.sets[0].best} to {guess.sets[-1].worst}"
                return f"rankings, with {len(guess.sets)} sets of items in a row ({ends}): "
            ends = f"{guess.shown[0]} to {guess.shown[-1]}"
            return f"rankings, with a row a choice of the best and the worst of {ends}: "
        return "rankings: "
    if guess.layout == "long":
        return "test answers: "
    return "a test, with a row a person and a column an item: "


def _missing(source: Source, columns: list[str], guess: Guess) -> Iterator[str]:
    unknown = guess.unknown()
    if not unknown:
        return
    if isinstance(guess, ResponseGuess) and guess.layout == "wide" and guess.user is None:
        number = f" For example: {_NUMBERED.format(source=source)}"
        yield (
            "No column names the person of a sheet, but the protection of people needs one: name"
            " it, or add one, with a different number in every row."
            f"{number if str(source).lower().endswith('.csv') else ''}"
        )
        return
    keys = " and ".join(f"input.columns.{role}" for role in unknown)
    how = f" {_ONE_RESULT}" if "outcome" in unknown else ""
    yield (
        f"Could not tell which column is {' or '.join(unknown)}."
        f" Columns: {short_list(columns, MOST_COLUMNS)}. Set {keys}.{how}"
    )


def _file_lines(
    source: Source, target: Path, own: KindLines, head: Head, *, unclear: bool
) -> Iterator[str]:
    """Yield the whole file: the lines of every job, around `own`, the lines of its kind of
    input."""
    stem = _stem(source)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("._-")[:100] or "survey"
    yield f"# Proposed by hushrank init from the header and the first {HEAD_ROWS} rows of a file."
    yield f"# {MARKED}Paths start at the folder of this file."
    yield ""
    yield line("name", scalar(name), "the population this privacy budget belongs to")
    yield ""
    yield "input:"
    yield _kind_line(own.kind, unclear=unclear)
    yield line(
        "  paths",
        f"[{scalar(_path(source, target))}]",
        "files, folders, or patterns: survey/*.parquet",
    )
    yield from _form_lines(head)
    yield from own.input
    yield line("  on_bad_rows", "set-aside", "or fail; such rows go to the confidential folder")
    yield ""
    yield from own.items
    yield ""
    yield "privacy:"
    yield from own.privacy
    yield ""
    yield from own.further
    yield line("method", own.method, own.method_remark)
    yield line("output", scalar(f"out/{name}"), "files that may be published")
    yield line("confidential", ".hushrank/work", "files that must stay private")
    yield "ledger:"
    yield line("  path", ".hushrank/ledger.jsonl", "record of the spent budget; never delete it")
    yield line("  epsilon", own.budget, "the largest total epsilon for these people")
    yield "  # refresh: monthly renews this total; lifetime_epsilon: 50 limits all months together"
    if own.delta:
        yield line("  delta", own.delta, "total of all releases: enough for ten at the delta above")
    if head.partition is not None:
        yield "# All dates are ranked together. For a release of its own each night, add:"
        yield f"# schedule: {{partition: {scalar(head.partition)}}}"
    yield line("runner", "local")
    yield from about_lines()


def _form_lines(head: Head) -> Iterator[str]:
    """Yield the lines on the format of the files, if it is unusual."""
    if head.format is not None:
        yield line("  format", str(head.format), "whatever the file's extension")
    if head.delimiter != ",":
        yield line("  delimiter", scalar(head.delimiter), "separator of columns")
    if head.encoding != "utf-8":
        yield line("  encoding", head.encoding, "as Excel writes in Western Europe")
    if head.decimal != ".":
        yield line("  decimal", scalar(head.decimal), "decimal separator")
    if head.header_rows != 1:
        yield line("  header_rows", str(head.header_rows), "rows before the first answer")
    if head.folders:
        names = ", ".join(map(scalar, head.folders))
        yield f"  # Folders tell {names}. To use one as a column, for example of groups, add:"
        yield f"  # partitions: [{names}]"


def _kind_line(kind: str, *, unclear: bool) -> str:
    if not unclear:
        return line("  kind", kind, "if they are not: hushrank init --kind, see its --help")
    return kind_question().line


def _path(source: Source, target: Path) -> str:
    if isinstance(source, str) or source.is_absolute():
        return str(source)
    return os.path.relpath(source, target.parent)


def _stem(source: Source) -> str:
    """Last name of a place: of a file without its extensions, of a table without its pin."""
    if isinstance(source, Path):
        return Path(without_packing(source.resolve().name)).stem
    last = source.partition("?")[0].rstrip("/").rpartition("/")[2]
    return last.rpartition(".")[2] if is_table(source) else Path(without_packing(last)).stem


def kind_named(text: str | None) -> Kind | None:
    """Return the kind that a person names.

    Raises:
        ConfigError: no kind has that name.
    """
    if text is None:
        return None
    try:
        return Kind(text)
    except ValueError:
        raise ConfigError(f"--kind must be {', '.join(Kind)}, got {text[:80]!r}") from None
