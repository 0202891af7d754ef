"""A noisy look before a release: it stops where rows do not fit, spends its part, and is told."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import binomtest

from hushrank.flows.methods.registry import calibrate
from hushrank.flows.release.release import load_release
from hushrank.flows.run.context import Job
from hushrank.flows.run.drawn import noisy_votes
from hushrank.flows.run.job import prepare_job, read_survey
from hushrank.pipelines.reduce import reduce
from hushrank.pipelines.reduce.reduction_job import read_tally, read_votes
from hushrank.privacy.audit import audit_epsilon
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import system_bits
from hushrank.privacy.units import Unit
from tests.flows.conftest import Survey, answers
from tests.statistics import FALSE_POSITIVE_RATE

PEOPLE = 200
WORDS = {"left": ["first"], "right": ["second"]}
# Noise of scale 2 on 200 votes: that a look goes wrong here has a chance below 1e-30.
SURE = {"privacy__epsilon": 5.0, "privacy__look": 0.2}


@pytest.fixture
def worded(survey: Survey) -> Survey:
    """A leaderboard's log, whose results are words, and words that do not occur in it."""
    table = answers(PEOPLE)
    words = np.where(np.asarray(table["outcome"]) > 0, "model_a", "model_b")
    table = table.set_column(3, "outcome", pa.array(words))
    pq.write_table(table, survey.folder / "answers.parquet")
    return survey.set(input__words=WORDS, ledger__epsilon=20, **SURE)


MENDED = {"input__words": {"left": ["model_a"], "right": ["model_b"]}}


def events(survey: Survey) -> list[dict]:
    return [json.loads(line) for line in survey.ledger.read_text().splitlines()]


def test_unknown_words_stop_the_run_and_mended_ones_go_through(worded, command):
    code, printed = command("run", worded.config, "--direct")
    assert code == 4, printed
    assert "people whose answers fit and" in printed
    assert "as results the words first (left won), second (right won)" in printed
    assert "columns user user, left item_i, right item_j, outcome outcome" in printed
    assert "4 items (ants, bees, cats, ...)" in printed
    assert "hushrank inspect" in printed
    assert "spent epsilon 1 on" in printed
    assert worded.published() == []
    assert [event["event"] for event in events(worded)] == ["open", "reserve", "stop"]
    assert events(worded)[-1]["spend"]["epsilon"] == 1.0

    before = worded.ledger.read_bytes()
    again = command("run", worded.config, "--direct")
    assert again[0] == 4
    assert told(again[1]) == told(printed)  # with the same noise
    (release_id,) = {event["release_id"] for event in events(worded) if "release_id" in event}
    resumed = command("resume", release_id, worded.config)
    assert (resumed[0], told(resumed[1])) == (4, told(printed))
    assert worded.ledger.read_bytes() == before, "nothing was spent again"

    code, printed = command("run", worded.set(**MENDED).config, "--direct")
    assert code == 0, printed
    assert "A noisy look at the rows saw about" in printed
    assert "Spent epsilon 5.00" in printed
    code, printed = command("ledger", "show", worded.config)
    for state in ("stopped", "committed"):
        assert state in printed
    assert "epsilon 14.00 left of 20.00" in printed


def told(printed: str) -> str:
    return " ".join(printed[printed.index("look: stopped.") :].split())


def test_what_was_seen_is_in_the_release_and_in_its_guarantee(worded, command):
    code, printed = command("run", worded.set(**MENDED).config, "--direct", "--json")
    assert code == 0, printed
    release = load_release(worded.output / "release.json")
    look, privacy = release.look, release.privacy
    assert look is not None
    assert (look.voters, look.epsilon, look.noise_scale) == ("people", 1.0, 2.0)
    assert abs(look.fit - PEOPLE) < 100 > abs(look.unfit)
    assert look.share_low < look.share <= 1.0 >= look.share_high > 0.8
    assert privacy.epsilon == 5.0
    assert privacy.noise_scale == 10 / 4.0  # of what the look left
    assert privacy.parameters["look_epsilon"] == 1.0
    statement = " ".join(privacy.statement)
    assert "(e^epsilon, epsilon = 5)" in statement
    assert "a look at the rows took epsilon = 1" in statement
    assert "Epsilon = 4 was left" in statement
    document = json.loads(printed[printed.index("{") : printed.rindex("}") + 1])
    assert document["look"]["fit"] == look.fit
    page = (worded.output / "report.html").read_text()
    assert look.sentence in page.replace("\N{NO-BREAK SPACE}", " ")


def test_many_rows_that_do_not_fit_are_warned_of(worded, command):
    table = pq.read_table(worded.folder / "answers.parquet")
    known = np.asarray(table["user"]) < 0.7 * PEOPLE
    mixed = np.where(known, np.asarray(table["outcome"]), "tie?")
    pq.write_table(
        table.set_column(3, "outcome", pa.array(mixed)), worded.folder / "answers.parquet"
    )
    code, printed = command("run", worded.set(**MENDED).config, "--direct")
    assert code == 0, printed
    assert "Rows that do not fit count nothing." in " ".join(printed.split())


def test_a_look_that_is_not_kept_any_more_is_not_drawn_again(worded, command):
    assert command("run", worded.config, "--direct")[0] == 4
    shutil.rmtree(worded.work)
    before = worded.ledger.read_bytes()
    code, printed = command("run", worded.config, "--direct")
    assert code == 4
    assert "what it saw is not kept" in printed
    assert worded.ledger.read_bytes() == before


def test_single_answers_are_looked_at_too(worded, command):
    worded.set(privacy={"unit": "comparison", "epsilon": 5.0, "look": 0.2})
    code, printed = command("run", worded.config, "--direct")
    assert code == 4, printed
    assert "rows that fit" in printed
    worded.set(**MENDED)
    code, printed = command("run", worded.config, "--direct")
    assert code == 0, printed
    look = load_release(worded.output / "release.json").look
    assert look is not None
    assert look.voters == "rows"
    assert abs(look.fit - 6 * PEOPLE) < 100 > abs(look.unfit)


def test_a_night_that_stops_keeps_no_other_from_being_ranked(worded, command):
    bad = worded.folder / "answers.parquet"
    bad.rename(worded.folder / "2024-11-16.parquet")
    table = answers(PEOPLE)
    words = np.where(np.asarray(table["outcome"]) > 0, "first", "second")
    pq.write_table(
        table.set_column(3, "outcome", pa.array(words)), worded.folder / "2024-11-17.parquet"
    )
    worded.set(input__paths=["{date}.parquet"])
    nights = ("--from", "2024-11-16", "--to", "2024-11-17", "--direct")
    code, printed = command("backfill", worded.config, *nights)
    assert code == 4, printed
    assert [event["event"] for event in events(worded)] == [
        *("open", "reserve", "stop", "reserve", "draw", "commit")
    ]
    before = worded.ledger.read_bytes()
    assert command("backfill", worded.config, *nights)[0] == 4
    assert worded.ledger.read_bytes() == before


def test_times_that_cannot_be_read_stop_a_night(worded, command):
    """No row is of any night, so the rows that fit are none; the people are named all the same."""
    table = pq.read_table(worded.folder / "answers.parquet")
    forms = {"2026-11-02 10:15 +01:00": 0, "2026/11/03 10:15:00 AM GMT+1": 4}
    for day, (time, code) in enumerate(forms.items(), 2):
        night = ("--date", f"2026-11-0{day}")
        column = pa.array([time] * len(table))
        pq.write_table(table.append_column("at", column), worded.folder / "answers.parquet")
        worded.set(**MENDED, schedule={"window": "at", "timezone": "Europe/Berlin"})
        told = "Column at (schedule.window) should hold dates or times such as 2026-11-20, 2026"
        assert told in command("validate", worded.config, *night)[1]
        found, printed = command("run", worded.config, "--direct", *night)
        assert found == code, printed
    assert "in column at dates or times such as 2026-11-20, 2026-11-20 18:30 or" in printed
    assert events(worded)[-1]["event"] == "stop"


def test_a_night_of_bad_data_ends_a_schedule_with_the_code_of_bad_data(worded, command):
    today = datetime.now(UTC).date()
    before, last = today - timedelta(days=2), today - timedelta(days=1)
    bad = worded.folder / "answers.parquet"
    bad.rename(worded.folder / f"{last}.parquet")
    words = np.where(np.asarray(answers(PEOPLE)["outcome"]) > 0, "first", "second")
    good = answers(PEOPLE).set_column(3, "outcome", pa.array(words))
    pq.write_table(good, worded.folder / f"{before}.parquet")
    worded.set(input__paths=["{date}.parquet"])
    assert command("run", worded.config, "--date", before, "--direct")[0] == 0
    for _ in range(2):
        code, printed = command("catch-up", worded.config, "--direct")
        assert code == 4, printed
    kinds = [event["event"] for event in events(worded)]
    assert kinds == ["open", "reserve", "draw", "commit", "reserve", "stop"]


def test_a_seeded_run_stops_as_well_and_counts_nothing(worded, command):
    for _ in range(2):
        code, printed = command("run", worded.config, "--direct", "--unsafe-seed", "7")
        assert code == 4, printed
    assert [event["event"] for event in events(worded)] == ["open", "unsafe"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"privacy": {"unit": "user", "rho": 0.1, "noise": "gaussian", "max_contributions": 6,
                      "look": 0.02}}, "privacy.look: takes a share of epsilon"),
        ({"privacy__look": 0.7}, "privacy.look"),
        ({"privacy__look": 0.0}, "privacy.look"),
        ({"privacy": {"unit": "comparison", "epsilon": 1.0, "look": {"share": 0.1, "people": 9}}},
         "privacy.look.people: counts people, so it needs unit: user"),
        ({"privacy": {"unit": "local", "epsilon": 1.0, "look": 0.02}, "method": "debiased-rr",
          "input__ties": "random", "input__design": None}, "privacy.look: has no meaning"),
    ],
)  # fmt: skip
def test_where_there_can_be_no_look_it_is_refused(survey, command, changes, told):
    code, printed = command("validate", survey.set(**changes).config)
    assert code == 2
    assert told in printed


@pytest.fixture
def rows_of_kind(tmp_path: Path) -> Callable[[str, list[str]], Survey]:
    """Make a survey of `PEOPLE` people who write these items, of a catalogue with Q1 to Q4."""

    def made(kind: str, items: list[str]) -> Survey:
        values = {"rankings": "rank", "responses": "correct"}
        rng = np.random.default_rng(0)
        cells = np.tile([1, 2, 3, 4], PEOPLE)
        if kind == "responses":
            cells = rng.random(4 * PEOPLE) < 0.6
        table = pa.table(
            {
                "user": np.repeat(np.arange(PEOPLE), 4),
                "item": items * PEOPLE,
                values[kind]: np.asarray(cells, np.int64),
            }
        )
        pq.write_table(table, tmp_path / "rows.parquet")
        settings = {
            "name": "quiz",
            "input": {"kind": kind, "paths": ["rows.parquet"], "columns": {}},
            "items": {"names": ["Q1", "Q2", "Q3", "Q4"]},
            "privacy": {"unit": "user", "max_contributions": 4, "epsilon": 5.0, "look": 0.2},
            "method": {"rankings": "borda", "responses": "spectral"}[kind],
            "output": "out",
            "confidential": "work",
            "ledger": {"path": "ledger.jsonl", "epsilon": 20},
        }
        return Survey(tmp_path, settings).set()

    return made


@pytest.mark.parametrize("kind", ["rankings", "responses"])
def test_rankings_and_tests_stop_where_items_have_other_names(rows_of_kind, command, kind):
    survey = rows_of_kind(kind, ["q1", "q2", "q3", "Q4"])
    code, printed = command("run", survey.config, "--direct")
    assert code == 4, printed
    assert "people whose answers fit and" in printed
    assert "4 items (Q1, Q2, Q3, ...)" in printed
    assert events(survey)[-1]["spend"]["epsilon"] == 1.0
    code, printed = command("run", rows_of_kind(kind, ["Q1", "Q2", "Q3", "q4"]).config, "--direct")
    assert code == (4 if kind == "rankings" else 0), printed  # no ranking, three of four answers
    code, printed = command("run", rows_of_kind(kind, ["Q1", "Q2", "Q3", "Q4"]).config, "--direct")
    assert code == 0, printed
    release = load_release(survey.output / "release.json")
    assert release.look is not None
    assert release.look.fit > PEOPLE / 2
    assert "a look at the rows took epsilon = 1" in " ".join(release.privacy.statement)


def test_people_who_are_missing_stop_a_run_that_says_how_many_were_asked(worded, command):
    worded.set(**MENDED, privacy__look={"share": 0.2, "people": 2 * PEOPLE + 100})
    code, printed = command("run", worded.config, "--direct")
    assert code == 4, printed
    said = " ".join(printed.split())
    assert re.search(r"The pilot query saw about \d+ people of the 500 who were asked, give", said)
    assert events(worded)[-1]["spend"]["epsilon"] == 1.0
    assert worded.published() == []


def test_a_run_without_that_number_never_stops_for_silence(worded, command):
    table = pq.read_table(worded.folder / "answers.parquet")
    nobody = table.set_column(0, "user", pa.nulls(len(table), pa.int64()))
    pq.write_table(nobody, worded.folder / "answers.parquet")
    code, printed = command("run", worded.set(**MENDED).config, "--direct")
    assert code == 0, printed
    assert re.search(r"The pilot query saw about \d+ people, give or take 1\d ", printed)
    said = " ".join(printed.split())
    assert "noise need not be the reason: The pilot query saw about" in said
    assert "the noise that protects people is as large" not in said
    worded.set(privacy__look={"share": 0.2, "people": PEOPLE}, output="other")
    code, printed = command("run", worded.config, "--direct")
    assert code == 4, printed


def test_a_release_says_first_how_many_were_seen_and_its_statement_that_it_might_have_stopped(
    worded, command
):
    worded.set(**MENDED, privacy__look={"share": 0.2, "people": PEOPLE})
    code, printed = command("run", worded.config, "--direct")
    assert code == 0, printed
    assert printed.index("The pilot query saw about") < printed.index("place  item")
    release = json.loads((worded.output / "release.json").read_text())
    assert release["look"]["people"] == PEOPLE
    page = (worded.output / "report.html").read_text()
    assert page.index("The pilot query saw about") < page.index('class="verdict"')
    statement = release["privacy"]["statement"]
    place = next(k for k, each in enumerate(statement) if "a look at" in each)
    assert f"fewer than half of the {PEOPLE} people asked" in statement[place + 1]
    assert command("verify", worded.output, "--ledger", worded.ledger)[0] == 0


def test_a_job_without_a_pilot_query_says_so_in_one_line(worded, command):
    worded.set(**MENDED, privacy__look=None)
    for words in (("validate",), ("run", "--direct")):
        code, printed = command(words[0], worded.config, *words[1:])
        assert code == 0, printed
        assert printed.count("This job has no pilot query (privacy.look)") == 1


def test_validate_says_which_numbers_a_column_of_outcomes_may_hold(survey, command):
    printed = command("validate", survey.config)[1]
    assert "Column outcome should hold 1 (left won), -1 (right won) or 0 (a tie)" in printed


HEAVY = 40  # rows of the person who changes
M = 20_000


def votes_of(survey: Survey, outcome: str) -> tuple[Job, np.ndarray, np.ndarray]:
    """People's votes, and rows, of a log in which person 999 has `HEAVY` rows of this outcome."""
    table = answers(3)
    words = np.where(np.asarray(table["outcome"]) > 0, "model_a", "model_b")
    table = table.set_column(3, "outcome", pa.array(words))
    person = {"user": [999] * HEAVY, "item_i": [0] * HEAVY, "item_j": [1] * HEAVY}
    more = pa.table({**person, "outcome": [outcome] * HEAVY}).cast(table.schema)
    pq.write_table(pa.concat_tables([table, more]), survey.folder / "answers.parquet")
    job = prepare_job(read_survey(survey.config))
    folder = survey.folder / f"exact-{outcome}"
    reduction = job.reduction(SecretKey.draw(system_bits()), folder)
    reduce.run(reduction)
    tally = read_tally(str(folder))
    rows = np.array([tally["rows_sent"], tally["rows_rejected"]])
    return job, read_votes(str(folder), Unit.USER), rows


def test_a_look_keeps_its_epsilon_and_one_at_rows_does_not(worded):
    worded.set(**MENDED, privacy__epsilon=2.0, privacy__look=0.5)
    job, one, rows_one = votes_of(worded, "model_a")
    _, other, rows_other = votes_of(worded, "no word")
    assert (one.tolist(), other.tolist()) == ([4, 0], [3, 1]), "one person, one vote"

    def look(votes, runs):
        noisy = noisy_votes(np.tile(votes, (runs, 1)), job.drawn_by.look, system_bits())
        assert noisy is not None
        return noisy

    def bound(votes, others):
        confidence = 1 - FALSE_POSITIVE_RATE
        found = audit_epsilon(look, votes, others, trials=M, confidence=confidence)
        return found.epsilon_lower

    assert 0.5 < bound(one, other) <= 1.0  # epsilon of the look
    assert bound(rows_one, rows_other) > 2.0  # nothing bounds what a person's rows move


def test_the_noise_of_a_look_has_its_law(worded):
    worded.set(**MENDED, privacy__epsilon=2.0, privacy__look=0.1)
    job = prepare_job(read_survey(worded.config))
    noise = noisy_votes(np.zeros((M, 2), np.int64), job.drawn_by.look, system_bits())
    assert noise is not None
    scale = 2 / 0.2  # votes move by 2, at epsilon 0.2

    def p_value(scale: float) -> float:
        beyond = 2 * math.exp(-10 / scale) / (1 + math.exp(-1 / scale))  # P(|X| >= 10)
        return float(binomtest(int((np.abs(noise) >= 10).sum()), noise.size, beyond).pvalue)

    assert p_value(scale) > FALSE_POSITIVE_RATE
    assert p_value(1.2 * scale) < FALSE_POSITIVE_RATE
    assert p_value(0.8 * scale) < FALSE_POSITIVE_RATE


KINDS = {
    "fits": "7,0,1,1\n",
    "unknown item": "7,0,9,1\n",
    "unknown result": "7,0,1,yes\n",
    "tie": "7,0,1,0\n",
    "no person": ",0,1,1\n",
    "no row": "7,0\n",
    "nothing": "",
}


@pytest.mark.parametrize("unit", ["user", "comparison"])
@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_a_row_of_any_kind_moves_the_votes_by_no_more_than_is_stated(survey, unit, adjacency):
    """One row is all that the person, or the unit, has; every pair of kinds is compared."""
    bound = {"max_contributions": 6} if unit == "user" else {}
    survey.set(
        privacy={"unit": unit, "epsilon": 2.0, "look": 0.1, "adjacency": adjacency, **bound},
        input__paths=["rows.csv"],
    )
    others = "user,item_i,item_j,outcome\n1,0,1,1\n1,2,3,x\n1,1,3,-1\n2,0,9,1\n"
    votes = {}
    for number, (kind, row) in enumerate(KINDS.items()):
        (survey.folder / "rows.csv").write_text(others + row)
        job = prepare_job(read_survey(survey.config))
        reduction = job.reduction(SecretKey.draw(system_bits()), survey.folder / f"w{number}")
        reduce.run(reduction)
        votes[kind] = read_votes(reduction.confidential, Unit(unit))
    look = calibrate(job.config).look
    assert look is not None
    pairs = [(one, other) for one in KINDS for other in KINDS]
    if adjacency == "add-remove":
        pairs = [(kind, "nothing") for kind in KINDS]
    moved = {pair: int(np.abs(votes[pair[0]] - votes[pair[1]]).sum()) for pair in pairs}
    assert max(moved.values()) == look.sensitivity.l1
    voters = np.array([1, 1]) if unit == "user" else np.array([2, 2])
    np.testing.assert_array_equal(votes["nothing"], voters)
    for silent in ("tie", *(("no person", "no row") if unit == "user" else ())):
        np.testing.assert_array_equal(votes[silent], voters)


def _without_names(rows: list[dict[str, object]], folder: Path, kind: str) -> Path:
    """A file of votes whose people cannot be told apart, or of none."""
    path = folder / f"votes.{'parquet' if kind == 'floats' else 'csv'}"
    if kind == "key":
        path = folder / "votes.jsonl"
        renamed = [{("who" if key == "u" else key): v for key, v in row.items()} for row in rows]
        path.write_text("".join(f"{json.dumps(row)}\n" for row in renamed))
    elif kind == "floats":
        large = [row | {"u": float(2**53 + 2 + 2 * k)} for k, row in enumerate(rows)]
        pq.write_table(pa.Table.from_pylist(large), path)
    else:
        shown = [row | {"u": f"9.91214E+{15 + k % 2}"} for k, row in enumerate(rows)]
        lines = [] if kind == "empty" else [",".join(map(str, row.values())) for row in shown]
        path.write_text("\n".join([",".join(rows[0]), *lines]) + "\n")
    return path


@pytest.mark.parametrize("kind", ["key", "floats", "excel", "empty"])
def test_people_who_cannot_be_told_apart_cost_a_look_and_no_more(tmp_path, command, kind):
    """A renamed key, ids above 2^53 as floats, ids that Excel cut short, a file without rows."""
    rows = [{"u": f"p{k}", "a": "x", "b": "y", "w": "xy"[k % 2]} for k in range(600)]
    path = _without_names(rows, tmp_path, kind)
    job = tmp_path / "survey.yaml"
    job.write_text(
        f"name: votes\ninput: {{kind: comparisons, design: any, paths: [{path.name}],"
        " columns: {user: u, left: a, right: b, winner: w}}\nitems: {names: [x, y]}\n"
        "privacy: {unit: user, epsilon: 2, max_contributions: 1,"
        " look: {share: 0.05, people: 600}}\n"
        "method: auto\noutput: out\nconfidential: work\nledger: {path: ledger, epsilon: 10}\n"
    )
    code, printed = command("run", job, "--direct")
    assert code == 4, printed
    assert "of the 600 who were asked" in printed
    code, printed = command("ledger", "show", job)
    assert "epsilon 9.90 left of 10.00" in " ".join(printed.split())
