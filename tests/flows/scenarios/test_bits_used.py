"""Safe is what was drawn from bits that nobody can predict, and nothing else.

Where a test compares two draws, a correct program fails it with a probability below 10^-7.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.flows.assembly import MEMORY
from hushrank.flows.errors import DrawError, PredictableBits
from hushrank.flows.run.confidential_folder import Exact
from hushrank.flows.run.context import Job, ledger_of
from hushrank.flows.run.job import prepare_job, read_survey
from hushrank.flows.run.run import draw, reduce, reserve
from hushrank.pipelines.reduce import reduce as reductions
from hushrank.pipelines.reduce import reduce_private, reduce_rankings, reduce_responses
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import BitSource, BitsUsed, Purpose, seeded_bits, system_bits
from tests.flows.conftest import InProcessReducer, SharedReducer, Survey
from tests.flows.every_method import BITS, COMPARISONS, VARIANTS, survey_of

FROM_A_STREAM = [name for name in VARIANTS if "system" in BITS[name].get("randomisation", [])]


@pytest.fixture(autouse=True)
def without_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "hushrank.flows.report.page.render_report", lambda *_, **__: "<html></html>"
    )


# Where names are found, no rows are reduced unless names were drawn.
@pytest.mark.parametrize("name", [each for each in VARIANTS if "found names" not in each])
def test_a_reduction_of_next_to_no_rows_tells_of_the_same_bits(name, tmp_path):
    """With nothing to choose and no tie, so what a release says of bits tells nothing of rows."""
    job = prepare_job(read_survey(survey_of(name, tmp_path, people=1).config))
    reduce(job, SharedReducer().run)
    told = json.loads((job.work / "bits.json").read_text())
    assert told == {purpose: BITS[name][purpose] for purpose in BITS[name] if purpose != "noise"}


def reserved(job: Job):
    ledger = ledger_of(job.config)
    reserve(job, MEMORY)
    return ledger


def states(survey: Survey) -> list[str]:
    return [json.loads(line)["event"] for line in survey.ledger.read_text().splitlines()]


def seeded_by_the_release(job: Job):
    """What a bug might take for random: the release key, which is published."""
    return seeded_bits(int(job.release_id, 16))


@pytest.mark.parametrize("name", ["noisy-counts", "debiased-rr", "kemeny"])
def test_bits_that_follow_from_a_published_number_release_nothing_and_cost_nothing(
    name, tmp_path, command, monkeypatch
):
    survey = survey_of(name, tmp_path)
    monkeypatch.setattr(Job, "bits", seeded_by_the_release)
    code, printed = command("run", survey.config, "--direct")
    assert code == 1
    assert "do not come from the operating system" in printed
    assert states(survey) == ["open", "reserve", "cancel"]
    assert not survey.output.exists()


def test_noise_of_the_simulated_sampler_is_never_stored(tmp_path, monkeypatch):
    """As a bug would draw it: from good bits, by the fast sampler."""
    survey = survey_of("noisy-counts", tmp_path)
    job = prepare_job(read_survey(survey.config))
    reserved(job)
    reduce(job, InProcessReducer().run)
    monkeypatch.setattr("hushrank.privacy.noise._exact_noise", simulated())
    with pytest.raises(DrawError, match="not drawn from bits of the operating system"):
        draw(job, Exact(job.work))
    assert not (job.work / "drawn.npz").exists()


def simulated() -> Callable:
    from hushrank.privacy.noise import _simulated_noise

    return _simulated_noise


def test_a_draw_without_any_random_bit_is_never_stored(tmp_path, monkeypatch):
    survey = survey_of("noisy-counts", tmp_path)
    job = prepare_job(read_survey(survey.config))
    reserved(job)
    reduce(job, InProcessReducer().run)
    forgotten = "hushrank.estimation.common.central_noise.add_noise"
    monkeypatch.setattr(forgotten, lambda counts, law, bits: counts)
    with pytest.raises(DrawError, match="not drawn from bits of the operating system"):
        draw(job, Exact(job.work))
    assert not (job.work / "drawn.npz").exists()


@pytest.mark.parametrize("name", FROM_A_STREAM)
def test_workers_that_draw_from_a_seed_are_found_before_anything_is_spent(
    name, tmp_path, monkeypatch
):
    job = prepare_job(read_survey(survey_of(name, tmp_path).config))
    ledger = reserved(job)
    for module in (reduce_private, reduce_rankings, reduce_responses):
        monkeypatch.setattr(module, "system_bits", lambda: seeded_bits(1))
    reduce(job, InProcessReducer().run)
    with pytest.raises(PredictableBits, match="no budget was spent"):
        draw(job, Exact(job.work))
    assert str(ledger.state(job.release_id)) == "reserved"


def test_a_reduction_that_does_not_say_which_bits_it_used_is_not_drawn_from(tmp_path):
    job = prepare_job(read_survey(survey_of("noisy-counts", tmp_path).config))
    reserved(job)
    reduce(job, InProcessReducer().run)
    (job.work / "bits.json").unlink()
    with pytest.raises(PredictableBits, match="left no record of the random bits"):
        draw(job, Exact(job.work))


def coin_rows(folder: Path) -> pa.Table:
    """Sixty people with two rows each, of which one counts: each tosses a coin of the key."""
    pair = np.repeat(np.arange(60), 2)
    return pa.table(
        {
            "user": pair,
            "item_i": 2 * pair,
            "item_j": 2 * pair + 1,
            "outcome": np.tile(np.array([1, -1], np.int8), 60),
        }
    )


@pytest.fixture
def coins(tmp_path: Path) -> Survey:
    survey = survey_of("noisy-counts", tmp_path)
    pq.write_table(coin_rows(tmp_path), tmp_path / "rows.parquet", row_group_size=7)
    survey.settings["input"] = {**COMPARISONS, "paths": ["rows.parquet"]}
    return survey.set(items={"count": 120}, privacy__max_contributions=1)


def exact_of(job: Job) -> list[int]:
    return np.load(job.work / "exact.npz")["counts"].tolist()


def test_two_reductions_of_one_job_keep_different_rows(coins):
    job = prepare_job(read_survey(coins.config))
    kept = []
    for _ in range(2):
        reduce(job, InProcessReducer().run)
        kept.append(exact_of(job))
    assert sum(kept[0]) == sum(kept[1]) == 60
    assert kept[0] != kept[1]  # equal with probability 2^-60


def reduction_of(job: Job):
    method = job.drawn_by.method
    key = SecretKey.draw(job.bits())
    return method.reduction(job.config, job.mechanism, job.files, key, str(job.work))


def test_a_reduction_that_is_tried_again_keeps_the_same_rows(coins):
    job = prepare_job(read_survey(coins.config))
    first, other = reduction_of(job), reduction_of(job)
    kept = []
    for reduction in (first, first, other):
        reductions.run(reduction)  # the graph on Beam
        kept.append(exact_of(job))
    assert kept[0] == kept[1]
    assert kept[0] != kept[2]


@pytest.mark.parametrize(("name", "array"), [("spectral", "y"), ("rr-counts", "w")])
def test_two_reductions_keep_different_answers(name, array, tmp_path):
    """Neither array has any noise: it tells which two of their answers count for 2000 people."""
    job = prepare_job(
        read_survey(
            survey_of(name, tmp_path, people=2_000).set(privacy__max_contributions=2).config
        )
    )
    kept = []
    for _ in range(2):
        reduce(job, InProcessReducer().run)
        kept.append(np.load(job.work / "exact.npz")[array].tolist())
    assert kept[0] != kept[1]  # five free counts, each equal with probability below 1/50: 10^-8


def test_two_reductions_keep_different_rankings(tmp_path):
    """How long the ranking is that counts of each of 2000 people, of seven, is not hidden."""
    survey = survey_of("borda", tmp_path)
    lists = [list(range(length)) for length in range(2, 9)]
    table = pa.table({"user": np.repeat(np.arange(2_000), 7), "ranking": 2_000 * lists})
    pq.write_table(table, tmp_path / "rows.parquet")
    columns = {"user": "user", "ranking": "ranking"}
    survey.set(input__layout="list", input__columns=columns, items={"count": 8})
    job = prepare_job(read_survey(survey.set(privacy__max_contributions=1).config))
    kept = []
    for _ in range(2):
        reduce(job, InProcessReducer().run)
        kept.append(np.load(job.work / "exact.npz")["lengths"].tolist())
    assert sum(kept[0]) == sum(kept[1]) == 2_000
    assert kept[0] != kept[1]  # six free counts, each equal with probability below 1/50


FORKED = """
import hashlib, json, os, sys
from pathlib import Path
from hushrank.transforms.engine import in_process
in_process.choose()  # the graph of small inputs; and no engine, so no thread, so it can be forked
from hushrank.flows.run.job import prepare_job, read_survey
from hushrank.flows.run.context import ledger_of
from hushrank.flows.run.run import draw, reduce
from hushrank.flows.run.confidential_folder import Exact, load_arrays
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import system_bits
from tests.flows.conftest import InProcessReducer

def found(configs):
    told = {
        "words": system_bits().words(4).tolist(),
        "words of another call": system_bits().words(4).tolist(),
    }
    for config in configs:
        job = prepare_job(read_survey(Path(config)))
        told["key " + config] = SecretKey.draw(job.bits()).value.hex()
        reduce(job, InProcessReducer().run)
        told["exact " + config] = digest(load_arrays(job.work / "exact.npz"))
        ledger = ledger_of(job.config)
        ledger.reserve(job.release_id, job.terms.spend, config_hash=job.config.job_hash())
        draw(job, Exact(job.work))
        drawn = load_arrays(job.work / "drawn.npz")
        told["drawn " + config] = digest({k: v for k, v in drawn.items() if v.dtype.kind != "U"})
    return told

def digest(arrays):
    return {name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in arrays.items()}

children = []
for folder in sys.argv[1:3]:
    child = os.fork()
    if child == 0:
        sys.stdout = open(Path(folder, "found.json"), "w")
        print(json.dumps(found([str(Path(folder, name, "survey.yaml")) for name in sys.argv[3:]])))
        sys.stdout.flush()
        os._exit(0)
    children.append(child)
sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""
IN_TWO_PROCESSES = ("noisy-pairs", "perturbed-mle", "laplace-rr", "debiased-rr", "borda")


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    """What two processes drew for the same jobs, each all of it: children of one parent."""
    root = tmp_path_factory.mktemp("processes")
    folders = [root / "one", root / "two"]
    for folder in folders:
        folder.mkdir()
        for name in IN_TWO_PROCESSES:
            survey_of(name, folder / name, people=200)
    done = subprocess.run(
        [sys.executable, "-c", FORKED, *map(str, folders), *IN_TWO_PROCESSES],
        capture_output=True,
        text=True,
        timeout=840,
    )
    assert done.returncode == 0, done.stderr
    told = [json.loads((folder / "found.json").read_text()) for folder in folders]
    return [
        {name.replace(str(folder), ""): value for name, value in each.items()}
        for folder, each in zip(folders, told, strict=True)
    ]


@pytest.mark.slow
def test_two_processes_and_two_calls_draw_other_words(two_processes):
    words = [tuple(each[name]) for each in two_processes for name in each if "words" in name]
    assert len(words) == len(set(words)) == 4


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_TWO_PROCESSES)
def test_two_processes_draw_other_keys_rankings_answers_and_noise(two_processes, name):
    one, two = two_processes
    assert one[f"key /{name}/survey.yaml"] != two[f"key /{name}/survey.yaml"]
    drawn = [each[f"drawn /{name}/survey.yaml"] for each in two_processes]
    # Two counts with noise of scale 4 are equal with probability 1/16, and there are twelve; two
    # sums of 200 flipped answers with 1/16, and there are six: below 10^-7. The others are finer.
    assert any(drawn[0][array] != drawn[1][array] for array in drawn[0])
    exact = [each[f"exact /{name}/survey.yaml"] for each in two_processes]
    assert exact[0] != exact[1]  # they keep other rows: 200 people have six, and four count


def test_what_workers_drew_is_told_by_the_reduction_itself(tmp_path):
    """Not only what the job may draw: an unforeseen source is there beside it."""
    job = prepare_job(read_survey(survey_of("borda", tmp_path).config))
    ledger = reserved(job)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reduce_rankings, "system_bits", lambda: seeded_bits(1))
        reduce(job, InProcessReducer().run)
    told = json.loads((job.work / "bits.json").read_text())
    assert told["randomisation"] == ["seeded", "system"]
    assert "rows" not in json.dumps(told)
    assert ledger.state(job.release_id) is not None


def test_bits_are_put_together_and_read_back():
    used = BitsUsed.of(Purpose.NOISE, [BitSource.OPENDP])
    used |= BitsUsed.of(Purpose.COINS, system_bits().used)  # nothing drawn, nothing told
    assert used.to_dict() == {"noise": ["opendp"]}
    assert used.safe
    assert used.covers(Purpose.NOISE)
    assert not used.covers(Purpose.COINS)
    both = used | BitsUsed.of(Purpose.NOISE, [BitSource.SIMULATED])
    assert not both.safe
    assert BitsUsed.from_dict(both.to_dict()) == both
    with pytest.raises(ValueError, match="astrology"):
        BitsUsed.from_dict({"noise": ["astrology"]})
