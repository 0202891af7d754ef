"""`hushrank.rank` on a table: the run of the command line, once for the same rows."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hushrank as hr
from hushrank.flows.errors import BudgetRefused, ConfigError, HushrankError
from hushrank.flows.ledger.local_file import LedgerFile
from hushrank.flows.run import context
from tests.flows.conftest import ITEMS, SharedReducer, answers

TABLE = answers(200)
STEPS = ("reserve", "reduce", "draw", "estimate", "publish_release", "commit")


@pytest.fixture
def job(tmp_path: Path) -> dict[str, Any]:
    return {
        **{"left": "item_i", "right": "item_j", "outcome": "outcome", "user": "user"},
        "words": {"left": 1, "right": -1, "tie": 0},
        **{
            "items": {"names": ITEMS, "first_code": 0},
            "epsilon": 2.0,
            "max_contributions": 6,
            "design": "balanced",
        },
        **{"method": "noisy-counts", "ledger": tmp_path / "zoo.jsonl", "name": "zoo"},
    }


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are read in this process, which saves the seconds that a child takes to start."""
    monkeypatch.setattr("hushrank.flows.interfaces.python.run.Reducer", SharedReducer)


def copies(folder: Path) -> list[Path]:
    """Copies of tables that are left."""
    return list(folder.rglob("tables/*"))


def test_the_same_rows_are_the_same_release(here: None, job: dict[str, Any], tmp_path: Path):
    release = hr.rank(TABLE, **job)
    assert release.safe
    assert release.spent is not None
    assert release.ranking["item"].to_pylist()[0] == ITEMS[0]
    assert release.folder == tmp_path / "out" / "zoo"
    again = hr.rank(TABLE.take(list(range(TABLE.num_rows))[::-1]).to_pylist(), **job)
    assert (again.id, again.spent) == (release.id, None)
    assert again.ranking == release.ranking
    assert copies(tmp_path) == []
    ledger = hr.Ledger(tmp_path / "zoo.jsonl")
    assert ledger.balance.spent_epsilon == 2.0
    assert ledger.populations == ("zoo",)
    assert ledger.verify() == len(ledger.entries) + 2  # a draw and a commit are no rows
    assert "epsilon 0.00 left of 2.00" in repr(ledger)
    assert hr.read_release(release.folder).id == release.id
    (kept,) = hr.history(release.folder)
    assert hr.read_release(kept.folder).verdict == release.verdict


def test_a_release_that_teaches_nothing_is_a_warning_at_the_callers_line(
    here: None, job: dict[str, Any], recwarn: pytest.WarningsRecorder, tmp_path: Path
):
    hr.rank(TABLE, **job)
    assert not [each for each in recwarn if each.category is hr.UninformativeWarning]
    job["epsilon"], job["max_contributions"] = 0.01, 1
    with pytest.warns(hr.UninformativeWarning, match="zoo, release .*: Nothing useful") as told:
        release = hr.rank(TABLE, **job, anyway=True, total_epsilon=20.0, out=tmp_path / "nothing")
    assert not release.record.informative
    (warned,) = [each for each in told if each.category is hr.UninformativeWarning]
    assert warned.filename == __file__


@pytest.mark.parametrize("total", [None, 20.0])
def test_a_ledger_is_read_for_its_terms_and_once_more_and_a_method_is_calibrated_once(
    here: None, job: dict[str, Any], monkeypatch: pytest.MonkeyPatch, total: float | None
):
    done: list[str] = []

    def counted(name: str, action: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any) -> Any:
            done.append(name)
            return action(*arguments)

        return called

    monkeypatch.setattr(LedgerFile, "read", counted("read", LedgerFile.read))
    monkeypatch.setattr(context, "calibrate", counted("calibrate", context.calibrate))
    assert hr.rank(TABLE, **job, total_epsilon=total).spent is not None
    assert sorted(done) == ["calibrate", "read", "read"]


def test_a_pilot_query_comes_first_unless_it_is_turned_off(
    here: None, job: dict[str, Any], tmp_path: Path
):
    release = hr.rank(TABLE, **job, total_epsilon=20.0)
    look = release.record.look
    assert look is not None
    assert (look.voters, look.epsilon) == ("people", 0.04)
    assert repr(release).startswith("The pilot query saw about")
    assert hr.rank(TABLE, **job).id == release.id
    named = {"share": 0.1, "people": 200}
    asked = hr.rank(TABLE, **job, look=named, out=tmp_path / "asked").record.look
    assert asked is not None
    assert asked.people == 200
    off = hr.rank(TABLE, **job, look=None, out=tmp_path / "off")
    assert off.record.look is None
    assert hr.rank(TABLE, **job).id == release.id, "what was drawn with one stays"
    nothing = {**job, "ledger": None, "unsafe": True}
    assert hr.rank(TABLE, **nothing).record.look is None


def test_a_job_that_the_ledger_knows_goes_on_without_a_pilot_query(here: None, job: dict[str, Any]):
    """As earlier versions drew it: the same call spends nothing."""
    before = hr.rank(TABLE, **job, look=None)
    again = hr.rank(TABLE, **job)
    assert (again.id, again.spent) == (before.id, None)


def test_a_test_that_the_ledger_knows_keeps_the_method_of_earlier_versions(
    here: None, tmp_path: Path
):
    """Without a method, test answers were ranked by `spectral`; now `auto` chooses."""
    sheets = pa.table({"user": range(300), **{name: [0, 1, 1] * 100 for name in "abcd"}})
    asked = {
        "kind": "responses",
        "layout": "wide",
        "user": "user",
        "items": [*"abcd"],
        "missing": "wrong",
        "epsilon": 4.0,
        "max_contributions": 4,
        "ledger": tmp_path / "test.jsonl",
        "look": None,
    }
    before = hr.rank(sheets, **asked, name="old", method="spectral", total_epsilon=20.0)
    again = hr.rank(sheets, **asked, name="old")
    assert (again.id, again.spent) == (before.id, None)
    asked["ledger"] = tmp_path / "other.jsonl"
    new = hr.rank(sheets, **asked, name="new", total_epsilon=20.0)
    assert new.method == "totals"


def test_rows_that_are_not_read_as_meant_stop_it(here: None, job: dict[str, Any]):
    strange = TABLE.set_column(1, "item_i", pa.array([99] * len(TABLE)))
    job["epsilon"] = 20.0  # the noise of the pilot query has scale 5, for 200 people
    with pytest.raises(HushrankError, match=r"look: stopped\. A noisy look at the rows saw about"):
        hr.rank(strange, **job)
    assert 0 < hr.Ledger(job["ledger"]).balance.spent_epsilon < 0.41


def test_other_rows_cost_again(here: None, job: dict[str, Any]):
    first = hr.rank(TABLE, **job, total_epsilon=5.0)
    with_total = hr.rank(TABLE.slice(6), **job)  # the ledger remembers the total
    assert with_total.id != first.id
    with pytest.raises(BudgetRefused, match="total_epsilon"):
        hr.rank(TABLE.slice(12), **job)


def test_what_it_publishes_is_what_the_command_line_publishes(
    here: None, job: dict[str, Any], tmp_path: Path
):
    """One seed for both: noise, ranking and statement agree; only names of jobs differ."""
    import pyarrow.parquet as pq
    import yaml

    pq.write_table(TABLE, tmp_path / "answers.parquet")
    columns = {name: job[name] for name in ("left", "right", "outcome", "user")}
    survey = {
        "name": "zoo",
        "input": {
            "kind": "comparisons",
            "paths": ["answers.parquet"],
            "columns": columns,
            "design": "balanced",
        },
        "items": {"names": ITEMS, "first_code": 0},
        "privacy": {"unit": "user", "epsilon": 2.0, "max_contributions": 6},
        "method": "noisy-counts",
        **{"output": "out", "confidential": "work"},
        "ledger": {"path": "ledger.jsonl", "epsilon": 5},
    }
    (tmp_path / "survey.yaml").write_text(yaml.safe_dump(survey))
    of_file = hr.run(tmp_path / "survey.yaml", seed=7, unsafe=True)
    of_table = hr.rank(TABLE, **job, seed=7, unsafe=True)
    assert of_table.record.released == of_file.record.released
    assert of_table.ranking == of_file.ranking
    assert of_table.statement == of_file.statement
    assert not of_table.safe
    assert not of_file.safe


def test_without_a_ledger_it_is_refused_or_unsafe(here: None, job: dict[str, Any]):
    job["ledger"] = None
    with pytest.raises(ConfigError, match="adds up the privacy cost of all releases"):
        hr.rank(TABLE, **job)
    release = hr.rank(TABLE, **job, unsafe=True)
    assert not release.safe
    assert any("No ledger counts" in warning for warning in release.warnings)
    assert "UNSAFE" in repr(release)
    assert "UNSAFE" in release._repr_html_()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"epsilom": 1.0}, "Did you mean epsilon?"),
        ({"epsilon": -1.0}, "epsilon: must be > 0"),
        ({"epsilon": math.inf}, "protects nobody"),
        ({"seed": 7}, "add unsafe=True"),
        ({"unsafe": True}, "leave it out"),
        ({"items": set(ITEMS)}, "a set has no order"),
        ({"winner": "outcome"}, "exactly one of outcome and winner"),
        ({"settings": {"privacy": {"epsilon": 1.0}}}, "is given twice"),
        ({"settings": {"privacy": {"lok": 1.0}}}, "Did you mean look?"),
        ({"user": "usr"}, "column usr not found"),
        ({"name": None}, "name: missing"),
        (
            {"again": True, "ledger": None, "unsafe": True},
            "again: makes a release that a ledger",
        ),
        ({"schedule": {"partition": "date"}}, "a table in memory has none"),
    ],
)
def test_a_mistake_is_one_sentence_and_costs_nothing(
    here: None, job: dict[str, Any], tmp_path: Path, changes: dict[str, Any], says: str
):
    with pytest.raises(ConfigError, match=re.escape(says)) as refused:
        hr.rank(TABLE, **{**job, **changes})
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__
    assert len(refused.traceback) <= 4  # this test, pytest's block, and the function that it called
    assert not (tmp_path / "zoo.jsonl").exists()
    assert copies(tmp_path) == []


def stop_before(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    monkeypatch.setattr(f"hushrank.flows.run.run.{step}", interrupted)


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("step", STEPS)
def test_an_interrupted_kernel_spends_nothing_or_goes_on(
    here: None, job: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
):
    """Before the draw the budget is given back; after it the same call publishes what was drawn."""
    with monkeypatch.context() as patched:
        stop_before(patched, step)
        with pytest.raises(KeyboardInterrupt) as stopped:
            hr.rank(TABLE, **job)
    assert any("without spending again" in note for note in stopped.value.__notes__)
    assert copies(tmp_path) == []
    ledger = hr.Ledger(tmp_path / "zoo.jsonl", "zoo")
    drawn = STEPS.index(step) > STEPS.index("draw")
    if ledger.populations:
        assert ledger.balance.spent_epsilon == (2.0 if drawn else 0.0)
        assert not ledger.balance.undrawn
    release = hr.rank(TABLE, **job)
    assert (release.spent is None) == drawn
    assert hr.Ledger(tmp_path / "zoo.jsonl").balance.spent_epsilon == 2.0


def test_an_interrupt_while_the_table_is_read_leaves_no_copy(
    here: None, job: dict[str, Any], tmp_path: Path
):
    def broken() -> Any:
        yield from TABLE.to_batches()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hr.rank(broken(), **job)
    assert copies(tmp_path) == []
    assert not (tmp_path / "zoo.jsonl").exists()


def test_what_a_table_says_of_a_row_stays_nowhere_in_the_error(
    here: None, job: dict[str, Any], tmp_path: Path
):
    """Programs that report errors follow `__context__`; a library's own error may quote a row."""

    def broken() -> Any:
        yield from TABLE.to_batches()
        raise LookupError("Zaphod")

    for call in (hr.rank, hr.inspect):
        with pytest.raises(ConfigError, match="ended with LookupError") as refused:
            call(broken(), **job)
        assert refused.value.__cause__ is None
        assert refused.value.__context__ is None
    columns = {name: job[name] for name in ("left", "right", "outcome")}
    with pytest.raises(ConfigError, match="ended with LookupError"):
        hr.privatize(broken(), epsilon=1.0, **columns)
    assert copies(tmp_path) == []
    assert not (tmp_path / "zoo.jsonl").exists()


@pytest.mark.parametrize("name", ["user", "item_i", "item_j", "outcome"])
def test_an_odd_value_is_set_aside_alone_when_answers_are_privatised(name: str):
    columns = {"left": "item_i", "right": "item_j", "outcome": "outcome", "user": "user"}
    rows = TABLE.to_pylist()
    for odd in (object(), float("nan"), [1], "\ud800"):
        mixed = [rows[0] | {name: odd}, *rows]
        assert len(hr.privatize(mixed, epsilon=4.0, per_user=True, **columns)) == len(rows)


def test_a_notebook_shows_bars_and_loads_nothing(here: None, job: dict[str, Any]):
    job["items"] = {"names": ["<b>ants</b>", *ITEMS[1:]], "first_code": 0}
    release = hr.rank(TABLE, **job)
    shown = release._repr_html_()
    assert shown.count("<svg") == len(ITEMS)
    assert "&lt;b&gt;ants" in shown
    assert "<b>ants" not in shown
    assert not re.search(r"https?:|src=|url\(|<script|<link", shown)
    frame = release.report()._repr_html_()
    assert frame.startswith('<iframe title="Report" srcdoc=')
    assert "allow-scripts" in frame
    assert "allow-same-origin" not in frame
    assert release.to_pandas()["item"][0] == release.to_polars()["item"][0]
    assert pa.table(release).column_names == release.ranking.column_names


def test_the_report_is_drawn_again_in_another_language(here: None, job: dict[str, Any]):
    release = hr.rank(TABLE, **job)
    written = release.report()
    assert '<html lang="en"' in written.html
    assert '<html lang="de"' in release.report(language="de").html
    assert release.report().html == written.path.read_text(encoding="utf-8") == written.html
    with pytest.raises(hr.ConfigError, match="language: must be en, de, es, fr, pt or None"):
        release.report(language="it")


def test_inspecting_shows_numbers_only_on_request(
    here: None, job: dict[str, Any], capsys: pytest.CaptureFixture[str]
):
    found = hr.inspect(TABLE, **job)
    assert found.rows == found.valid == TABLE.num_rows
    assert not re.search(r"\d", repr(found))
    found.show()
    assert "CONFIDENTIAL" in capsys.readouterr().out


def test_private_answers_are_ranked(here: None, job: dict[str, Any], tmp_path: Path):
    columns = {name: job[name] for name in ("left", "right", "outcome")}
    private = hr.privatize(TABLE, epsilon=4.0, **columns)
    assert "user" not in private.column_names
    assert len(private) == TABLE.num_rows
    release = hr.rank(
        private, **columns, items={"names": ITEMS, "first_code": 0},
        unit="local", already_private=True, epsilon=4.0,
        ledger=tmp_path / "local.jsonl", name="local",
    )  # fmt: skip
    assert release.ranking["item"].to_pylist()[0] == ITEMS[0]


SCRIPT = """
import hushrank as hr
import pyarrow.parquet as pq
release = hr.rank(pq.read_table("answers.parquet"), left="item_i", right="item_j",
                  outcome="outcome", words={"left": 1, "right": -1},
                  user="user", items=4, epsilon=2.0, max_contributions=6,
                  design="balanced", method="noisy-counts", ledger="zoo.jsonl", name="zoo")
print("ranked", release.ranking["item"].to_pylist()[0])
"""


@pytest.mark.slow
def test_a_script_without_a_guard_ranks_once(tmp_path: Path):
    """The child process must not run the caller's script, which would rank again."""
    import pyarrow.parquet as pq

    pq.write_table(TABLE, tmp_path / "answers.parquet")
    (tmp_path / "script.py").write_text(SCRIPT)
    words = [sys.executable, "script.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "ranked 0\n"), done.stderr


def test_every_refusal_is_a_hushrank_error():
    for name in ("ArchiveError", "BudgetRefused", "ConfigError", "LedgerError"):
        assert issubclass(getattr(hr, name), HushrankError)
    shown = HushrankError("One sentence.")._render_traceback_()
    assert shown == ["HushrankError: One sentence."]
