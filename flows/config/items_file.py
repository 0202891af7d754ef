"""Read the public catalogue of items from a file.

    .txt            one name a line, no header; blank lines are skipped
    .csv, .parquet  a column `item` or `name`; other columns are ignored. In CSV an apostrophe
                    before = + - @ is no part of the name (`transforms.common.plain_text`)
    .soc and so on  the alternatives in the header of a PrefLib file; no ballot is read

The names are public, so messages may show them.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hushrank.transforms.common.plain_text import read_cell
from hushrank.transforms.storage import preflib

PREFLIB_ENDINGS = tuple(f".{kind}" for kind in preflib.KINDS)
ENDINGS = (".txt", ".csv", ".parquet", *PREFLIB_ENDINGS)

_COLUMNS = ("item", "name")


def read_item_names(path: Path) -> tuple[str, ...]:
    """Names in the order of the file, without the spaces around them.

    Args:
        path: a local file.

    Raises:
        ValueError: the file cannot be read, has another ending, lacks the column, or has an entry
            that is not a name. The text gives the rule and the fix.
    """
    readers = {".txt": _read_text, ".csv": _read_csv, ".parquet": _read_parquet}
    readers |= dict.fromkeys(PREFLIB_ENDINGS, _read_preflib)
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ValueError(f"{path} must end in {', '.join(ENDINGS)}; rename it")
    try:
        names = reader(path)
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file; relative paths start at the YAML file") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror or 'not a file'})") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text; save it as UTF-8") from None
    except (pa.ArrowException, csv.Error):
        raise ValueError(f"{path} is damaged; write it again") from None
    return tuple(name.strip() for name in names)


def _read_text(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]


def _read_csv(path: Path) -> list[str]:
    with path.open(encoding="utf-8-sig", newline="") as lines:
        rows = csv.reader(lines)
        header = next(rows, [])
        place = header.index(_item_column(path, header))
        cells = [row[place] if len(row) > place else "" for row in rows if row]
        # In a ranking that was published, names that look like formulas have an apostrophe.
        return [read_cell(cell) for cell in cells] if "rank" in header else cells


def _read_parquet(path: Path) -> list[str]:
    column = _item_column(path, pq.read_schema(path).names)
    values = pq.read_table(path, columns=[column])[column]
    if values.null_count:
        raise ValueError(f"{path} has an entry without a name")
    if not (
        pa.types.is_integer(values.type)
        or pa.types.is_string(values.type)
        or pa.types.is_large_string(values.type)
    ):
        raise ValueError(f"{path}: column {column} must hold text or integers, not {values.type}")
    return [str(value) for value in values.to_pylist()]


def _read_preflib(path: Path) -> list[str]:
    with path.open("rb") as stream:
        return list(preflib.read_header(str(path), stream.read(preflib.HEADER_BYTES)).names)


def _item_column(path: Path, columns: list[str]) -> str:
    for wanted in _COLUMNS:
        for column in columns:
            if column.strip().lower() == wanted:
                return column
    raise ValueError(
        f"{path} has no column item or name; add the header line `item`,"
        " or use a .txt file with one name a line"
    )
