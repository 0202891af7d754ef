"""Full rankings of a file, for Figure 8 of [RDP].

References:
    [RDP] Xu, Sun, Cheng. Ranking differential privacy. Section 6.4.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pa_parquet

from hushrank.experiments.rdp.rdp_trial import Codes

SUSHI = (2, 5, 6, 7, 9)  # tuna, salmon roe, tamago, fatty tuna, cucumber roll: the paper's five
N_SUSHI = 10


def read_rankings(path: Path) -> Codes:
    """Read everybody's full ranking of the same items.

    Two forms: Parquet with columns user, item and rank; or the order file of the sushi survey
    (`sushi3a.5000.10.order`): a heading of two numbers, then on every line two numbers and the
    items, best first. Of ten items in an order file the paper's five are kept.

    Returns:
        shape (n, m), item codes 0..m-1, best first.

    Raises:
        ValueError: the file has another form, or a ranking is not one of all items.
    """
    rows = _from_long_form(path) if path.suffix == ".parquet" else _from_order_file(path)
    items = np.unique(rows)
    if rows.shape[1] < 2 or len(items) != rows.shape[1]:
        raise ValueError(f"{path}: every ranking must hold the same items, two or more")
    if (np.sort(rows, axis=1) != items).any():
        raise ValueError(f"{path}: every ranking must hold every item once")
    codes: Codes = np.searchsorted(items, rows).astype(np.int64)
    return codes


def _from_order_file(path: Path) -> Codes:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")[1:]
        rows = np.array([line.split()[2:] for line in lines if line.strip()], np.int64)
    except ValueError:
        raise ValueError(f"{path}: every line after the heading must be numbers alike") from None
    if rows.ndim != 2:
        raise ValueError(f"{path}: no rankings found after the heading")
    if rows.shape[1] != N_SUSHI:
        return rows
    kept = np.isin(rows, SUSHI)
    if (kept.sum(axis=1) != len(SUSHI)).any():
        raise ValueError(f"{path}: every ranking must hold every item once")
    return rows[kept].reshape(len(rows), len(SUSHI))


def _from_long_form(path: Path) -> Codes:
    table = pa_parquet.read_table(path)
    missing = [name for name in ("user", "item", "rank") if name not in table.column_names]
    if missing:
        have = ", ".join(table.column_names)
        raise ValueError(f"{path}: column {missing[0]} not found; it has {have}")
    user, item, rank = (table.column(name).to_numpy() for name in ("user", "item", "rank"))
    _, codes = np.unique(item, return_inverse=True)
    _, people, sizes = np.unique(user, return_inverse=True, return_counts=True)
    if len(np.unique(sizes)) != 1:
        raise ValueError(f"{path}: every user must rank the same number of items")
    return np.asarray(codes[np.lexsort((rank, people))].reshape(len(sizes), -1), np.int64)
