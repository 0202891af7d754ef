"""Files that are not what they should be: the YAML file, the answers, items, ledger, folders."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.flows.bad_inputs.case import (
    CANARY,
    COMPARISONS,
    RUN,
    VALIDATE,
    Case,
    Prepare,
    both,
    changed,
    file,
    job,
    yaml_text,
)

GOOD = yaml_text(COMPARISONS).encode()
ROWS = f"{CANARY},ants,bees,1\n".encode()
BINARY = bytes(range(256)) * 20
DEEP = b"[" * 100_000 + b"]" * 100_000
LAUGHS = b"a0: &a0 [x]\n" + b"".join(
    b"a%d: &a%d [%s]\n" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 10)
)

YAML = {
    "empty": b"",
    "blank": b"\n\n",
    "comment-only": b"# nothing\n",
    "nul": b"\0",
    "binary": BINARY,
    "list": b"- a\n- b\n",
    "text": b"just text\n",
    "number": b"5\n",
    "null": b"~\n",
    "latin-1": GOOD + "# caf\u00e9\n".encode("latin-1"),
    "utf-16": GOOD.decode().encode("utf-16"),
    "utf-32": GOOD.decode().encode("utf-32"),
    "gzip": gzip.compress(GOOD, mtime=0),
    "tab": b"input:\n\tkind: comparisons\n",
    "two-documents": GOOD + b"---\n" + GOOD,
    "same-key-twice": GOOD + b"name: other\n",
    "unclosed-quote": b'name: "zoo\n',
    "unclosed-bracket": b"items: [a, b\n",
    "unclosed-brace": b"items: {names: [a, b]\n",
    "bad-indent": b"input:\n   kind: a\n  paths: b\n",
    "colon-in-text": b"name: a: b\n",
    "deep-flow": b"name: " + DEEP + b"\n",
    "deep-braces": b"name: " + b"{a: " * 3000 + b"1" + b"}" * 3000 + b"\n",
    "deep-blocks": b"".join(b" " * n + b"a:\n" for n in range(200)),
    "deep-dashes": b"name:\n  " + b"- " * 2000 + b"a\n",
    "laughs": LAUGHS,
    "circle": b"name: &a [*a]\n",
    "circle-of-keys": b"name: &a {b: *a}\n",
    "merge": b"<<: {name: a}\n",
    "key-of-list": b"? [a, b]\n: c\n",
    "key-of-section": b"? {a: b}\n: c\n",
    "key-null": b"~: c\n",
    "key-number": b"1: c\n",
    "key-bool": b"true: c\n",
    "key-surrogate": b'"\\ud800": c\n',
    "key-escape": b'"\\e[2J": c\n',
    "key-long": b'? "' + b"k" * 5000 + b'"\n: c\n',
    "anchor-long": b"&" + b"a" * 5000 + b" name: x\n",
    "directive": b"%YAML 9.9\n---\nname: a\n",
    "tag-directive": b"%TAG ! tag:x,2000:\n---\n!foo name: a\n",
    "tag-set": b"!!set {a, b}\n",
    "tag-omap": b"!!omap [a: 1]\n",
    "tag-timestamp": b"name: !!timestamp abc\n",
    "tag-float": b"name: !!float abc\n",
    "tag-bool": b"name: !!bool abc\n",
    "tag-null": b"name: !!null abc\n",
    "tag-binary": b"name: !!binary ???\n",
    "tag-int": b"name: !!int abc\n",
    "tag-pairs": b"name: !!pairs [1]\n",
    "tag-apply": b"name: !!python/object/apply:os.system [ls]\n",
    "raw-escape": b"name: \x1b[31m\n",
    "raw-c1": "name: a\x9b31m\n".encode(),
    "overlong-utf8": b"name: \xc0\xaf\n",
    "cut-utf8": b"name: \xe2\x82\n",
    "surrogate-utf8": b"name: \xed\xa0\x80\n",
    "json": b'{"name": "zoo"}',
    "csv": b"user,left,right\n",
    "shell": b"#!/bin/sh\nexit 0\n",
    "cr-only": GOOD.replace(b"\n", b"\r"),
    "unchosen": GOOD.replace(b"method: noisy-counts", b"method:   # CHOOSE: one"),
}


def yaml_cases() -> Iterator[Case]:
    """The YAML file itself."""
    for name, content in YAML.items():
        if name != "cr-only":  # YAML takes these line ends
            yield Case("yaml", name, file("survey.yaml", content))
    for name in ("empty", "binary", "deep-flow", "utf-16", "key-surrogate", "laughs", "tag-int"):
        for words in (VALIDATE, ("ledger", "show", "survey.yaml"), ("catch-up", "survey.yaml")):
            yield Case(
                "yaml-elsewhere", f"{words[0]}-{name}", file("survey.yaml", YAML[name]), words
            )
    yield Case("yaml", "absent", lambda folder: (folder / "survey.yaml").unlink())
    yield Case("yaml", "folder", _folder("survey.yaml"))
    yield Case("yaml", "endless", _link("survey.yaml", "survey.yaml"))
    yield Case("yaml", "zeros", _link("survey.yaml", "/dev/zero"))
    yield Case("yaml", "of-the-answers", file("unused", b""), ("run", "answers.csv", "--direct"))
    yield Case("yaml", "name-too-long", file("unused", b""), ("run", "y" * 300, "--direct"))


def _folder(name: str) -> Prepare:
    def prepare(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).mkdir()

    return prepare


def _link(name: str, target: str) -> Prepare:
    def prepare(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)

    return prepare


def _parquet(**columns: pa.Array) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream)
    return stream.getvalue()


_TABLE = _parquet(
    user=pa.array([CANARY]), left=pa.array(["ants"]), right=pa.array(["bees"]), outcome=[1]
)
ANSWERS: dict[str, tuple[str, bytes]] = {
    "csv-empty": ("a.csv", b""),
    "csv-binary": ("a.csv", BINARY),
    "csv-nul-header": ("a.csv", b"us\0er,left,right,outcome\n" + ROWS),
    "csv-latin-1-header": ("a.csv", "us\u00e9r,left\n".encode("latin-1") + ROWS),
    "csv-utf-16": ("a.csv", ("user,left,right,outcome\n" + ROWS.decode()).encode("utf-16")),
    "csv-gzip": ("a.csv", gzip.compress(b"user,left,right,outcome\n" + ROWS, mtime=0)),
    "csv-no-header": ("a.csv", b"\n" + ROWS),
    "csv-semicolons": ("a.csv", b"user;left;right;outcome\n" + ROWS.replace(b",", b";")),
    "csv-column-twice": ("a.csv", b"user,left,left,outcome\n" + ROWS),
    "csv-column-escape": ("a.csv", b"u\x1b[31m,left,right,outcome\n" + ROWS),
    "csv-column-gone": ("a.csv", b"user,left,outcome\n" + ROWS),
    "csv-quote-open": ("a.csv", b'"user,left,right,outcome\n' + ROWS),
    "csv-header-of-2-mb": ("a.csv", b"x" * (2 << 20) + b"\n" + ROWS),
    "csv-many-columns": ("a.csv", b",".join(b"c%d" % n for n in range(5000)) + b"\n" + ROWS),
    "csv-of-parquet": ("a.csv", _TABLE),
    "parquet-empty": ("a.parquet", b""),
    "parquet-text": ("a.parquet", b"user,left\n" + ROWS),
    "parquet-cut": ("a.parquet", _TABLE[:-20]),
    "parquet-magic-only": ("a.parquet", b"PAR1PAR1"),
    "parquet-footer-huge": ("a.parquet", b"PAR1" + b"\xff" * 4 + b"PAR1"),
    "parquet-footer-changed": ("a.parquet", _TABLE[:-300] + b"\xff" * 290 + _TABLE[-10:]),
    "parquet-column-gone": ("a.parquet", _parquet(user=pa.array([CANARY]))),
    "parquet-no-columns": ("a.parquet", _parquet()),
    "parquet-floats": (
        "a.parquet",
        _parquet(user=pa.array([1.5]), left=pa.array([1.5]), right=[2], outcome=[1]),
    ),
    "parquet-struct": (
        "a.parquet",
        _parquet(user=pa.array([{"a": CANARY}]), left=["a"], right=["b"], outcome=[1]),
    ),
    "parquet-escape": ("a.parquet", _parquet(**{"u\x1b[31m": pa.array([CANARY])})),
    "soc-text": ("a.soc", b"user,left\n" + ROWS),
    "soc-binary": ("a.soc", BINARY),
    "no-ending": ("answers", b"user,left,right,outcome\n" + ROWS),
    "xlsx": ("a.xlsx", BINARY),
}

# It proposes what it can, and leaves the rest to the person.
INIT_TAKES = {
    *("csv-column-twice", "csv-column-gone", "csv-many-columns", "csv-semicolons"),
    *("parquet-column-gone", "parquet-no-columns", "parquet-floats", "parquet-struct"),
}


def answer_cases() -> Iterator[Case]:
    """Headers, footers and endings. What is wrong in a row sets that row aside, and is no case."""
    for name, (path, content) in ANSWERS.items():
        prepare = both(file(path, content), job(changed(COMPARISONS, {"input.paths": [path]})))
        yield Case("answers", name, prepare)
        if name not in INIT_TAKES:
            yield Case("answers-init", name, prepare, ("init", path, "--out", "new.yaml"))
    for name, path in {
        "absent": "nowhere.csv",
        "pattern-of-nothing": "nowhere/*.csv",
        "folder-of-nothing": "empty",
        "long-name": "x" * 300 + ".csv",
        "long-path": "x/" * 3000 + "a.csv",
        "url": "https://example.org/a.csv",
        "bucket-without-name": "gs://",
        "under-a-file": "answers.csv/a.csv",
        "endless-link": "circle/a.csv",
        "stars": "a***b.csv",
        "nobody": "~nobody-here/a.csv",
        "nul": "a\0.csv",
        "device": "/dev/null",
        "proc": "/proc/self/mem",
    }.items():
        settings = changed(COMPARISONS, {"input.paths": [path]})
        prepare = both(_folder("empty"), _link("circle", "circle"), job(settings))
        yield Case("answers-path", name, prepare)


ITEM_FILES: dict[str, tuple[str, bytes]] = {
    "txt-empty": ("i.txt", b""),
    "txt-one": ("i.txt", b"ants\n"),
    "txt-twice": ("i.txt", b"ants\nants\n"),
    "txt-latin-1": ("i.txt", "ants\nb\u00e9es\n".encode("latin-1")),
    "txt-binary": ("i.txt", BINARY),
    "txt-escape": ("i.txt", b"ants\nbe\x1b[31mes\n"),
    "txt-nul": ("i.txt", b"ants\nbe\0es\n"),
    "txt-bell": ("i.txt", b"ants\nbe\aes\n"),
    "txt-turned": ("i.txt", "ants\n\u202ebees\n".encode()),
    "txt-long": ("i.txt", b"ants\n" + b"b" * 5000 + b"\n"),
    "csv-no-column": ("i.csv", b"a,b\n1,2\n"),
    "csv-binary": ("i.csv", BINARY),
    "csv-blank-name": ("i.csv", b"item,b\nants,1\n,2\n"),
    "csv-huge-field": ("i.csv", b"item\n" + b"a" * 200_000 + b"\nb\n"),
    "parquet-text": ("i.parquet", b"item\nants\n"),
    "parquet-floats": ("i.parquet", _parquet(item=pa.array([1.5, 2.5]))),
    "parquet-null": ("i.parquet", _parquet(item=pa.array(["a", None]))),
    "ending": ("i.doc", b"ants\nbees\n"),
    "soc": ("i.soc", b"ants\nbees\n"),
}


def item_cases() -> Iterator[Case]:
    """The catalogue's file."""
    for name, (path, content) in ITEM_FILES.items():
        settings = changed(COMPARISONS, {"items": {"file": path}})
        yield Case("items", name, both(file(path, content), job(settings)), says="items.file")
    for name, path in {"absent": "no.txt", "folder": "empty", "long": "x" * 400 + ".txt"}.items():
        settings = changed(COMPARISONS, {"items": {"file": path}})
        yield Case("items", name, both(_folder("empty"), job(settings)), says="items.file")


_ENTRY = b'{"hushrank_ledger":1,"seq":1,"time":"2026-01-01T00:00:00Z","population":"zoo"'
LEDGERS: dict[str, bytes] = {
    "text": b"hello\n",
    "binary": BINARY + b"\n",
    "deep": b'{"hushrank_ledger":1,"seq":' + DEEP + b"}\n",
    "deep-only": DEEP + b"\n",
    "deep-braces": b'{"hushrank_ledger":' * 100_000 + b"1" + b"}" * 100_000 + b"\n",
    "version": b'{"hushrank_ledger":2}\n',
    "version-huge": b'{"hushrank_ledger":' + b"9" * 400 + b"}\n",
    "version-digits": b'{"hushrank_ledger":' + b"9" * 5000 + b"}\n",
    "version-text": b'{"hushrank_ledger":"\\u001b[31m"}\n',
    "version-list": b'{"hushrank_ledger":[[1]]}\n',
    "version-long": b'{"hushrank_ledger":"' + b"x" * 50_000 + b'"}\n',
    "no-hash": _ENTRY + b"}\n",
    "wrong-hash": _ENTRY + b',"hash":"' + b"0" * 64 + b'"}\n',
    "surrogate": _ENTRY + b',"operator":"\\ud800","hash":"' + b"0" * 64 + b'"}\n',
    "latin-1": _ENTRY + b',"operator":"\xe9"}\n',
    "nan": b'{"hushrank_ledger":1,"seq":NaN}\n',
    "list": b"[1]\n",
    "blank-lines": b"\n\n\n",
    "yaml": GOOD,
}


def ledger_cases() -> Iterator[Case]:
    """A ledger that is none, or was changed."""
    for name, content in LEDGERS.items():
        for words in (RUN, VALIDATE, ("ledger", "show", "survey.yaml")):
            prepare = both(file("ledger.jsonl", content), lambda path: _alone(path))
            yield Case("ledger", f"{'-'.join(words[:2])}-{name}", prepare, words)
    yield Case("ledger", "folder", _folder("ledger.jsonl"))
    yield Case("ledger", "device", job(changed(COMPARISONS, {"ledger.path": "/dev/null"})))


def _alone(folder: Path) -> None:
    (folder / "ledger.jsonl").chmod(0o600)


PLACES: dict[str, str] = {
    "long-name": "x" * 300,
    "quite-long-name": "x" * 230,
    "long-path": "x/" * 3000 + "x",
    "near-the-limit": "/".join(["x" * 190] * 20),
    "proc": "/proc/hushrank/x",
    "sys": "/sys/hushrank",
    "under-a-file": "answers.csv/x",
    "under-a-device": "/dev/null/x",
    "endless-link": "circle/x",
    "empty": "",
    "url": "https://example.org/x",
    "bucket": "gs://",
    "nobody": "~nobody-here/x",
    "hidden": "a\x1b[31mb",
    "turned": "a\u202eb",
}


def place_cases() -> Iterator[Case]:
    """Folders that cannot be made, found out before anything is reserved."""
    for key in ("output", "confidential", "ledger.path"):
        for name, path in PLACES.items():
            prepare = both(_link("circle", "circle"), job(changed(COMPARISONS, {key: path})))
            yield Case("place", f"{key}-{name}", prepare, says=_said(key, name))
    for key in ("output", "confidential"):
        yield Case(
            "place", f"{key}-file", job(changed(COMPARISONS, {key: "answers.csv"})), says=key
        )
        yield Case(
            "place",
            f"{key}-device",
            job(changed(COMPARISONS, {key: "/dev/null"})),
            says=key,
        )
    yield Case("place", "output-of-another", file("out/thesis.docx", b"years"), says="thesis.docx")
    yield Case("place", "confidential-open", _open_folder, says="chmod 700")
    for key in ("log", "metrics", "support"):
        for name in ("long-name", "proc", "under-a-file", "hidden"):
            settings = changed(COMPARISONS, {"observability": {key: PLACES[name]}})
            yield Case("observability", f"{key}-{name}", job(settings), says=_said(key, name))


def _said(key: str, name: str) -> str:
    return "line " if name in ("hidden", "turned") else key


def _open_folder(folder: Path) -> None:
    (folder / "work").mkdir()
    os.chmod(folder / "work", 0o755)


Cases = Callable[[], Iterator[Case]]
FILE_CASES: tuple[Cases, ...] = (yaml_cases, answer_cases, item_cases, ledger_cases, place_cases)
