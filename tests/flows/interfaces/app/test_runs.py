"""Runs that the page starts: paid for once, whoever closes, kills or changes what."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from threading import Thread
from urllib.request import Request, urlopen

import nbformat
import pytest
import yaml

from hushrank.flows.interfaces.app import runs as runs_module
from hushrank.flows.interfaces.app.server import Page
from tests.flows.interfaces.app.conftest import ANSWERS, Asker
from tests.flows.planning.propose.test_shapes import EPSILON, ITEMS, SHAPES, WRITERS

POLL = 0.1  # seconds

pytestmark = pytest.mark.slow


def ended(page: Page) -> dict:
    """The state of the last run, once it has ended."""
    while (state := page.runs.state())["going_on"]:
        time.sleep(POLL)
    return state


def entries() -> list[str]:
    return Path(".hushrank/ledger.jsonl").read_text().splitlines()


def start(asker: Asker, digest: str, survey: str = "survey.yaml"):
    return asker.post("api/run", {"survey": survey, "digest": digest})


@pytest.fixture
def ready(asker) -> str:
    """A job that may be run; the digest of its file."""
    asker.written(ANSWERS)
    return asker.paid()


def test_a_run_ends_in_a_report_with_all_downloads(asker, page, ready, command):
    assert start(asker, ready).status_code == 200
    with asker.client.stream("GET", "/5ec7e7/api/run/events") as events:
        sent = [json.loads(line[6:]) for line in events.iter_lines() if line.startswith("data: ")]
    assert sent[-1]["going_on"] is False
    steps = [line.split()[0] for line in sent[-1]["steps"]]
    assert [step for step in steps if step in ("reserve", "reduce", "draw", "publish")] == [
        *("reserve", "reduce", "draw", "publish")
    ]
    result = sent[-1]["result"]
    assert result["ranking"][0]["item"] == ITEMS[0]
    (release,) = asker.get("api/past?survey=survey.yaml").json()["releases"]
    assert release["release_id"] == result["release"]["release_id"]
    for file in release["files"]:
        found = asker.get(f"released/survey.yaml/{release['release_id']}/{file}")
        assert found.status_code == 200
        assert found.headers["content-security-policy"].startswith("sandbox")
        if file != "ranking.svg":
            (kept,) = Path("out/votes").glob(f"*/*{release['release_id']}/{file}")
            assert found.content == kept.read_bytes()
    saved = asker.get("download/survey.yaml?survey=survey.yaml")
    assert saved.content == Path("survey.yaml").read_bytes()
    assert saved.headers["content-disposition"] == 'attachment; filename="survey.yaml"'
    notebook = nbformat.reads(
        asker.get("download/survey.ipynb?survey=survey.yaml").text, as_version=4
    )
    nbformat.validate(notebook)
    before = entries()
    shown: dict = {}
    exec("\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code"), shown)
    assert shown["release"].record.release_id == release["release_id"]
    code, printed = command("run", "--direct", "survey.yaml")
    assert code == 0
    assert "This release was drawn before: nothing was spent now." in " ".join(printed.split())
    assert entries() == before
    checked = asker.post("api/check", {"survey": "survey.yaml", "what": "verify"}).json()
    assert checked["good"], checked["lines"]
    assert "<svg" in asker.get("history.svg?survey=survey.yaml").text


def test_two_tabs_pay_once(asker, page, ready):
    answers = []
    threads = [Thread(target=lambda: answers.append(start(asker, ready))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    codes = sorted(each.status_code for each in answers)
    assert codes[0] == 200
    assert ended(page)["result"]["spent"] is not None
    before = entries()
    start(asker, ready)
    assert ended(page)["result"]["spent"] is None
    assert entries() == before


def test_a_second_run_waits_for_the_first(asker, page, ready):
    other = Page.of(page.folder)  # another server of the same folder
    assert start(asker, ready).status_code == 200
    refused = start(Asker(other), ready)
    other.budgets.close()
    if refused.status_code != 200:  # unless the first has ended already
        assert refused.json()["error"].startswith("A run goes on in this folder already")
    state = ended(page)
    assert state["result"].get("spent") or state["result"].get("release")


def test_a_run_that_is_being_started_is_not_taken_for_a_killed_one(asker, page, ready, monkeypatch):
    """Another tab looks while a run is being started."""
    seen: list[dict] = []
    looks: list[Thread] = []

    def waiting(*_) -> None:
        looks.append(Thread(target=lambda: seen.append(page.runs.state())))
        looks[0].start()
        wait(*_)

    wait = runs_module._wait_for_lock
    monkeypatch.setattr(runs_module, "_wait_for_lock", waiting)
    start(asker, ready)
    looks[0].join()
    assert seen[0]["going_on"] or "error" not in seen[0]["result"]
    ended(page)


def test_what_the_person_did_not_see_is_not_run(asker, page, ready):
    text = Path("survey.yaml").read_text()
    Path("survey.yaml").write_text(text.replace("epsilon: 8 ", "epsilon: 9 "))
    digest = ready
    for _ in range(2):  # to press Run again runs no more than was seen, either
        assert start(asker, digest).status_code == 200
        state = ended(page)
        assert "was changed since this page showed it" in state["result"]["error"]["message"]
        digest = state["digest"]
    assert not Path(".hushrank/ledger.jsonl").exists()


def test_a_refused_budget_says_so_and_spends_nothing(asker, page, ready):
    content = yaml.safe_load(Path("survey.yaml").read_text())
    content["ledger"]["epsilon"] = 1
    Path("survey.yaml").write_text(yaml.safe_dump(content))
    start(asker, asker.digest())
    error = ended(page)["result"]["error"]
    assert (error["kind"], error["exit_code"]) == ("BudgetRefused", 3)
    assert not Path("out").exists()


def test_a_killed_run_is_told_and_run_again(asker, page, ready):
    start(asker, ready)
    os.kill(page.runs.note()["process"], signal.SIGKILL)
    state = ended(page)
    if "error" in state["result"]:  # unless it had ended before
        assert state["result"]["error"]["message"] == runs_module.CUT_OFF
    start(asker, ready)
    result = ended(page)["result"]
    assert result["ranking"][0]["item"] == ITEMS[0]
    assert result["budget"]["left"] == pytest.approx(10 - 8, abs=1e-6)


def test_a_run_outlives_a_killed_server_and_the_next_one_shows_it(asker, ready, folder, started):
    address, process = started(folder)
    body = json.dumps({"survey": "survey.yaml", "digest": ready}).encode()
    headers = {"content-type": "application/json", "origin": address.rsplit("/", 2)[0]}
    with urlopen(Request(f"{address}api/run", body, headers)) as response:
        assert response.status == 200
    process.kill()
    process.wait()
    address, _ = started(folder)
    with urlopen(f"{address}api/run/events") as events:
        last = [line for line in events.read().decode().splitlines() if line][-1]
    result = json.loads(last.removeprefix("data: "))["result"]
    assert result["ranking"][0]["item"] == ITEMS[0]


def test_no_exact_count_is_in_what_the_page_keeps(asker, page, ready, folder):
    start(asker, ready)
    ended(page)
    rows = len((folder / "votes.csv").read_text().splitlines()) - 1
    for path in (folder / ".hushrank/app").iterdir():
        assert f" {rows} " not in path.read_text()
        assert "u17" not in path.read_text()


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_every_form_of_file_leads_to_a_ranking(asker, page, folder, shape):
    WRITERS[Path(shape.file).suffix](Path(shape.file), shape.rows())
    found = asker.post("api/head", {"file": shape.file}).json()
    given = {each["key"]: shape.choices.get(each["key"].rpartition(".")[2], "") for each in
             found["questions"]}  # fmt: skip
    done = asker.post("api/survey", {"file": shape.file, "answers": given}).json()
    digest = asker.paid(float(EPSILON), done["survey"])
    start(asker, digest, done["survey"])
    result = ended(page)["result"]
    assert result["ranking"][0]["item"] == shape.first
