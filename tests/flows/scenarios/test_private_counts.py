"""Counts beside a ranking, from rows to every place where people read them."""

from __future__ import annotations

import csv
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hushrank as hr
from hushrank.flows.methods.registry import calibrate, load_config
from hushrank.flows.release.release import load_release
from hushrank.flows.statement.record import CountsRecord
from tests.flows.conftest import Survey

PEOPLE = 31_173
ITEMS = ["ants", "bees", "cats", "dogs"]
ALL = {"share": 0.5, "of": ["people", "answers", "contradictions"]}
FAR = 21  # scales: noise goes further with a chance below 1e-9


def log() -> pa.Table:
    """A third of the people answer once, a third twice alike, a third once for each side."""
    answers = np.where(np.arange(PEOPLE) % 3 == 0, 1, 2)
    user = np.repeat(np.arange(PEOPLE), answers)
    second = np.concatenate([[False], user[1:] == user[:-1]])
    turned = second & (user % 3 == 2)
    return pa.table(
        {
            "user": user,
            "item_i": np.array(ITEMS)[user % 4],
            "item_j": np.array(ITEMS)[(user + 1) % 4],
            "outcome": np.where(turned, -1, 1).astype(np.int8),
        }
    )


@pytest.fixture
def counted(survey: Survey) -> Survey:
    pq.write_table(log(), survey.folder / "answers.parquet")
    return survey.set(
        privacy__counts=ALL,
        privacy__epsilon=6.0,
        privacy__max_contributions=2,
        privacy__distinct_pairs=None,
        ledger__epsilon=30,
    )


def ran(survey: Survey, command: Any) -> tuple[str, CountsRecord]:
    code, printed = command("run", survey.config, "--direct")
    assert code == 0, printed
    counts = load_release(survey.output / "release.json").counts
    assert counts is not None
    return " ".join(printed.split()), counts


def test_each_number_is_near_the_true_one_and_told_and_verified(counted, command):
    printed, counts = ran(counted, command)
    third = PEOPLE // 3
    true = {"people": PEOPLE, "answers": 5 * third, "contradicting": third, "consistent": third}
    assert {*counts.numbers} == {*true}
    for name, number in counts.numbers.items():
        assert abs(number.count - true[name]) < FAR * number.noise_scale
        assert number.low <= number.count <= number.high
    scales = [number.noise_scale for number in counts.numbers.values()]
    assert scales == pytest.approx([1.0, 2.0, 2.0, 2.0])
    assert counts.epsilon == pytest.approx(3.0)
    assert counts.contradictions.share == pytest.approx(0.5, abs=0.05)
    release = load_release(counted.output / "release.json")
    assert release.privacy.epsilon == 6.0
    assert "counts beside the ranking took epsilon = 3, " in " ".join(release.privacy.statement)
    page = (counted.output / "report.html").read_text().replace("\N{NO-BREAK SPACE}", " ")
    assert len([*release.count_sentences]) == 2
    for sentence in release.count_sentences:
        assert sentence in printed
        assert sentence in page
    assert "Spent epsilon 6.00" in printed
    code, told = command("verify", counted.output)
    assert code == 0, told


def test_python_json_and_the_table_of_counts_have_them(counted, command):
    _, counts = ran(counted, command)
    table = hr.read_release(counted.output).counts.to_arrow().to_pylist()
    assert [row["what"] for row in table] == [*counts.numbers]
    assert table[0]["count"] == counts.people.count
    code, printed = command("run", counted.config, "--direct", "--json")
    assert code == 0
    document = json.loads(printed[printed.index("{") : printed.rindex("}") + 1])
    assert document["counts"]["people"]["count"] == counts.people.count
    file = counted.folder / "counts.csv"
    code, printed = command("export", counted.output, "--table", "counts", "--out", file)
    assert code == 0, printed
    rows = {row["what"]: row for row in csv.DictReader(file.read_text().splitlines())}
    assert float(rows["answers"]["count"]) == counts.answers.count
    assert float(rows["answers"]["sd_noise"]) == pytest.approx(counts.answers.deviation)


def test_a_second_run_publishes_the_same_counts_and_pays_nothing(counted, command):
    _, first = ran(counted, command)
    before = counted.ledger.read_bytes()
    _, second = ran(counted, command)
    assert first == second
    assert counted.ledger.read_bytes() == before


def test_only_rows_within_the_bounds_count(counted, command):
    _, counts = ran(counted.set(privacy__max_contributions=1), command)
    assert abs(counts.answers.count - PEOPLE) < FAR * counts.answers.noise_scale
    assert abs(counts.contradictions.contradicting.count) < FAR * 2.0


def test_rows_that_break_a_rule_count_nowhere(counted, command):
    table = log()
    unknown = np.where(np.asarray(table["user"]) % 2, "newt", np.asarray(table["item_i"]))
    table = table.set_column(1, "item_i", pa.array(unknown))
    pq.write_table(table, counted.folder / "answers.parquet")
    _, counts = ran(counted, command)
    assert abs(counts.people.count - PEOPLE / 2) < FAR * counts.people.noise_scale


def test_nothing_that_leaves_the_confidential_folder_holds_the_exact_number(counted, command):
    counted.set(privacy__counts={"share": 1e-6, "of": ["people"]})
    told = {"terminal": ran(counted, command)[0], "ledger": counted.ledger.read_text()}
    for path in counted.output.rglob("*"):
        if path.is_file():
            told[path.name] = path.read_text(errors="ignore")
    assert len(told) > 4
    for where, text in told.items():
        assert str(PEOPLE) not in text, where
        assert f"{PEOPLE:,}" not in text, where


def test_where_people_may_have_several_names_all_places_say_names(counted, command):
    printed, counts = ran(counted.set(privacy__names_per_person=3), command)
    scales = [number.noise_scale for number in counts.numbers.values()]
    assert scales == pytest.approx([3.0, 6.0, 6.0, 6.0])
    release = load_release(counted.output / "release.json")
    page = (counted.output / "report.html").read_text().replace("\N{NO-BREAK SPACE}", " ")
    told = [*release.count_sentences, "user names who contradict themselves to within 18"]
    assert f"about {counts.people.count:,}" in told[0].lower()
    for number, name in zip(told, ("user names gave", "user names with", "within 18"), strict=True):
        assert name in number
        assert "people" not in number
        assert number in printed
    for sentence in release.count_sentences:
        assert sentence in page
    statement = " ".join(release.privacy.statement)
    certificate = (counted.output / "certificate.json").read_text()
    for text in ("how many user names have an answer", "how many user names contradict"):
        assert text in statement
        assert text in certificate
    code, verified = command("verify", counted.output)
    assert code == 0, verified


def test_a_plan_and_validate_tell_the_price(counted, command):
    for name in ("validate", "plan"):
        code, printed = command(name, counted.config, *(("--people", "500") * (name == "plan")))
        assert code == 0, printed
    code, printed = command("validate", counted.config)
    told = " ".join(printed.split())
    assert "counts beside the ranking (epsilon 3): people to within 3, answers to within 6" in told


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"privacy__distinct_pairs": True}, "contradictions needs people with several answers"),
        ({"privacy": {"unit": "comparison", "epsilon": 2.0, "counts": ALL}},
         "people counts people, so it needs unit: user"),
        ({"privacy__counts": {"share": 0.1, "of": ["people", "people"]}}, "names a count twice"),
        ({"privacy__counts": 0.6}, "privacy.counts"),
        ({"privacy__epsilon": None, "privacy__rho": 0.1, "privacy__noise": "gaussian"},
         "counts: takes a share of epsilon, and rho is given instead"),
        ({"privacy__look": 0.5}, "leaves no epsilon for the ranking"),
        ({"privacy__counts": 1e-19}, "privacy.counts: epsilon 3e-19 is too small"),
        ({"privacy__counts": None, "privacy__look": 1e-19}, "privacy.look: epsilon 6e-19 is too"),
        ({"input": {"kind": "rankings", "paths": ["answers.parquet"]}, "method": "borda"},
         "contradictions is for comparisons, got kind: rankings"),
    ],
)  # fmt: skip
def test_what_cannot_be_counted_is_refused_by_name(counted, changes, message):
    counted.set(**changes)
    with pytest.raises(hr.ConfigError) as refused:
        calibrate(load_config(counted.config))
    assert message in " ".join(str(refused.value).split())


def test_however_the_same_counts_are_written_they_are_one_job_and_paid_once(counted, command):
    counted.set(privacy__counts=0.05)
    usual = load_config(counted.config)
    assert command("run", counted.config, "--direct")[0] == 0
    for of in (["people", "answers"], ["answers", "people"]):
        counted.set(privacy__counts={"share": 0.05, "of": of})
        config = load_config(counted.config)
        assert config.job_hash() == usual.job_hash()
        assert config.job_hash(by_words=True) != usual.job_hash()  # as versions before wrote it
        assert "nothing was spent now" in command("run", counted.config, "--direct")[1]
    counted.set(privacy__counts={"share": 0.05, "of": ["answers"]})
    assert load_config(counted.config).job_hash() != usual.job_hash()
