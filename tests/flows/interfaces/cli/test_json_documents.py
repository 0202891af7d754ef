"""What --json prints: one document, nothing else on standard output, errors too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hushrank.flows import reading
from hushrank.flows.config.reference import sections_of
from hushrank.flows.errors import ConfigError, EstimateError, HushrankError, Problem
from hushrank.flows.interfaces.cli.main import main
from hushrank.flows.interfaces.documents import histories, plans, runs
from hushrank.transforms.common.schema import InputError

Ask = Callable[..., tuple[int, Any, str]]


@pytest.fixture
def ask(in_process: None, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Run `hushrank ... --json` in this process: exit code, document, standard error."""

    def run(*words: object) -> tuple[int, Any, str]:
        try:
            main([*map(str, words), "--json"])
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        printed = capsys.readouterr()
        assert printed.out.isascii()
        return code, json.loads(printed.out), printed.err

    return run


def test_a_run_says_what_its_release_and_its_ledger_say(survey, ask):
    code, found, told = ask("run", survey.config, "--direct")
    assert code == 0
    runs.RunDocument.model_validate_json(json.dumps(found), strict=False)
    published = json.loads((survey.output / "release.json").read_text())
    for field in ("release_id", "name", "method", "safe", "informative", "created"):
        assert found["release"][field] == published[field]
    absent = {"label": None, "noise_share": None}
    ranking = [{**absent, **line, "place": None} for line in published["ranking"]]
    assert [{**line, "place": None} for line in found["ranking"]] == ranking
    assert [line["place"] for line in found["ranking"]] == ["1", "2", "3", "4"]
    assert found["spent"] == {"epsilon": 2.0, "delta": 0.0, "rho": None}
    assert (found["budget"]["spent"], found["budget"]["left"]) == (2.0, 3.0)
    assert found["budget"]["unpublished"] == []
    for field in ("report", "release_file"):
        assert Path(found[field]).is_file()
    assert "reduce" in told  # the steps, for people
    code, again, _ = ask("run", survey.config, "--direct")
    assert (code, again["spent"]) == (0, None)
    assert again["ranking"] == found["ranking"]


def test_an_infinite_epsilon_is_a_text(survey, ask):
    survey.set(privacy__epsilon=float("inf"))
    code, found, _ = ask("run", survey.config, "--direct", "--no-privacy")
    assert (code, found["release"]["epsilon"], found["release"]["safe"]) == (0, "inf", False)
    code, found, _ = ask("history", survey.config)
    assert [release["epsilon"] for release in found["releases"]] == ["inf"]


def test_validate_says_what_a_run_would_cost(survey, ask):
    code, found, _ = ask("validate", survey.config)
    assert code == 0
    runs.ValidateDocument.model_validate_json(json.dumps(found), strict=False)
    assert found["cost"]["epsilon"] == 2.0
    assert [step["step"] for step in found["steps"]][:3] == ["reserve", "reduce", "draw"]
    assert not survey.ledger.exists()


def test_stages_history_verify_and_ledger(survey, ask):
    code, found, _ = ask("run", survey.config, "--plan")
    assert code == 0
    assert {stage["side"] for stage in found["stages"]} >= {"protected", "released"}
    assert ask("run", survey.config, "--direct")[0] == 0
    (kept,) = survey.archived()
    code, found, _ = ask("history", survey.config, "--plot", survey.folder / "ranks.svg")
    assert code == 0
    assert [kept.name.endswith(each["release_id"]) for each in found["releases"]] == [True]
    assert Path(found["plot"]).is_file()
    assert ask("history", survey.config, "--verify")[1]["releases"] == 1
    code, found, _ = ask("ledger", "show", survey.config)
    assert code == 0
    runs.LedgerDocument.model_validate_json(json.dumps(found), strict=False)
    assert [entry["state"] for entry in found["entries"]] == ["terms", "committed"]
    assert found["entries"][1]["cost"]["epsilon"] == 2.0


def test_plans(survey, ask):
    code, found, _ = ask("plan", survey.config, "--people", 50, "--epsilon", 1, "--epsilon", 4)
    assert code == 0
    plans.PlanDocument.model_validate_json(json.dumps(found), strict=False)
    assert [each["epsilon"] for each in found["settings"]] == [1.0, 4.0]
    assert found["take"] in {each["method"] for each in found["methods"]}
    code, found, _ = ask("plan", "--items", 10, "--answers", 5, "--people", 30)
    assert code == 0
    assert len(found["mixes"]) == 4
    assert found["mixes"][0]["people_needed"] > found["mixes"][3]["people_needed"] > 0


@pytest.mark.parametrize("command", ["run", "validate", "plan", "history", "ledger show"])
def test_a_mistake_is_a_document_and_a_text(survey, ask, command):
    survey.set(privacy__epsilom=1.0)
    code, found, told = ask(*command.split(), survey.config)
    assert code == 2
    error = found.pop("error")
    assert found == {}
    assert error["exit_code"] == 2
    assert error["kind"] == "ConfigError"
    assert "privacy.epsilom: unknown key" in error["message"]
    assert error["message"] in told
    line = 1 + survey.config.read_text().splitlines().index("  epsilom: 1.0")
    first = {
        "place": f"{survey.config}: privacy.epsilom",
        "line": line,
        "rule": "unknown key",
        "fix": "Did you mean epsilon?",
    }
    assert {**error, **first, "spent": "nothing", "problems": [first]} == error


def fail_with(error: Exception):
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


BAD_ROWS = {"privacy__look": 0.2, "input__words": {"left": ["no such"], "right": ["word"]}}
ENDS = {
    "a file that breaks a rule": (2, {"input__paths": ["gone.parquet"]}, None, "nothing"),
    "budget": (3, {"privacy__epsilon": 9.0}, None, "nothing"),
    "pilot query": (4, BAD_ROWS, None, "epsilon 1.00"),
    "before the draw": (1, {}, ("reduce", HushrankError("broken")), "nothing"),
    "after the draw": (1, {}, ("estimate", EstimateError("no fit")), "epsilon 5.00"),
    "interrupted": (130, {}, ("reduce", KeyboardInterrupt()), "nothing"),
}


@pytest.mark.parametrize("end", ENDS)
def test_every_exit_code_is_a_document_with_fields(survey, ask, monkeypatch, end):
    code, changes, step, spent = ENDS[end]
    survey.set(**{"privacy__epsilon": 5.0, **changes})
    if step is not None:
        monkeypatch.setattr(f"hushrank.flows.run.run.{step[0]}", fail_with(step[1]))
    got, found, told = ask("run", survey.config, "--direct")
    runs.ErrorDocument.model_validate_json(json.dumps(found), strict=False)
    error = found["error"]
    assert (got, error["exit_code"], error["spent"]) == (code, code, spent)
    assert error["message"] in told
    assert error["problems"][0]["rule"] == error["rule"]
    places = {
        "a file that breaks a rule": f"{survey.folder}/gone.parquet",
        "budget": "budget of zoo",
    }
    assert error["place"] == places.get(end)


def test_the_parts_of_an_error_come_from_the_process_that_reads():
    sent: list[Any] = []
    reading._answer(lambda *what: sent.append(what), fail_with(InputError("a.csv: bad.")), ())
    with pytest.raises(ConfigError, match=r"a\.csv: bad\.") as caught:
        reading.result_of(sent[0], reading._Files())
    assert caught.value.problems == (Problem("a.csv", "bad."),)


def test_a_missing_extra_names_what_needs_it(survey, ask, monkeypatch):
    monkeypatch.setattr("hushrank.transforms.common.extras.is_installed", lambda _: False)
    survey.set(observability={"traces": True})
    code, found, _ = ask("run", survey.config, "--direct")
    assert code == 2
    assert found["error"]["place"] == "observability.traces"
    assert found["error"]["rule"] == "needs the OpenTelemetry exporter"
    assert found["error"]["fix"] == "Run: pip install 'hushrank[otel]'"


@pytest.mark.parametrize("words", [("run",), ("run", "a.yaml", "--dance"), ("dance",)])
def test_words_that_do_not_fit_are_a_document_too(ask, words):
    code, found, told = ask(*words)
    assert (code, found["error"]["exit_code"]) == (2, 2)
    assert found["error"]["message"]
    assert found["error"]["message"] in told


def test_of_an_unforeseen_error_the_document_tells_nothing(survey, capsys, monkeypatch):
    def fail(*_: object) -> None:
        raise ZeroDivisionError("ants won 475 times")

    monkeypatch.setattr("hushrank.flows.run.context.ledger_of", fail)
    with pytest.raises(ZeroDivisionError):
        main(["validate", str(survey.config), "--json"])
    printed = capsys.readouterr().out
    assert json.loads(printed)["error"]["kind"] == "ZeroDivisionError"
    assert "475" not in printed


def test_a_name_with_an_escape_code_does_not_reach_the_terminal(survey, ask):
    code, found, _ = ask("validate", survey.folder / "\x1b[31m\x9b.yaml")
    assert code == 2
    assert "\x1b" not in json.dumps(found)


DOCUMENTS = [
    model
    for module in (histories, plans, runs)
    for model in vars(module).values()
    if isinstance(model, type) and issubclass(model, runs.Document)
]


@pytest.mark.parametrize("model", DOCUMENTS, ids=lambda model: model.__name__)
def test_every_field_is_documented(model):
    sections = list(sections_of(model))
    assert [key.name for section in sections for key in section.keys if not key.meaning] == []
    assert all(section.summary for section in sections)


@pytest.mark.slow
def test_the_real_command_prints_nothing_else(survey):
    words = [sys.executable, "-m", "hushrank", "run", str(survey.config), "--json"]
    clean = {name: text for name, text in os.environ.items() if not name.startswith("PREFECT_")}
    home = {"PREFECT_HOME": str(survey.folder / "prefect"), "HOME": str(survey.folder)}
    done = subprocess.run(
        words, env={**clean, **home}, cwd=survey.folder, capture_output=True, text=True, timeout=840
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["release"]["name"] == "zoo"
    assert not (survey.folder / "prefect").exists()  # and without Prefect, which makes its folder
