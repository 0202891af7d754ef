"""`hushrank validate --files` reads all pages and lists every damaged file; nothing is reserved."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.registry import load_config
from hushrank.flows.reading import Reader
from hushrank.flows.run.input_files import check_whole
from hushrank.flows.run.job import prepare_job, read_survey
from hushrank.transforms.storage import damage
from hushrank.transforms.storage.files import list_files
from tests.flows.conftest import answers

N_FILES = 7


@pytest.fixture
def many(survey):
    """Seven files of one survey."""
    table = answers(140)
    for part in range(N_FILES):
        path = survey.folder / f"part{part}.parquet"
        pq.write_table(table.slice(part * 120, 120), path, use_dictionary=False)
    return survey.set(input__paths=["part*.parquet"])


def break_page(survey, part: int) -> None:
    """Change bytes of a page; the footer stays, so only whoever decodes it notices."""
    path = survey.folder / f"part{part}.parquet"
    content = bytearray(path.read_bytes())
    content[4:40] = b"\xff" * 36
    path.write_bytes(content)


def break_footer(survey, part: int) -> None:
    """Cut the file off."""
    path = survey.folder / f"part{part}.parquet"
    path.write_bytes(path.read_bytes()[:-20])


def test_whole_files_are_said_to_be_whole(many, command):
    code, said = command("validate", many.config, "--files")
    assert code == 0, said
    assert "All files were read to their end (7), and none is damaged." in said
    assert "Nothing was counted or spent." in said
    assert "No data was read" not in said
    code, said = command("validate", many.config, "--files", "--json")
    assert json.loads(said)["files_whole"] is True
    code, said = command("validate", many.config, "--json")
    assert json.loads(said)["files_whole"] is None


@pytest.mark.parametrize("workers", [1, 3])
def test_every_damaged_file_is_listed_and_nothing_is_reserved(many, command, workers):
    many.set(runner={"kind": "local", "workers": workers})
    break_page(many, 1)
    break_footer(many, 3)
    break_page(many, 6)
    assert command("validate", many.config)[0] == 2  # the footer alone is seen
    code, said = command("validate", many.config, "--files")
    assert code == 2
    told = " ".join(said.split())
    for part in (1, 3, 6):
        assert told.count(f"part{part}.parquet: ") == 1
    for part in (0, 2, 4, 5):
        assert f"part{part}.parquet" not in told
    assert "3 of 7 files cannot be read whole." in told
    assert not many.ledger.exists()
    code, said = command("validate", many.config, "--files", "--json")
    document, _ = json.JSONDecoder().raw_decode(said)  # the text of the error follows it
    places = [each["place"].rpartition("/")[2] for each in document["error"]["problems"]]
    assert places == ["part1.parquet", "part3.parquet", "part6.parquet"]


def test_more_files_than_an_error_has_lines_are_all_listed(survey, command):
    table = answers(4)
    for part in range(60):
        pq.write_table(table, survey.folder / f"part{part}.parquet")
        break_page(survey, part)
    survey.set(input__paths=["part*.parquet"])
    said = command("validate", survey.config, "--files")[1]
    assert all(f"part{part}.parquet: " in said for part in range(60))
    assert "60 of 60 files cannot be read whole." in said


def test_a_file_that_ends_its_parser_is_found_among_others(many, monkeypatch):
    """The child dies as it reads one file: the others are read all the same."""
    config = load_config(many.config)
    job = prepare_job(read_survey(many.config))
    asked: list[int] = []

    class Dying(Reader):
        """Dies at part 2, with two files open."""

        def __init__(self) -> None:
            self.watch, self.open_files = None, frozenset()

        def call(self, work, files, *arguments, **_):
            asked.append(len(files))
            names = {file.name.rpartition("/")[2]: file.name for file in files}
            if "part2.parquet" in names:
                both = ("part2.parquet", "part3.parquet")
                self.open_files = frozenset(names[each] for each in both if each in names)
                raise ConfigError(f"{names['part2.parquet']}: the library that reads it broke off")
            self.open_files = frozenset()
            return work(files, *arguments)

    said: list[str] = []
    with pytest.raises(ConfigError, match="1 of 7 files"):
        check_whole(job.files, config, Dying(), said.append)
    assert len(said) == 1
    assert "part2.parquet: the library that reads it broke off" in said[0]
    assert asked == [7, 1, 1, 5]


def test_rows_that_break_a_rule_are_no_damage(tmp_path, many):
    log = many.folder / "log.csv"
    log.write_text("user,item_i,item_j,outcome\n1,0,1,1\n2,0\n3,99,1,1\n4,a,,\n")
    columns = load_config(many.config).columns()
    assert damage.find_damage(list_files([str(log)]), columns, 2) == []


def test_leaving_damaged_files_out_is_refused_with_the_reason(many):
    many.set(input__on_bad_files="leave-out")
    with pytest.raises(ConfigError) as error:
        load_config(many.config)
    assert "input.on_bad_files: leave-out is refused: others' rows vanish" in f"{error.value}"
    before = load_config(many.set(input__on_bad_files=None).config).job_hash()
    assert load_config(many.set(input__on_bad_files="fail").config).job_hash() == before
