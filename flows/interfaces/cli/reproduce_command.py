"""`hushrank reproduce`: rerun the experiments of a paper, or those of hushrank itself.

This is the only module of the layer that imports the experiments, which stand beside it.
"""

from __future__ import annotations

from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from hushrank.flows.errors import ConfigError, require
from hushrank.flows.terminal import Console


class Paper(StrEnum):
    """Name of a paper, or of experiments beyond papers."""

    CCW = "ccw"  # Cai, Chakraborty, Wang: ranking from pairwise comparisons
    XSC = "xsc"  # Xu, Sun, Cheng: rank aggregation with private pairwise rankings
    RDP = "rdp"  # Xu, Sun, Cheng: ranking differential privacy
    NZ = "nz"  # Nguyen, Zhang: learning from human response data
    STREAM = "stream"  # not a paper: one budget for a stream of nights, against one budget a night
    BEYOND = "beyond"  # nor this: what hushrank adds to the papers, against what there was


PaperName = Annotated[
    Paper, typer.Argument(help="ccw, xsc, rdp, nz, stream or beyond.", show_choices=False)
]
Only = Annotated[
    str, typer.Option(help="Numbers of the experiments, for example 3,8; all by default.")
]
Replicates = Annotated[
    int | None, typer.Option("--replicates", "--trials", help="Runs of each setting.")
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Use few replicates, which takes minutes instead of hours.")
]
Out = Annotated[Path, typer.Option(help="Folder for results.csv and the figures.")]
DataFiles = Annotated[
    list[Path] | None, typer.Option("--data", help="A file of real answers; may be repeated.")
]


def reproduce(
    paper: PaperName,
    only: Only = "",
    replicates: Replicates = None,
    quick: Quick = False,
    out: Out = Path("reproduced"),
    data: DataFiles = None,
) -> None:
    """Rerun the experiments of a paper, or those beyond papers: results.csv and its figures."""
    require("reproduce", "hushrank reproduce")
    from hushrank.flows.config.section import check_can_be_made, check_can_be_written

    check_can_be_made("--out", out / paper)
    check_can_be_written("--out", out / paper / "results.csv")
    chosen = [name.strip() for name in only.split(",") if name.strip()] or None
    experiments = import_module(f"hushrank.experiments.{paper}.{paper}")
    try:
        experiments.run(chosen, replicates, quick, out / paper, data or [])
    except ValueError as error:
        raise ConfigError(f"reproduce {paper}: {error}") from None
    Console().print(Text(f"Wrote {out / paper / 'results.csv'} and its figures."), soft_wrap=True)
