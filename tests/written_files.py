"""The same rows in every format that hushrank reads."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import fastavro
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather
import pyarrow.ipc
import pyarrow.orc
import pyarrow.parquet as pq
import pyreadstat

Write = Callable[[pa.Table, Path], Any]
_AVRO = {"int64": "long", "string": "string", "double": "double", "binary": "bytes"}


def avro_schema(table: pa.Table) -> dict[str, Any]:
    """A record of nullable fields."""
    fields = [
        {"name": field.name, "type": ["null", _AVRO[str(field.type)]]} for field in table.schema
    ]
    return {"type": "record", "name": "row", "fields": fields}


def write_avro(table: pa.Table, path: Path, codec: str = "deflate") -> None:
    with path.open("wb") as stream:
        fastavro.writer(stream, avro_schema(table), table.to_pylist(), codec=codec)


def write_stream(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=100)


def csv_bytes(table: pa.Table, delimiter: str = ",") -> bytes:
    sink = pa.BufferOutputStream()
    pacsv.write_csv(table, sink, pacsv.WriteOptions(delimiter=delimiter, quoting_style="none"))
    names = delimiter.join(table.schema.names)
    return (names + "\n").encode() + sink.getvalue().to_pybytes().split(b"\n", 1)[1]


def jsonl_bytes(table: pa.Table) -> bytes:
    import json

    return b"".join(json.dumps(row).encode() + b"\n" for row in table.to_pylist())


def zstd(content: bytes) -> bytes:
    return pa.compress(content, codec="zstd", asbytes=True)  # type: ignore[no-any-return]


_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_LINKS = "http://schemas.openxmlformats.org/package/2006/relationships"


def _cell(value: object) -> str:
    """A cell as Excel stores it: numbers and truth values by type, text inline, errors as such."""
    if value is None:
        return "<c/>"
    if isinstance(value, bool):
        return f'<c t="b"><v>{int(value)}</v></c>'
    if isinstance(value, int | float):
        return f"<c><v>{value}</v></c>"
    if value == "#N/A":
        return '<c t="e"><v>#N/A</v></c>'
    return f'<c t="inlineStr"><is><t>{escape(str(value))}</t></is></c>'


def write_workbook(sheets: dict[str, Sequence[Sequence[object]]], path: Path) -> None:
    """A workbook of Excel with these sheets; one whose name starts with `_` is hidden."""
    names = "".join(
        f'<sheet name="{name}" sheetId="{i}" r:id="rId{i}"'
        + (' state="hidden"/>' if name.startswith("_") else "/>")
        for i, name in enumerate(sheets, 1)
    )
    links = "".join(
        f'<Relationship Id="rId{i}" Type="{_OFFICE}/worksheet" Target="worksheets/sheet{i}.xml"/>'
        for i in range(1, len(sheets) + 1)
    )
    start = f'<Relationship Id="r" Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/>'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as book:
        book.writestr("_rels/.rels", f'<Relationships xmlns="{_LINKS}">{start}</Relationships>')
        book.writestr(
            "xl/_rels/workbook.xml.rels", f'<Relationships xmlns="{_LINKS}">{links}</Relationships>'
        )
        book.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>{names}</sheets></workbook>',
        )
        for i, rows in enumerate(sheets.values(), 1):
            lines = "".join(f"<row>{''.join(map(_cell, row))}</row>" for row in rows)
            text = f'<worksheet xmlns="{_MAIN}"><sheetData>{lines}</sheetData></worksheet>'
            book.writestr(f"xl/worksheets/sheet{i}.xml", text)


def write_excel(table: pa.Table, path: Path) -> None:
    rows = [[*row.values()] for row in table.to_pylist()]
    write_workbook({"answers": [table.schema.names, *rows]}, path)


WRITERS: dict[str, Write] = {
    "rows.parquet": pq.write_table,
    "rows.avro": write_avro,
    "rows.orc": lambda table, path: pyarrow.orc.write_table(table, str(path)),
    "rows.feather": lambda table, path: pyarrow.feather.write_feather(table, str(path)),
    "rows.arrow": write_stream,
    "rows.xlsx": write_excel,
    "rows.sav": lambda table, path: pyreadstat.write_sav(table.to_pandas(), path),
    "rows.csv": lambda table, path: path.write_bytes(csv_bytes(table)),
    "rows.csv.gz": lambda table, path: path.write_bytes(gzip.compress(csv_bytes(table))),
    "rows.csv.zst": lambda table, path: path.write_bytes(zstd(csv_bytes(table))),
    "rows.jsonl": lambda table, path: path.write_bytes(jsonl_bytes(table)),
    "rows.jsonl.gz": lambda table, path: path.write_bytes(gzip.compress(jsonl_bytes(table))),
    "rows.jsonl.zst": lambda table, path: path.write_bytes(zstd(jsonl_bytes(table))),
}
BINARY = ("rows.avro", "rows.orc", "rows.feather", "rows.arrow")
OF_PROGRAMS = ("rows.xlsx", "rows.sav")  # their texts are UTF-8, or the whole file is refused
