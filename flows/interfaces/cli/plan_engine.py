"""`hushrank plan --engine`: what a night of a job costs on an engine with many workers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from hushrank.flows.errors import ConfigError
from hushrank.flows.interfaces.documents.plans import CostDocument
from hushrank.flows.planning.plan.engine_cost import (
    DISK_GB_A_VCPU,
    GB_A_VCPU,
    PRICED,
    SOURCE,
    EngineCost,
    Where,
    engine_cost,
)
from hushrank.flows.planning.plan.survey import plan_config
from hushrank.flows.terminal import Console

CAVEAT = (
    "Hours are processor time as measured on one machine with nothing in its way. They leave out"
    " that workers start, wait and reach files over a network, and what the engine itself takes: a"
    " real job takes longer. Prices leave out discounts, taxes, and requests to the storage."
)
MACHINES = (
    f"A vCPU is taken with {GB_A_VCPU} GB of memory and {DISK_GB_A_VCPU} GB of disk, and what is"
    " written to the shuffle is paid again when it is read."
)


def job_cost(
    survey: Path,
    name: str,
    rows: int,
    files: int | None,
    prices: Sequence[str],
    items: int | None,
) -> EngineCost:
    """Compute the cost from what the command line says.

    Raises:
        ConfigError: a word or number is none of those that it may be.
    """
    try:
        engine = Where(name)
    except ValueError:
        raise ConfigError(f"--engine {name}: must be {', '.join(Where)}") from None
    given = dict(_price(text) for text in prices)
    return engine_cost(plan_config(survey, items), engine, rows, files, given)


def _price(text: str) -> tuple[str, float]:
    name, _, number = text.partition("=")
    try:
        return name, float(number)
    except ValueError:
        raise ConfigError(
            f"--price {text}: must be NAME=NUMBER; write for example --price vcpu-hour=0.04"
        ) from None


def show_cost(console: Console, cost: EngineCost) -> None:
    """Print the cost and what it assumes."""
    kind = "Parquet or ORC" if cost.columnar else "text"
    console.print(f"A night of {cost.rows:,} rows in {cost.files:,} files ({kind}), {cost.engine}:")
    table = Table()
    table.add_column("what")
    table.add_column("amount", justify="right")
    table.add_column("price", justify="right")
    table.add_row("workers", f"{cost.hours:.2f} vCPU hours", _money(cost.workers_price))
    table.add_row("shuffle", f"{cost.shuffle / 1e9:.1f} GB", _money(cost.shuffle_price))
    table.add_row("both", "", _money(cost.price))
    console.print(table)
    parts = "rows need not meet the others of their person"
    if cost.partitions > 1:
        parts = f"{cost.partitions:,} partitions, at most {cost.blocks:,} shuffle blocks"
    console.print(f"The job is cut so: {parts}.")
    console.print(_prices(cost))
    console.print(CAVEAT)
    console.print("No answer was read; nothing was spent.")


def _prices(cost: EngineCost) -> str:
    if cost.price is None:
        return (
            f"{cost.engine} runs on machines of your own, which have no list price; give theirs:"
            " --price vcpu-hour=NUMBER."
        )
    if cost.engine is Where.DATAFLOW:
        return f"Prices that you do not give are {PRICED} ({SOURCE}). {MACHINES}"
    return f"Prices are those that you gave, and 0 for the others. {MACHINES}"


def _money(price: float | None) -> str:
    if price is None:
        return "-"
    return f"{price:,.2f}" if price >= 1 else f"{price:.2g}"


def cost_document(cost: EngineCost) -> CostDocument:
    """Build the JSON document of a night's cost."""
    listed = cost.engine is Where.DATAFLOW
    return CostDocument(
        engine=cost.engine.value,
        rows=cost.rows,
        files=cost.files,
        columnar=cost.columnar,
        partitions=cost.partitions,
        shuffle_blocks=cost.blocks,
        vcpu_hours=cost.hours,
        shuffle_bytes=cost.shuffle,
        workers_price=cost.workers_price,
        shuffle_price=cost.shuffle_price,
        price=cost.price,
        prices_of=PRICED if listed else None,
        prices_from=SOURCE if listed else None,
    )
