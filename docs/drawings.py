"""Draw the figures of `docs/images` that are no screenshots: `python docs/drawings.py`.

They are committed. The figure of epsilon holds numbers: surveys are simulated from a seed and
ranked by the estimator of `noisy-counts`, under noise that is calibrated as a run calibrates it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np

from hushrank.estimation.common.matrices import WinCounts
from hushrank.estimation.comparisons.noisy_counts import rank_by_win_counts
from hushrank.privacy.noise import laplace_law
from hushrank.privacy.sensitivity import win_counts_sensitivity
from hushrank.privacy.units import Adjacency, PrivacyParams, Unit

FOLDER = Path(__file__).with_name("images")
STYLE = """
svg { color-scheme: light dark }
.ground { fill: #ffffff } .text { fill: #1b1f24 } .quiet { fill: #57606a }
.box { fill: #e0f2f1; stroke: #00796b } .ask { fill: #fff8e1; stroke: #b26a00 }
.secret { fill: #fdecea; stroke: #b3261e } .line { stroke: #57606a; fill: none }
.grid { stroke: #d0d7de } .a { stroke: #00796b } .b { stroke: #b26a00 } .c { stroke: #6f42c1 }
.curve { fill: none; stroke-width: 2.5 }
@media (prefers-color-scheme: dark) {
  .ground { fill: #1e2129 } .text { fill: #e6e9ef } .quiet { fill: #a9b1bd }
  .box { fill: #12403b; stroke: #4db6ac } .ask { fill: #4a3a12; stroke: #ffb74d }
  .secret { fill: #4b2320; stroke: #ef9a9a } .line { stroke: #a9b1bd } .grid { stroke: #3a404d }
  .a { stroke: #4db6ac } .b { stroke: #ffb74d } .c { stroke: #b39ddb }
}
text { font: 14px system-ui, sans-serif } .small { font-size: 12px } .strong { font-weight: 600 }
"""
ITEMS, SURVEYS, SPREAD = 6, 40, 1.0
PEOPLE = {300: "a", 1_000: "b", 10_000: "c"}
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)


class Drawing:
    """An SVG file in the making, with a title and a description for those who cannot see it."""

    def __init__(self, width: int, height: int, title: str, description: str) -> None:
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
            f' width="{width}" height="{height}" role="img" aria-labelledby="title description">',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="description">{escape(description)}</desc>',
            f"<style>{STYLE}</style>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8"'
            ' markerHeight="8" orient="auto"><path class="quiet" d="M0 0L8 4L0 8z"/></marker>'
            "</defs>",
            f'<rect class="ground" width="{width}" height="{height}" rx="6"/>',
        ]

    def words(
        self, x: float, y: float, text: str, kind: str = "text", anchor: str = "middle"
    ) -> None:
        """Write one line of text."""
        self.parts.append(
            f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'
        )

    def box(
        self, x: float, y: float, width: float, lines: Sequence[str], kind: str = "box"
    ) -> None:
        """Draw a box around lines of text; the first one is strong. `x`, `y`: middle of its top."""
        height = 18 * len(lines) + 14
        self.parts.append(
            f'<rect class="{kind}" x="{x - width / 2:g}" y="{y:g}" width="{width:g}"'
            f' height="{height}" rx="6"/>'
        )
        for number, text in enumerate(lines):
            self.words(
                x, y + 21 + 18 * number, text, "text strong" if number == 0 else "text small"
            )

    def arrow(self, *points: tuple[float, float], label: str = "") -> None:
        """Draw an arrow through points, with a label beside its last part."""
        path = "L".join(f"{x:g} {y:g}" for x, y in points)
        self.parts.append(f'<path class="line" d="M{path}" marker-end="url(#tip)"/>')
        if label:
            (x0, y0), (x1, y1) = points[-2:]
            self.words((x0 + x1) / 2 + 6, (y0 + y1) / 2 + 4, label, "quiet small", "start")

    def save(self, name: str) -> None:
        """Write the file into `docs/images`."""
        text = "\n".join([*self.parts, "</svg>"])
        (FOLDER / f"{name}.svg").write_text(f"{text}\n", encoding="utf-8")


def draw_choice() -> None:
    """Draw the questions that lead to a unit and a method."""
    drawing = Drawing(
        920, 500, "Which unit and which method",
        "First: may you hold true answers? If not, unit local. If so: does a column say whose"
        " answer it is? If so, unit user, else unit comparison. Then by the kind of answers:"
        " comparisons take auto, by the design balanced, random or any; rankings take borda, kemeny"
        " or bradley-terry; test answers take spectral.",
    )  # fmt: skip
    drawing.box(460, 16, 300, ["May you hold true answers?"], "ask")
    drawing.box(
        180, 100, 260, ["unit: local", "answers are privatised before", "anybody sees them"]
    )
    drawing.box(640, 100, 330, ["Does a column say whose answer it is?"], "ask")
    drawing.arrow((330, 48), (180, 70), (180, 98), label="no")
    drawing.arrow((590, 48), (640, 70), (640, 98), label="yes")
    drawing.box(500, 182, 230, ["unit: comparison", "protects one answer"])
    drawing.box(780, 182, 230, ["unit: user", "protects a person, all answers"])
    drawing.arrow((560, 132), (500, 156), (500, 180), label="no")
    drawing.arrow((720, 132), (780, 156), (780, 180), label="yes")
    drawing.box(460, 268, 300, ["What does a row say?"], "ask")
    drawing.arrow((180, 168), (180, 284), (308, 284))
    drawing.arrow((500, 232), (500, 266))
    drawing.arrow((780, 232), (780, 284), (612, 284))
    kinds = (
        (170, "A is preferred to B", ["comparisons: auto", "design: balanced, random or any",
                                     "local: debiased-rr"]),
        (460, "A before C before B", ["rankings: borda, kemeny", "bradley-terry; footrule for user",
                                     "local: the same, private rankings"]),
        (750, "question 7 was solved", ["test answers: spectral", "difficulties of the items",
                                       "local: spectral-rr"]),
    )  # fmt: skip
    for x, says, lines in kinds:
        drawing.arrow((460, 300), (460, 322), (x, 322), (x, 352))
        drawing.words(x, 372, says, "quiet")
        drawing.box(x, 384, 270, lines)
    drawing.words(460, 485, "hushrank plan compares the methods on simulated surveys like yours",
                  "quiet small")  # fmt: skip
    drawing.save("choosing")


def told_apart(people: int, epsilon: float) -> float:
    """Share of pairs of items that are reliably ordered, on average over simulated surveys."""
    rng = np.random.default_rng(people)
    pairs = list(combinations(range(ITEMS), 2))
    left, right = np.array(pairs).T
    params = PrivacyParams(
        unit=Unit.USER, adjacency=Adjacency.REPLACE_ONE, epsilon=epsilon,
        max_contributions=len(pairs), distinct_pairs=True,
    )  # fmt: skip
    law = laplace_law(win_counts_sensitivity(params, ITEMS), epsilon)
    ratio = np.exp(-1 / float(law.scale))
    found = []
    for _ in range(SURVEYS):
        scores = rng.normal(scale=SPREAD, size=ITEMS)
        won = rng.binomial(people, 1 / (1 + np.exp(scores[right] - scores[left])))
        wins = np.bincount(left, won, ITEMS) + np.bincount(right, people - won, ITEMS)
        noise = rng.geometric(1 - ratio, ITEMS) - rng.geometric(1 - ratio, ITEMS)
        noisy = WinCounts((wins + noise).astype(np.int64), confidential=False)
        estimate = rank_by_win_counts(noisy, law)
        better = estimate.at_once.better if estimate.at_once else None
        found.append(0 if better is None or not estimate.informative else better.sum())
    return float(np.mean(found)) / len(pairs)


def draw_epsilon() -> None:
    """Draw how many pairs of items each epsilon lets one tell apart."""
    shares = {people: [told_apart(people, each) for each in EPSILONS] for people in PEOPLE}
    spoken = "; ".join(
        f"{people:,} people: "
        + ", ".join(f"{share:.0%} at {each:g}" for each, share in zip(EPSILONS, row, strict=True))
        for people, row in shares.items()
    )
    drawing = Drawing(
        720, 400, "What can be told apart at each epsilon",
        f"Share of pairs of six items that are reliably ordered. {spoken}.",
    )  # fmt: skip
    left, right, top, bottom = 80, 560, 50, 330
    at = {each: left + (right - left) * i / (len(EPSILONS) - 1) for i, each in enumerate(EPSILONS)}
    drawing.words(left, 28, "Pairs of six items that are reliably ordered", "text strong", "start")
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = bottom - (bottom - top) * share
        drawing.parts.append(f'<path class="grid" d="M{left} {y:g}H{right}"/>')
        drawing.words(left - 10, y + 5, f"{share:.0%}", "quiet small", "end")
    for each, x in at.items():
        drawing.words(x, bottom + 22, f"{each:g}", "quiet small")
    drawing.words((left + right) / 2, bottom + 48, "epsilon of a person with all answers", "quiet")
    for people, row in shares.items():
        points = [
            (x, bottom - (bottom - top) * share) for x, share in zip(at.values(), row, strict=True)
        ]
        path = "L".join(f"{x:g} {y:.1f}" for x, y in points)
        drawing.parts.append(f'<path class="curve {PEOPLE[people]}" d="M{path}"/>')
        drawing.words(right + 10, points[-1][1] + 5, f"{people:,} people", "text small", "start")
    drawing.save("epsilon")


def draw_night() -> None:
    """Draw the way of a night's answers from the log to the board."""
    drawing = Drawing(
        920, 250, "A night, from log to board",
        "Exact part, in the confidential area: the log of the day; at most L answers of each person"
        " are kept; wins are counted. The ledger reserves the cost before a row is read and marks"
        " the draw. Then noise is added once. Public part: scores and intervals from the noisy"
        " counts; report, ranking and certificate; the board, and what changed since last night.",
    )  # fmt: skip
    y, boxes = 70, (
        (95, "log of the day", "files or a table", "secret"),
        (265, "bound", "L answers a person", "secret"),
        (435, "count", "exact wins", "secret"),
        (605, "estimate", "scores, intervals", "box"),
        (775, "publish", "page and certificate", "box"),
    )  # fmt: skip
    drawing.words(265, 40, "confidential", "quiet")
    drawing.words(690, 40, "public", "quiet")
    for x, name, what, kind in boxes:
        drawing.box(x, y, 140, [name, what], kind)
    for one, other in pairwise(boxes):
        drawing.arrow((one[0] + 70, y + 25), (other[0] - 70, y + 25))
    drawing.parts.append('<path class="line" stroke-dasharray="5 4" d="M520 30V215"/>')
    drawing.words(520, 234, "noise, drawn once", "text strong")
    drawing.box(265, 160, 300, ["ledger", "reserves the cost before a row is read"], "ask")
    drawing.box(775, 160, 220, ["board", "and what changed since last night"])
    drawing.arrow((415, 185), (516, 185))
    drawing.arrow((775, 120), (775, 158))
    drawing.save("night")


def draw_map() -> None:
    """Draw the layers of the code and the boundary between exact and noisy numbers."""
    drawing = Drawing(
        920, 400, "The layers of the code",
        "From top to bottom, each importing only from those below: interfaces (command, Python,"
        " Prefect) and wings (report, certificate, planning, audit, collecting, watching); methods,"
        " one folder a family; the kernel (configuration, ledger, release and run); pipelines;"
        " transforms; estimation; privacy. Beside them stands the verifier, which imports nothing.",
    )  # fmt: skip
    rows = (
        (["flows: interfaces", "command line, Python, Prefect, documents"],
         ["flows: wings", "report, certificate, planning, audit, collecting, watching"]),
        (["flows: methods", "what a method reads, draws and concludes"],),
        (["flows: kernel", "configuration, ledger, statement, release, run"],),
        (["pipelines", "a graph for each kind of job"],
         ["transforms", "what a row becomes; storage; tables"]),
        (["estimation", "scores and intervals from noisy counts; pure"],),
        (["privacy", "sensitivities, noise laws, accounting; pure"],),
    )  # fmt: skip
    left, width = 20, 700
    for number, boxes in enumerate(rows):
        y, each = 14 + 62 * number, (width - 12 * (len(boxes) - 1)) / len(boxes)
        for place, lines in enumerate(boxes):
            kind = "secret" if lines[0] in ("pipelines", "transforms") else "box"
            drawing.box(left + each * (place + 0.5) + 12 * place, y, each, lines, kind)
    drawing.arrow((738, 30), (738, 370))
    drawing.words(748, 205, "imports", "quiet small", "start")
    drawing.box(830, 324, 150, ["verifier", "one file; imports", "nothing of ours"], "ask")
    drawing.words(748, 262, "red: exact rows", "quiet small", "start")
    drawing.words(748, 280, "and counts pass here", "quiet small", "start")
    drawing.save("architecture")


if __name__ == "__main__":
    draw_choice()
    draw_epsilon()
    draw_night()
    draw_map()
