"""docs/reproduction.md: a row for every table and figure, and commands that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hushrank.experiments.rdp.rdp import FIGURES
from hushrank.experiments.xsc.xsc import APPLICATION
from hushrank.experiments.xsc.xsc_paper import NOT_AT_HAND, PRINTED, TABLES, series_of
from hushrank.experiments.xsc.xsc_scenarios import scenarios

XSC = "Xu–Sun–Cheng, adaptive debiased randomised response"
RDP = "Xu–Sun–Cheng, ε-ranking differential privacy"
CCW = "Cai–Chakraborty–Wang, noisy counts and perturbed likelihood"
NZ = "Nguyen–Zhang"
WHAT_THERE_IS = {  # section: figures, tables, what --only takes
    XSC: (range(1, 15), range(1, 12), {*scenarios(quick=False), APPLICATION}),
    RDP: (range(1, 9), range(0), set(FIGURES)),
    CCW: (range(1, 9), range(0), set("12345678")),
    NZ: (range(1, 4), range(0), {"1", "2", "3", "p0"}),
}


def section(page: str, title: str) -> str:
    """The text below a heading of the second level."""
    return page.split(f"\n## {title}\n")[1].split("\n## ")[0]


def numbers(first_cells: list[str], word: str) -> set[int]:
    """Numbers that follow "Figure" or "Table": one, several, or a range."""
    found: set[int] = set()
    for cell in first_cells:
        for text in re.findall(rf"{word}s? ([\d, ]+(?:to \d+)?)", cell):
            if "to" in text:
                low, high = map(int, text.split("to"))
                found |= set(range(low, high + 1))
            else:
                found |= set(map(int, re.findall(r"\d+", text)))
    return found


@pytest.mark.parametrize("title", WHAT_THERE_IS)
def test_every_table_and_figure_has_a_row(checkout: Path, title: str) -> None:
    text = section((checkout / "docs" / "reproduction.md").read_text(), title)
    cells = re.findall(r"^\| ([^|]+) \|", text, flags=re.MULTILINE)
    figures, tables, _ = WHAT_THERE_IS[title]
    assert numbers(cells, "Figure") == set(figures)
    assert numbers(cells, "Table") == set(tables)


@pytest.mark.parametrize("title", WHAT_THERE_IS)
def test_every_command_names_an_experiment(checkout: Path, title: str) -> None:
    text = section((checkout / "docs" / "reproduction.md").read_text(), title)
    named = {name for only in re.findall(r"--only ([\w.,-]+)", text) for name in only.split(",")}
    known = WHAT_THERE_IS[title][2]
    assert named <= known
    assert len(named) >= len(known) - 1


def unmarked(text: str) -> list[str]:
    """Rows of results that name neither a command, nor that there is nothing to measure."""
    found = []
    for head, rows in re.findall(r"^(\|.*)\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE):
        columns = [cell.strip() for cell in head.strip("|").split("|")]
        place = next((k for k, name in enumerate(columns) if name.startswith("command")), None)
        if place is None:
            continue
        for row in rows.splitlines():
            cell = row.strip("|").split("|")[place].strip()
            if not re.match(r"`(hushrank reproduce|--only) |none$|the same\b", cell):
                found.append(row)
    return found


@pytest.mark.parametrize("title", WHAT_THERE_IS)
def test_every_row_of_results_names_where_it_comes_from(checkout: Path, title: str) -> None:
    """And a new row that does not is found."""
    text = section((checkout / "docs" / "reproduction.md").read_text(), title) + "\n"
    assert unmarked(text) == []
    place = text.index("\n| Figure") + 1
    added = "| Figure 99 | some time | 0.1 | 0.1 | agrees |\n"
    assert unmarked(text[:place] + added + text[place:]) == [added.strip()]


SOURCE = r"`[^`]*(?:\.py|--only|hushrank|\.csv|\.md|\.parquet)[^`]*`"  # a file or a command


def unmarked_prose(text: str) -> list[str]:
    """Paragraphs with a decimal fraction that name no file and no command where it comes from."""
    paragraphs = [each.strip() for each in re.split(r"\n\s*\n", text)]
    return [
        each
        for each in paragraphs
        if not each.startswith(("|", "#")) and re.search(r"\d\.\d", each)
        if not re.search(SOURCE, each)
    ]


def test_every_number_between_the_tables_names_where_it_comes_from(checkout: Path) -> None:
    """And a paragraph that does not is found. Errata have a test of their own."""
    page = (checkout / "docs" / "reproduction.md").read_text().split("\n## Errata of the papers")[0]
    assert unmarked_prose(page) == []
    added = "By our count it is 0.5 there."
    assert unmarked_prose(f"{page}\n\n{added}\n\n") == [added]


def test_every_cell_of_the_tables_stands_beside_the_printed_number(checkout: Path) -> None:
    """Tables 3 to 11 of [XSC]: ours and its standard error, theirs, and the ratio of the two."""
    text = section((checkout / "docs" / "reproduction.md").read_text(), XSC)
    for table in TABLES:
        (block,) = re.findall(rf"^\*\*Table {table.number}\*\* .*?(?=^$\n^[^|])", text, re.M | re.S)
        heading, _, head, _, *lines = block.splitlines()
        columns = [cell.strip() for cell in head.split("|")[2:-1]]
        shown = {
            (cells[0].strip(), column): cell.strip()
            for line in lines
            for cells in [line.strip("|").split("|")]
            for column, cell in zip(columns, cells[1:], strict=True)
        }
        printed = [cell for cell in PRINTED if cell.table == table.number]
        assert (NOT_AT_HAND in heading) == (not printed)
        assert all(re.match(r"\d\.\d{4} \(\d\.\d{4}\)", cell) for cell in shown.values())
        for cell in printed:
            people = "" if cell.setting.L is None else f"L = {cell.setting.L}"
            numbers = shown.pop((series_of((cell.setting, cell.method, cell.metric)), people))
            ours, theirs, ratio = numbers.split("; ")
            assert theirs == f"{cell.mean:.4f}"
            rounding = 0.005 + 0.00005 / cell.mean
            assert abs(float(ours.split()[0]) / cell.mean - float(ratio)) < rounding
        if printed:
            assert all(cell.endswith("; none") for cell in shown.values())


def test_the_printed_errors_on_the_cars_stand_on_the_page(checkout: Path) -> None:
    """Table 2 of [XSC]: without the file there is nothing of ours to put beside them."""
    text = section((checkout / "docs" / "reproduction.md").read_text(), XSC)
    head, *lines = re.findall(
        r"^\| (?:link|logistic|probit) \| (.*0\.0\d.*|`debiased-rr`.*) \|$", text, re.M
    )
    methods = re.findall(r"`([\w-]+)`", head)
    cells = [cell for cell in PRINTED if cell.table == 2]
    for link, line in zip(("logistic", "probit"), lines[:2], strict=True):
        shown = dict(zip(methods, line.split(" | "), strict=True))
        of = {c.method: f"{c.mean:.4f} ({c.se:.4f})" for c in cells if c.setting.link == link}
        assert shown == of


def test_numbers_are_read_from_lists_and_ranges() -> None:
    cells = ["Figures 1, 2", "Figure 4, Table 5, consistency", "Tables 6 to 11"]
    assert numbers(cells, "Figure") == {1, 2, 4}
    assert numbers(cells, "Table") == {5, *range(6, 12)}
