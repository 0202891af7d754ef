"""Whatever a parser does to its process, the command names the file and gives back its budget."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

import hushrank as hr
from hushrank.flows import reading
from hushrank.flows.config.items_file import read_items
from hushrank.flows.errors import ConfigError, HushrankError
from hushrank.flows.reading import Reader, ReadingError, Reducer, read_apart
from hushrank.pipelines.engine.runner import LEAST_MEMORY, hard_limit
from hushrank.transforms.storage.files import list_files
from hushrank.transforms.storage.places import nothing_half_written, temporary_name
from tests.flows import broken_parsers
from tests.flows.broken_parsers import PRIVATE, WAYS, forbidden, replace_all
from tests.flows.conftest import answers
from tests.flows.read_there import data_limit, read_footers_whole, read_whole

pytestmark = pytest.mark.usefixtures("reading_apart")

COLUMNS = ("--left", "item_i", "--right", "item_j")
COMMANDS = {
    "run": lambda survey, _: ["run", survey.config, "--direct"],
    "run --plan": lambda survey, _: ["run", survey.config, "--plan"],
    "validate": lambda survey, _: ["validate", survey.config],
    "inspect": lambda survey, _: ["inspect", survey.config, "--yes-confidential"],
    "init": lambda survey, file: ["init", file, "--out", survey.folder / "new.yaml"],
    "privatize": lambda survey, file: [
        *("privatize", file, "--epsilon", 1, *COLUMNS),
        *("--out", survey.folder / "private.csv"),
    ],
}
FORMATS = ("parquet", "orc", "arrow", "avro", "csv", "jsonl")
HEADLESS = {"csv", "jsonl"}  # Python reads their heads
# Each command meets two formats, each format two commands, and all ways of failing take turns.
DRAWN = [
    (command, FORMATS[(place + step) % len(FORMATS)], way)
    for (place, command), step, way in zip(
        [*enumerate(COMMANDS)] * 2,
        [0] * len(COMMANDS) + [2] * len(COMMANDS),
        itertools.cycle(WAYS),
        strict=False,
    )
    if not (
        command in ("run --plan", "validate", "init")
        and FORMATS[(place + step) % len(FORMATS)] in HEADLESS
    )
]


def written(table: pa.Table, path: Path) -> Path:
    """The table as a file of the format that its ending names."""
    write = {
        ".parquet": pq.write_table,
        ".orc": pa.orc.write_table,
        ".arrow": lambda rows, to: pa.feather.write_feather(rows, str(to)),
        ".csv": pa.csv.write_csv,
        ".avro": write_avro,
        ".jsonl": lambda rows, to: to.write_text(
            "".join(f"{json.dumps(row)}\n" for row in rows.to_pylist())
        ),
    }
    write[path.suffix](table, path)
    return path


def write_avro(table: pa.Table, path: Path) -> None:
    fields = [{"name": name, "type": "long"} for name in table.column_names]
    with path.open("wb") as stream:
        schema = {"type": "record", "name": "row", "fields": fields}
        fastavro.writer(stream, schema, table.to_pylist())


@pytest.fixture
def breaking(monkeypatch):
    """Let the parsers of children fail in a way; in this process nothing may be parsed."""

    def fail(way: str) -> None:
        monkeypatch.setenv("BREAK", way)
        monkeypatch.setattr(reading, "READING", broken_parsers.__name__)
        first = (broken_parsers.__name__, *reading.LOADED_FIRST)
        monkeypatch.setattr(reading, "LOADED_FIRST", first)
        monkeypatch.setattr(reading, "Reducer", Reducer)
        replace_all(forbidden, monkeypatch.setattr)

    return fail


def nothing_reserved(survey) -> bool:
    if not survey.ledger.exists():
        return True
    kinds = [json.loads(line)["event"] for line in survey.ledger.read_text().splitlines()]
    return kinds.count("reserve") == kinds.count("cancel") and "draw" not in kinds


@pytest.mark.parametrize(("which", "ending", "way"), DRAWN)
def test_a_command_survives_every_end_of_a_parser(survey, command, breaking, which, ending, way):
    file = written(answers(3), survey.folder / f"sent.{ending}")
    survey.set(input__paths=[file.name])
    breaking(way)
    code, printed = command(*COMMANDS[which](survey, file))
    assert code in (1, 2), printed
    assert file.name in printed
    assert PRIVATE not in printed
    assert "Traceback" not in printed
    assert nothing_reserved(survey)


@pytest.mark.parametrize("way", ["abort", "kill", "lack", "fail"])
def test_tables_of_epsilon_and_of_items_are_parsed_apart(survey, command, breaking, way):
    items = written(
        pa.table({"item": ["ants", "bees", "cats", "dogs"]}), survey.folder / "i.parquet"
    )
    table = written(pa.table({"user": [0], "epsilon": [1.0]}), survey.folder / "e.parquet")
    log = written(answers(3), survey.folder / "log.csv")
    breaking(way)
    survey.set(items={"file": items.name})
    code, printed = command("validate", survey.config)
    assert (code in (1, 2), items.name in printed, PRIVATE in printed) == (True, True, False)
    words = ["privatize", log, "--epsilon-table", table, "--epsilon-range", 0.1, 5, *COLUMNS]
    code, printed = command(*words, "--out", survey.folder / "private.csv")
    assert code in (1, 2)
    assert "log.csv" in printed or table.name in printed
    assert PRIVATE not in printed


def test_of_several_files_the_right_one_is_named(survey, real_data):
    whole = [written(answers(3), survey.folder / f"{number}.parquet") for number in range(3)]
    broken = shutil.copy(
        real_data / "cases" / "abort" / "abort.parquet", survey.folder / "1b.parquet"
    )
    files = list_files([str(path) for path in [*whole, Path(broken)]])
    with pytest.raises(ConfigError, match=r"^\S*/1b\.parquet: damaged.*\(SIGABRT\)"):
        read_apart(read_footers_whole, files)


def test_a_file_with_one_flipped_bit_costs_nothing(survey, command, monkeypatch, real_data):
    shutil.copy(real_data / "cases" / "abort" / "abort.parquet", survey.folder / "sent.parquet")
    monkeypatch.setattr(reading, "Reducer", Reducer)
    survey.set(input__paths=["sent.parquet"], input__columns={"left": "left", "right": "right"})
    for _ in range(2):
        code, printed = command("run", survey.config, "--direct")
        assert code == 2
        assert "sent.parquet: damaged" in printed
        assert nothing_reserved(survey)


def test_python_gets_the_same_errors(survey, breaking):
    file = written(answers(3), survey.folder / "sent.parquet")
    breaking("abort")
    with pytest.raises(HushrankError, match=r"sent\.parquet"):
        hr.run(survey.set(input__paths=[file.name]).config)
    with pytest.raises(HushrankError, match=r"sent\.parquet"):
        hr.privatize(file, epsilon=1.0, left="item_i", right="item_j")
    assert nothing_reserved(survey)


# Each file is small on disk, and takes more when it is read than a child may have here.
ROOM = 128 << 20
TIGHT = ROOM - hard_limit(0, 0)
TEXT_BYTES, TEXTS = 4 << 20, 60


def texts() -> pa.Array:
    return pa.array([f"{number:03}".ljust(TEXT_BYTES, "x") for number in range(TEXTS)])


def of_texts(user: pa.Array) -> pa.Table:
    item = np.arange(len(user)) % 4
    columns = {"user": user, "item_i": item, "item_j": (item + 1) % 4}
    return pa.table(columns | {"outcome": np.ones(len(user), np.int8)})


def write_large(form: str, path: Path) -> None:
    if form == "parquet, a dictionary":
        pq.write_table(
            of_texts(texts()), path, compression="zstd", dictionary_pagesize_limit=1 << 30
        )
    elif form == "parquet, one text":
        user = pa.array(["x" * (TEXT_BYTES * TEXTS)])
        pq.write_table(of_texts(user), path, compression="zstd", use_dictionary=False)
    elif form == "orc":
        pa.orc.write_table(of_texts(texts()), path, compression="zstd", stripe_size=1 << 30)
    elif form == "arrow, one batch":
        pa.feather.write_feather(of_texts(texts()), str(path), compression="zstd")
    else:
        coded = pa.DictionaryArray.from_arrays(pa.array(np.arange(TEXTS, dtype=np.int32)), texts())
        pa.feather.write_feather(of_texts(coded), str(path), compression="zstd")


LARGE = [
    "parquet, a dictionary",
    "parquet, one text",
    "orc",
    "arrow, one batch",
    "arrow, a dictionary",
]


@pytest.mark.skipif(sys.platform != "linux", reason="no other system bounds a process so")
@pytest.mark.parametrize("form", LARGE)
def test_a_small_file_that_is_large_in_memory_is_refused_by_name(tmp_path, form):
    path = tmp_path / f"large.{form.partition(',')[0]}"
    write_large(form, path)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(ConfigError, match=r"large\.\w+: .*(memory|memory_limit)"):
        read_apart(read_whole, str(path), memory=TIGHT)
    good = written(answers(200), path.with_stem("good"))
    assert read_apart(read_whole, str(good), memory=TIGHT) == 1200


@pytest.mark.skipif(sys.platform != "linux", reason="no other system bounds a process so")
def test_items_that_are_large_in_memory_are_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr("hushrank.flows.config.items_file.LEAST_MEMORY", TIGHT)
    path = tmp_path / "items.parquet"
    pq.write_table(pa.table({"item": texts()}), path, compression="zstd")
    with pytest.raises(ValueError, match=r"items\.parquet: .*memory"):
        read_items(path)


@pytest.mark.skipif(sys.platform != "linux", reason="no other system bounds a process so")
def test_the_limit_is_the_one_of_each_call():
    with Reader() as reader:
        first, taken = reader.call(data_limit, memory=LEAST_MEMORY)
        assert first - taken <= hard_limit(LEAST_MEMORY, 0) < first
        assert reader.call(data_limit, memory=2 * LEAST_MEMORY)[0] == first + LEAST_MEMORY
        assert reader.call(data_limit, memory=LEAST_MEMORY, cells=1 << 20)[0] > first
        before = resource.getrlimit(resource.RLIMIT_DATA)[0]
        assert reader.call(data_limit, memory=None)[0] == before


def test_a_child_that_dies_is_replaced_and_an_error_shows_its_type_alone():
    with Reader() as reader:
        with pytest.raises(ReadingError, match="ended without an answer"):
            reader.call(os._exit, 3, memory=None)
        with pytest.raises(ReadingError, match=r"\(ValueError\)") as failure:
            reader.call(int, PRIVATE, memory=None)
        assert PRIVATE not in str(failure.value)
        with pytest.raises(FileNotFoundError):
            reader.call(os.stat, "/nowhere", memory=None)
        assert reader.call(abs, -3, memory=None) == 3


def _ranked(_: int) -> str:
    return read_apart(str, 5)


def test_a_worker_of_a_pool_may_read():
    """Such a worker is a daemon, which may have no children of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(_ranked, [1]) == ["5"]


@pytest.mark.parametrize("closed", ["0", "1", "0, 1", "1, 2", "0, 1, 2"])
def test_closed_standard_streams_hinder_nothing(closed, tmp_path):
    told = tmp_path / "told"
    script = (
        f"import os; [os.close(each) for each in ({closed},)]\n"
        "from hushrank.flows.reading import read_apart\n"
        f"open({str(told)!r}, 'w').write(read_apart(str, 5))"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
    assert told.read_text() == "5"


@pytest.mark.parametrize("format_", ["arrow", "orc", "parquet"])
def test_a_name_of_a_column_that_is_no_text_is_damage(format_, tmp_path, survey, command):
    path = survey.folder / f"bad.{format_}"
    table = answers(20).append_column("unused_name", pa.array([1] * 120))
    if format_ == "parquet":
        pq.write_table(table, path, store_schema=False)
    else:
        with pa.OSFile(str(path), "wb") as stream:
            if format_ == "orc":
                pyarrow.orc.write_table(table, stream)
            else:
                with pa.ipc.new_file(stream, table.schema) as writer:
                    writer.write_table(table)
    path.write_bytes(path.read_bytes().replace(b"unused_name", b"unused\xffname"))
    survey.set(input__paths=[path.name])
    for name in (["validate"], ["run", "--direct"]):
        code, printed = command(*name, survey.config)
        assert (code, "bad." in printed and "Write it again" in printed) == (2, True), printed


def test_what_a_killed_child_has_half_written_is_deleted(tmp_path):
    target = tmp_path / "private.parquet"
    other = tmp_path / temporary_name(target.name)
    other.touch()  # of another process

    def killed() -> None:
        with nothing_half_written(target):
            (tmp_path / temporary_name(target.name)).touch()
            raise KeyError

    with pytest.raises(KeyError):
        killed()
    assert list(tmp_path.iterdir()) == [other]
