"""The catalogue's file: what is read from each kind, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from hushrank.flows.config.items_file import read_item_names, read_items


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read(name: str, content: bytes) -> tuple[str, ...]:
    Path(name).write_bytes(content)
    return read_item_names(Path(name))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("items.txt", b"London\n\n  Sao Paulo \nitem\n"),
        ("items.TXT", b"\xef\xbb\xbfLondon\r\nSao Paulo\r\nitem"),
        ("items.csv", b"item\nLondon\nSao Paulo\nitem\n"),
        ("items.csv", b"city,Name \r\n1,London\r\n2,Sao Paulo\r\n3,item\r\n"),
        ("items.csv", b'\xef\xbb\xbf"name",x\n"London",1\n\n" Sao Paulo ",2\n"item",3\n'),
    ],
)
def test_names_come_in_the_order_of_the_file(name, content):
    assert read(name, content) == ("London", "Sao Paulo", "item")


def test_a_preflib_file_names_its_alternatives_by_number():
    header = b"# DATA TYPE: soi\n# NUMBER ALTERNATIVES: 2\n"
    header += b"# ALTERNATIVE NAME 10: Sao Paulo \n# ALTERNATIVE NAME 2: London\n"
    assert read("votes.soi", header + b"3: 10,2\n") == ("London", "Sao Paulo")
    with pytest.raises(ValueError, match=r"votes.soi: not a PrefLib file of rankings: it does not"):
        read("votes.soi", b"3: 10,2\n")


def test_item_wins_over_name_as_the_column():
    assert read("items.csv", b"name,item\nx,London\ny,Paris\n") == ("London", "Paris")


@pytest.mark.parametrize(
    ("values", "names"),
    [(["a", "b"], ("a", "b")), ([205, 101], ("205", "101"))],
)
def test_parquet_holds_text_or_integers(values, names):
    pq.write_table(pa.table({"x": [0.5, 1.5], "item": values}), "items.parquet")
    assert read_item_names(Path("items.parquet")) == names


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "items.csv",
            b"London\nParis\n",
            "items.csv has no column item or name; add the header line `item`,"
            " or use a .txt file with one name a line",
        ),
        (
            "items.csv",
            b"",
            "items.csv has no column item or name; add the header line `item`,"
            " or use a .txt file with one name a line",
        ),
        (
            "items.xlsx",
            b"",
            "items.xlsx must end in .txt, .csv, .parquet, .soc, .soi, .toc, .toi; rename it",
        ),
        ("items.txt", b"\xff", "items.txt is not UTF-8 text; save it as UTF-8"),
        ("items.parquet", b"PAR1PAR1", "items.parquet is damaged; write it again"),
    ],
)
def test_a_file_that_cannot_be_the_catalogue_is_refused(name, content, message):
    with pytest.raises(ValueError, match=r".") as caught:
        read(name, content)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a", None], "items.parquet has an entry without a name"),
        ([0.5, 1.5], "items.parquet: column item must hold text or integers, not double"),
    ],
)
def test_a_parquet_column_of_something_else_is_refused(values, message):
    pq.write_table(pa.table({"item": values}), "items.parquet")
    with pytest.raises(ValueError, match=r".") as caught:
        read_item_names(Path("items.parquet"))
    assert str(caught.value) == message


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"items\.csv: no such file; relative paths start at"):
        read_item_names(Path("items.csv"))
    Path("folder.csv").mkdir()
    with pytest.raises(ValueError, match=r"^folder\.csv cannot be read \(Is a directory\)$"):
        read_item_names(Path("folder.csv"))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_column_name_beside_item_holds_labels(in_folder, ending):
    columns = {
        "Item": ["p1", "p2", "p3", "p4", "p5"],
        "elo": ["1", "2", "3", "4", "5"],
        "name": [" Ann Smith", "Bo", "Bo", "", "p1"],
    }
    table, path = pa.table(columns), Path(f"items.{ending}")
    pq.write_table(table, path) if ending == "parquet" else pa.csv.write_csv(table, path)
    read = read_items(path)
    assert read.names == ("p1", "p2", "p3", "p4", "p5")
    # Two people called Bo are told apart; a label that is another item's name is too.
    assert read.labels == {"p1": "Ann Smith", "p2": "Bo (p2)", "p3": "Bo (p3)", "p5": "p1 (p5)"}


def test_a_file_without_item_has_names_and_no_labels(in_folder):
    Path("items.csv").write_text("name,label\nx,Mrs X\ny,Mr Y\n")
    assert read_items(Path("items.csv")).labels == {}
    assert read_item_names(Path("items.csv")) == ("x", "y")
