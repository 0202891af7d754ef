"""Numbers printed in [XSC], to compare with: Tables 3, 4 and 5.

References:
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings.
"""

from __future__ import annotations

from dataclasses import dataclass

REPLICATES = 200  # behind every mean of the paper


@dataclass(frozen=True, slots=True)
class Printed:
    """One cell of a table: a mean and the standard deviation over replicates, where printed."""

    scenario: str
    link: str
    metric: str
    m: int
    L: int
    mean: float
    sd: float | None


# (scenario, link, metric) -> people -> one (mean, sd) for each of 10, 20 and 30 items
_TABLES: dict[tuple[str, str, str], dict[int, tuple[tuple[float, float | None], ...]]] = {
    ("I", "logistic", "l2"): {
        100: ((0.1104, 0.0301), (0.0796, 0.0128), (0.0653, 0.0086)),
        200: ((0.0770, 0.0193), (0.0551, 0.0091), (0.0455, 0.0058)),
        300: ((0.0633, 0.0164), (0.0450, 0.0074), (0.0373, 0.0048)),
        400: ((0.0552, 0.0135), (0.0393, 0.0066), (0.0324, 0.0042)),
    },
    ("I", "probit", "l2"): {
        100: ((0.0779, 0.0203), (0.0546, 0.0091), (0.0441, 0.0061)),
        200: ((0.0541, 0.0133), (0.0376, 0.0064), (0.0308, 0.0042)),
        300: ((0.0439, 0.0109), (0.0308, 0.0052), (0.0252, 0.0033)),
        400: ((0.0383, 0.0096), (0.0267, 0.0044), (0.0219, 0.0026)),
    },
    ("I", "logistic", "linf"): {
        100: ((0.2158, 0.0738), (0.1736, 0.0375), (0.1548, 0.0329)),
        200: ((0.1506, 0.0466), (0.1204, 0.0266), (0.1064, 0.0186)),
        300: ((0.1226, 0.0363), (0.0995, 0.0212), (0.0869, 0.0161)),
        400: ((0.1052, 0.0294), (0.0864, 0.0201), (0.0755, 0.0144)),
    },
    ("I", "probit", "linf"): {
        100: ((0.1514, 0.0515), (0.1209, 0.0282), (0.1056, 0.0226)),
        200: ((0.1054, 0.0319), (0.0823, 0.0195), (0.0726, 0.0147)),
        300: ((0.0846, 0.0276), (0.0678, 0.0166), (0.0594, 0.0123)),
        400: ((0.0731, 0.0212), (0.0591, 0.0138), (0.0516, 0.0100)),
    },
    ("S.1.2", "logistic", "l2"): {
        100: ((0.0815, 0.0224), (0.0535, 0.0087), (0.0434, 0.0065)),
        200: ((0.0596, 0.0175), (0.0384, 0.0071), (0.0300, 0.0042)),
        300: ((0.0476, 0.0145), (0.0319, 0.0064), (0.0252, 0.0032)),
    },
    ("S.1.2", "logistic", "sigma_error"): {
        100: ((0.1974, 0.1527), (0.0658, 0.0549), (0.0589, 0.0430)),
        200: ((0.1576, 0.0951), (0.0445, 0.0363), (0.0388, 0.0299)),
        300: ((0.1511, 0.0726), (0.0391, 0.0306), (0.0319, 0.0229)),
    },
    ("S.1.3", "auto", "correct_link"): {
        100: ((0.630, None), (0.695, None), (0.795, None)),
        200: ((0.680, None), (0.795, None), (0.845, None)),
        400: ((0.750, None), (0.870, None), (0.930, None)),
        800: ((0.795, None), (0.895, None), (0.940, None)),
    },
}

PRINTED = tuple(
    Printed(scenario, link, metric, m, people, mean, sd)
    for (scenario, link, metric), rows in _TABLES.items()
    for people, cells in rows.items()
    for m, (mean, sd) in zip((10, 20, 30), cells, strict=True)
)
