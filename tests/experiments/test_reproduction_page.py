"""docs/reproduction.md: a row for every table and figure, and commands that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hushrank.experiments.rdp.rdp import FIGURES
from hushrank.experiments.xsc.xsc import APPLICATION
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


def test_numbers_are_read_from_lists_and_ranges() -> None:
    cells = ["Figures 1, 2", "Figure 4, Table 5, consistency", "Tables 6 to 11"]
    assert numbers(cells, "Figure") == {1, 2, 4}
    assert numbers(cells, "Table") == {5, *range(6, 12)}
