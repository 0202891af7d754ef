"""Numbers printed in [XSC], to compare with: Tables 2 to 6, 8 and 10.

Of Tables 7, 9 and 11, of Table 10 but its first rows and of three cells of Table 8 no printed
number is at hand.

Tables 3 to 11 of [XSC] by name, cell by cell: ours, the printed number, and their ratio.

References:
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from hushrank.experiments.xsc.xsc_setting import OURS, Setting

REPLICATES = 200  # behind every mean of the paper
MIXED = "mixed-effects"  # the method of Table 3


@dataclass(frozen=True, slots=True)
class Printed:
    """One cell of a table: a mean over replicates, and its standard error."""

    table: int
    setting: Setting
    method: str
    metric: str
    mean: float
    se: float


# (table, scenario, link, scheme or gap, metric) -> people -> for each of 10, 20 and 30 items the
# mean and the standard deviation over replicates (None: a share); None: no number is at hand
_Cell = tuple[float, float | None] | None
_TABLES: dict[tuple[int, str, str, str, str], dict[int, tuple[_Cell, _Cell, _Cell]]] = {
    (5, "I", "logistic", "", "l2"): {
        100: ((0.1104, 0.0301), (0.0796, 0.0128), (0.0653, 0.0086)),
        200: ((0.0770, 0.0193), (0.0551, 0.0091), (0.0455, 0.0058)),
        300: ((0.0633, 0.0164), (0.0450, 0.0074), (0.0373, 0.0048)),
        400: ((0.0552, 0.0135), (0.0393, 0.0066), (0.0324, 0.0042)),
    },
    (5, "I", "probit", "", "l2"): {
        100: ((0.0779, 0.0203), (0.0546, 0.0091), (0.0441, 0.0061)),
        200: ((0.0541, 0.0133), (0.0376, 0.0064), (0.0308, 0.0042)),
        300: ((0.0439, 0.0109), (0.0308, 0.0052), (0.0252, 0.0033)),
        400: ((0.0383, 0.0096), (0.0267, 0.0044), (0.0219, 0.0026)),
    },
    (5, "I", "logistic", "", "linf"): {
        100: ((0.2158, 0.0738), (0.1736, 0.0375), (0.1548, 0.0329)),
        200: ((0.1506, 0.0466), (0.1204, 0.0266), (0.1064, 0.0186)),
        300: ((0.1226, 0.0363), (0.0995, 0.0212), (0.0869, 0.0161)),
        400: ((0.1052, 0.0294), (0.0864, 0.0201), (0.0755, 0.0144)),
    },
    (5, "I", "probit", "", "linf"): {
        100: ((0.1514, 0.0515), (0.1209, 0.0282), (0.1056, 0.0226)),
        200: ((0.1054, 0.0319), (0.0823, 0.0195), (0.0726, 0.0147)),
        300: ((0.0846, 0.0276), (0.0678, 0.0166), (0.0594, 0.0123)),
        400: ((0.0731, 0.0212), (0.0591, 0.0138), (0.0516, 0.0100)),
    },
    (3, "S.1.2", "logistic", "", "l2"): {
        100: ((0.0815, 0.0224), (0.0535, 0.0087), (0.0434, 0.0065)),
        200: ((0.0596, 0.0175), (0.0384, 0.0071), (0.0300, 0.0042)),
        300: ((0.0476, 0.0145), (0.0319, 0.0064), (0.0252, 0.0032)),
    },
    (3, "S.1.2", "logistic", "", "sigma_error"): {
        100: ((0.1974, 0.1527), (0.0658, 0.0549), (0.0589, 0.0430)),
        200: ((0.1576, 0.0951), (0.0445, 0.0363), (0.0388, 0.0299)),
        300: ((0.1511, 0.0726), (0.0391, 0.0306), (0.0319, 0.0229)),
    },
    (4, "S.1.3", "auto", "", "correct_link"): {
        100: ((0.630, None), (0.695, None), (0.795, None)),
        200: ((0.680, None), (0.795, None), (0.845, None)),
        400: ((0.750, None), (0.870, None), (0.930, None)),
        800: ((0.795, None), (0.895, None), (0.940, None)),
    },
    (6, "III", "logistic", "1", "l2"): {
        100: ((0.1028, 0.0246), (0.0843, 0.0157), (0.0726, 0.0093)),
        200: ((0.0801, 0.0179), (0.0656, 0.0109), (0.0589, 0.0075)),
        400: ((0.0670, 0.0142), (0.0551, 0.0089), (0.0488, 0.0063)),
        800: ((0.0546, 0.0133), (0.0450, 0.0067), (0.0414, 0.0051)),
    },
    (6, "III", "logistic", "2", "l2"): {
        100: ((0.1028, 0.0246), (0.0911, 0.0168), (0.0827, 0.0101)),
        200: ((0.0853, 0.0182), (0.0795, 0.0128), (0.0750, 0.0097)),
        400: ((0.0774, 0.0168), (0.0705, 0.0113), (0.0728, 0.0095)),
        800: ((0.0737, 0.0177), (0.0703, 0.0120), (0.0712, 0.0100)),
    },
    (6, "III", "logistic", "3", "l2"): {
        100: ((0.1028, 0.0246), (0.1023, 0.0193), (0.1035, 0.0131)),
        200: ((0.0948, 0.0216), (0.1060, 0.0174), (0.1122, 0.0143)),
        400: ((0.1026, 0.0234), (0.1151, 0.0180), (0.1303, 0.0168)),
        800: ((0.1142, 0.0289), (0.1332, 0.0228), (0.1492, 0.0232)),
    },
    (6, "III", "probit", "1", "l2"): {
        100: ((0.0699, 0.0170), (0.0597, 0.0105), (0.0503, 0.0064)),
        200: ((0.0562, 0.0135), (0.0468, 0.0080), (0.0416, 0.0052)),
        400: ((0.0486, 0.0115), (0.0410, 0.0073), (0.0358, 0.0050)),
        800: ((0.0400, 0.0102), (0.0341, 0.0059), (0.0306, 0.0041)),
    },
    (6, "III", "probit", "2", "l2"): {
        100: ((0.0699, 0.0170), (0.0663, 0.0116), (0.0595, 0.0073)),
        200: ((0.0612, 0.0152), (0.0604, 0.0101), (0.0555, 0.0078)),
        400: ((0.0567, 0.0128), (0.0531, 0.0097), (0.0555, 0.0076)),
        800: ((0.0573, 0.0150), (0.0556, 0.0093), (0.0549, 0.0072)),
    },
    (6, "III", "probit", "3", "l2"): {
        100: ((0.0699, 0.0170), (0.0760, 0.0139), (0.0785, 0.0115)),
        200: ((0.0685, 0.0169), (0.0814, 0.0144), (0.0840, 0.0114)),
        400: ((0.0770, 0.0196), (0.0880, 0.0136), (0.1014, 0.0150)),
        800: ((0.0906, 0.0228), (0.1037, 0.0205), (0.1186, 0.0192)),
    },
    (8, "IV", "logistic", "0.05", "kendall"): {
        100: (None, (0.0575, 0.0178), (0.0312, 0.0081)),
        200: ((0.1144, 0.0484), (0.0357, 0.0128), (0.0184, 0.0056)),
        300: ((0.0896, 0.0395), (0.0257, 0.0101), (0.0130, 0.0048)),
    },
    (8, "IV", "logistic", "0.1", "kendall"): {
        100: (None, (0.0229, 0.0099), (0.0122, 0.0047)),
        200: ((0.0416, 0.0267), (0.0111, 0.0070), (0.0051, 0.0027)),
        300: ((0.0287, 0.0240), (0.0059, 0.0048), (0.0027, 0.0024)),
    },
    (8, "IV", "logistic", "0.15", "kendall"): {
        100: (None, (0.0120, 0.0077), (0.0062, 0.0035)),
        200: ((0.0167, 0.0175), (0.0041, 0.0048), (0.0022, 0.0021)),
        300: ((0.0106, 0.0154), (0.0018, 0.0030), (0.0008, 0.0014)),
    },
    (8, "IV", "probit", "0.05", "kendall"): {
        100: ((0.0987, 0.0458), (0.0313, 0.0126), (0.0162, 0.0053)),
        200: ((0.0582, 0.0323), (0.0159, 0.0085), (0.0077, 0.0032)),
        300: ((0.0429, 0.0280), (0.0099, 0.0063), (0.0042, 0.0029)),
    },
    (8, "IV", "probit", "0.1", "kendall"): {
        100: ((0.0323, 0.0236), (0.0098, 0.0067), (0.0055, 0.0035)),
        200: ((0.0128, 0.0153), (0.0029, 0.0042), (0.0020, 0.0020)),
        300: ((0.0081, 0.0136), (0.0011, 0.0024), (0.0007, 0.0013)),
    },
    (8, "IV", "probit", "0.15", "kendall"): {
        100: ((0.0148, 0.0156), (0.0048, 0.0049), (0.0038, 0.0029)),
        200: ((0.0028, 0.0074), (0.0010, 0.0025), (0.0010, 0.0014)),
        300: ((0.0014, 0.0055), (0.0003, 0.0013), (0.0003, 0.0008)),
    },
}
# table, scenario, link, method, metric, mean and its standard error, as printed
_METHODS = (
    (10, "V", "logistic", "debiased-rr", "l2", 0.0882, 0.0019),
    (10, "V", "logistic", "noisy-objective", "l2", 0.1327, 0.0045),
    (10, "V", "logistic", "laplace-rr", "l2", 0.2221, 0.0057),
    (10, "V", "logistic", "classic-rr", "l2", 0.3545, 0.0012),
    (10, "V", "probit", "debiased-rr", "l2", 0.0670, 0.0019),
    (10, "V", "probit", "laplace-rr", "l2", 0.1930, 0.0081),
    (10, "V", "probit", "classic-rr", "l2", 0.3770, 0.0010),
    (2, "application", "logistic", "debiased-rr", "kendall", 0.0757, 0.0030),
    (2, "application", "logistic", "rr-counts", "kendall", 0.0859, 0.0037),
    (2, "application", "logistic", "classic-rr", "kendall", 0.0841, 0.0036),
    (2, "application", "logistic", "laplace-rr", "kendall", 0.1198, 0.0046),
    (2, "application", "probit", "debiased-rr", "kendall", 0.0767, 0.0031),
    (2, "application", "probit", "rr-counts", "kendall", 0.0859, 0.0037),
    (2, "application", "probit", "classic-rr", "kendall", 0.0844, 0.0036),
    (2, "application", "probit", "laplace-rr", "kendall", 0.1193, 0.0046),
)


def _cells() -> tuple[Printed, ...]:
    found = []
    for (table, scenario, link, series, metric), rows in _TABLES.items():
        scheme = series if scenario == "III" else ""
        delta = float(series) if scenario == "IV" else None
        for people, cells in rows.items():
            for m, cell in zip((10, 20, 30), cells, strict=True):
                if cell is None:
                    continue
                mean, sd = cell
                sd = math.sqrt(mean * (1 - mean)) if sd is None else sd
                setting = Setting(scenario, link, m, people, scheme, delta)
                method = MIXED if table == 3 else OURS
                se = sd / math.sqrt(REPLICATES)
                found.append(Printed(table, setting, method, metric, mean, se))
    for table, scenario, link, method, metric, mean, se in _METHODS:
        size = (10, 60) if scenario == "application" else (None, None)
        found.append(Printed(table, Setting(scenario, link, *size), method, metric, mean, se))
    return tuple(sorted(found, key=lambda cell: cell.table))


PRINTED = _cells()


NOT_AT_HAND = "no printed number at hand"


@dataclass(frozen=True, slots=True)
class Table:
    """What one table of the paper shows."""

    number: int
    scenario: str
    metrics: tuple[str, ...]
    what: str


TABLES = (
    Table(3, "S.1.2", ("l2", "sigma_error"), "person effects"),
    Table(4, "S.1.3", ("correct_link",), "share of correct links"),
    Table(5, "I", ("l2", "linf"), "Scenario I"),
    Table(6, "III", ("l2",), "Scenario III, ℓ2"),
    Table(7, "III", ("linf",), "Scenario III, ℓ∞"),
    Table(8, "IV", ("kendall",), "Scenario IV, full ranking error"),
    Table(9, "IV", ("topk",), "Scenario IV, top-K error"),
    Table(10, "V", ("l2", "linf"), "Scenario V, errors of scores"),
    Table(11, "V", ("kendall", "topk"), "Scenario V, errors of ranks"),
)
NAMES = {
    "l2": "ℓ2",
    "linf": "ℓ∞",
    "sigma_error": "σ",
    "correct_link": "links",
    "kendall": "full ranking",
    "topk": "top K",
}

Cell = tuple[Setting, str, str]  # a setting, a method, a metric
Means = Mapping[Cell, tuple[float, float]]  # mean and standard error


def markdown_tables(ours: Means) -> str:
    """A table for each that has numbers: a line a series, a column a number of people."""
    theirs = {(cell.setting, cell.method, cell.metric): cell for cell in PRINTED}
    parts = []
    for table in TABLES:
        cells = [
            cell
            for metric in table.metrics
            for cell in ours
            if cell[0].scenario == table.scenario and cell[2] == metric
        ]
        if cells:
            parts.append("\n".join(_lines(table, cells, ours, theirs)))
    return "\n\n".join(parts) + "\n"


def _lines(
    table: Table, cells: Sequence[Cell], ours: Means, theirs: Mapping[Cell, Printed]
) -> Iterator[str]:
    printed = any(cell in theirs for cell in cells)
    said = "ours (SE); theirs; ratio" if printed else f"ours (SE); {NOT_AT_HAND}"
    yield f"**Table {table.number}** ({table.what}): {said}"
    yield ""
    people = list(dict.fromkeys(cell[0].L for cell in cells))
    heads = ["" if each is None else f"L = {each}" for each in people]
    yield f"| {' | '.join(['series', *heads])} |"
    yield "|" + "---|" * (1 + len(heads))
    for name, row in groupby(cells, key=series_of):
        texts = (_text(ours[cell], theirs.get(cell), printed=printed) for cell in row)
        yield f"| {' | '.join([name, *texts])} |"


def series_of(cell: Cell) -> str:
    """What a line is of."""
    setting, method, metric = cell
    parts = [setting.link if setting.link != "auto" else "", NAMES[metric]]
    parts += [f"scheme {setting.scheme}"] if setting.scheme else []
    parts += [f"gap {setting.delta:g}"] if setting.delta is not None else []
    parts += [f"m = {setting.m}"] if setting.m is not None else [f"`{method}`"]
    return ", ".join(part for part in parts if part)


def _text(ours: tuple[float, float], theirs: Printed | None, *, printed: bool) -> str:
    mean, se = ours
    text = f"{mean:.4f} ({se:.4f})"
    if theirs is not None:
        return f"{text}; {theirs.mean:.4f}; {mean / theirs.mean:.2f}"
    return f"{text}; none" if printed else text
