"""Text of exact numbers about rows. Confidential: only `inspect_command` may print it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date

import numpy as np
from rich.panel import Panel
from rich.text import Text

from hushrank.estimation.comparisons.planning import Exposures
from hushrank.flows.config.comparisons import Design, InputConfig
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.run.input_files import columns_note
from hushrank.flows.terminal import Console, print_records
from hushrank.pipelines.inspect.found import Look
from hushrank.transforms.common.schema import Ties

CONFIDENTIAL = (
    "Exact numbers of real people, without noise. Do not copy, log, send or publish them."
    " They must not decide epsilon, bounds, items or method of a release: a guarantee holds for"
    " settings that were chosen without looking at exact rows. Use them only to find mistakes in"
    " columns, words, names, files."
)
QUANTILES = {"least": 0.0, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "95 %": 0.95, "99 %": 0.99}
MOST_ITEMS = 3  # items shown at each end of the table
MOST_LENGTHS = 12  # lengths of rankings that have rows of their own
MANY_REJECTED = 0.5
FEW = 20  # below this mean number of valid rows per item, chance alone makes appearances unequal


def show_look(console: Console, config: SurveyConfig, night: date | None, found: Look) -> None:
    """Print everything, with the word CONFIDENTIAL at the top and at the end."""
    of = "" if night is None else f", night {night}"
    title = f"CONFIDENTIAL: {config.name}{of}"
    console.print(Panel(Text(CONFIDENTIAL), title=Text(title), style="red"))
    if note := columns_note(config, found.columns):
        _say(console, note)
        console.print()
    _show_rows(console, found)
    rows, names = config.input, config.items.catalogue.names
    if isinstance(rows, InputConfig) and found.set_aside and (said := rows.spelled_out(names)):
        _say(console, f"According to the settings, {said}.")
    if found.encoded:
        _show_people(console, config, found)
        _show_lengths(console, found)
        _show_exposure(console, config, found)
    written = "Nothing was written, logged or spent."
    if config.ledger.records_access:
        written = "The ledger says who looked and when, and none of this. Nothing was spent."
    console.print(Text(f"CONFIDENTIAL. {written}", style="red"))


def _show_rows(console: Console, found: Look) -> None:
    console.print(Text("Rows", style="bold"))
    reasons, read = found.set_aside, found.rows
    aside = reasons.total()
    rows = [("read", f"{read:,}", ""), _line("valid", read - aside, read)]
    rows += [_line("set aside", aside, read), *_by_reason("- ", reasons, read)]
    if found.ties is not None:
        rows.append(_line("ties", found.ties, found.encoded))
    print_records(console, ("", "rows", "share"), rows)
    if aside > MANY_REJECTED * read:
        _say(
            console,
            "Most rows are excluded, so columns, words or items do not match the file. Correct"
            " input.columns, input.words or items to match the file, and inspect again.",
        )
    console.print()


_HOW_ONCE = {
    False: ": groups.most counts it once in the whole.",
    True: ". With covariates each answer must be in one group: leave one row of it.",
}


def _show_people(console: Console, config: SurveyConfig, found: Look) -> None:
    without_ties = isinstance(config.input, InputConfig) and config.input.ties is Ties.DROP
    noun, all_of_them = found.noun, found.contributions
    console.print(Text(f"What a run would count: {noun}", style="bold"))
    rows = [(f"{noun}, ties left out" if without_ties else noun, f"{all_of_them:,}", "")]
    if found.merged:
        rows.append(_line("duplicates", found.merged, all_of_them))
    if found.grouped:
        rows.append(_line("alike but for their group", found.grouped, all_of_them))
    if not found.refuses_rows:
        rows += _by_reason("set aside: ", found.refused, all_of_them)
    if found.most is not None:
        rows.append(_line("dropped by the bounds", found.dropped, all_of_them))
    rows.append(_line("counted", found.kept, all_of_them))
    print_records(console, ("", noun, "share"), rows)
    if found.grouped:
        covariates = config.input.kind == "comparisons" and bool(config.comparisons.covariates)
        _say(
            console,
            "Rows that are alike but for their group may be one answer, written once for each of"
            f" its groups. Then it counts several times{_HOW_ONCE[covariates]}",
        )
    if found.people is None:
        _say(
            console,
            "People are not counted: a run with these settings does not read the column of people.",
        )
    else:
        _show_quantiles(console, found, found.people)
    console.print()


def _show_quantiles(console: Console, found: Look, sizes: Counter[int]) -> None:
    people = sizes.total()
    if not people:
        return
    values = found.quantiles(list(QUANTILES.values()))
    texts = [f"{name} {value:,}" for name, value in zip(QUANTILES, values, strict=True)]
    texts.append(f"most {max(sizes):,}")
    _say(console, f"{people:,} people; {found.noun} of a person: {', '.join(texts)}.")
    if found.most is not None:
        above = sum(number for size, number in sizes.items() if size > found.most)
        _say(
            console,
            f"{above:,} people ({_share(above, people)}) have more than the {found.most:,} that"
            " count (privacy.max_contributions).",
        )


def _show_lengths(console: Console, found: Look) -> None:
    """Show how many rankings list 1, 2, 3 … items."""
    if not found.lengths:
        return
    console.print(Text("Lengths: number of items in a valid ranking", style="bold"))
    total, rows = found.lengths.total(), []
    sizes = sorted(found.lengths)
    for size in sizes[:MOST_LENGTHS]:
        rows.append(_line(f"{size:,}", found.lengths[size], total))
    if longer := sizes[MOST_LENGTHS:]:
        number = sum(found.lengths[size] for size in longer)
        rows.append(_line(f"{longer[0]:,} to {longer[-1]:,}", number, total))
    print_records(console, ("items", "rankings", "share"), rows)
    console.print()


def _show_exposure(console: Console, config: SurveyConfig, found: Look) -> None:
    counts = found.appearances
    total, n_items = int(counts.sum()), len(counts)
    names = config.items.catalogue.names
    order = np.argsort(-counts, kind="stable")
    console.print(Text("Appearances: valid rows in which an item occurs", style="bold"))
    ends = order if n_items <= 2 * MOST_ITEMS else [*order[:MOST_ITEMS], *order[-MOST_ITEMS:]]
    rows = []
    for place, item in enumerate(ends):
        if place == MOST_ITEMS and n_items > 2 * MOST_ITEMS:
            rows.append((f"({n_items - 2 * MOST_ITEMS:,} items between)", "", ""))
        rows.append(_line(names[item], int(counts[item]), total))
    print_records(console, ("item", "rows", "share of all"), rows)
    for sentence in _sentences_of_exposure(config, found):
        _say(console, sentence)
    console.print()


def _sentences_of_exposure(config: SurveyConfig, found: Look) -> Iterator[str]:
    counts = found.appearances.astype(float)
    least, most = counts.min(), counts.max()
    ratio = "" if least == 0 else f", the most shown item {most / least:,.1f} times the least"
    spread = counts.std() / counts.mean()
    even = f"{100 / len(counts):.3g} %"
    yield f"An even share would be {even}{ratio}; relative spread {100 * spread:.0f} %."
    unseen = int((counts == 0).sum())
    if unseen:
        yield f"{unseen:,} of {len(counts):,} items occur in no valid row: check `items`."
    if isinstance(config.input, InputConfig) and config.input.design is Design.BALANCED:
        if counts.mean() < FEW:
            yield "Too few valid rows to tell whether input.design: balanced is right."
        elif Exposures(counts, 0.0).clearly_unbalanced():
            yield (
                "input.design: balanced looks wrong: items were shown more unequally than chance"
                " explains. Change the design only if you know from elsewhere how pairs were"
                " chosen, not because of these numbers."
            )
        else:
            yield "input.design: balanced is consistent with how often items were shown."


def _by_reason(before: str, reasons: Counter[str], of: int) -> Sequence[tuple[str, str, str]]:
    return [_line(before + reason, number, of) for reason, number in reasons.most_common()]


def _line(name: str, number: int, of: int) -> tuple[str, str, str]:
    return name, f"{number:,}", _share(number, of)


def _share(part: int, of: int) -> str:
    """Text of a share in percent that is never rounded to 0 or to 100."""
    if of == 0:
        return ""
    share = part / of
    if 0 < share < 0.0005:
        return "< 0.1 %"
    if 0.9995 < share < 1:
        return "> 99.9 %"
    return f"{100 * share:.1f} %"


def _say(console: Console, text: str) -> None:
    console.print(Text(text))
