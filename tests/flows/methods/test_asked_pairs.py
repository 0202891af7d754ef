"""`input.pairs` as a person uses it: in YAML, in Python, on the page and before the verifier."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hushrank as hr
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.registry import load_config
from hushrank.verifier import verify_release
from tests.flows.conftest import ITEMS, answers

CHAIN = [[ITEMS[0], ITEMS[1]], [ITEMS[2], ITEMS[1]], [ITEMS[2], ITEMS[3]]]
LISTED = {(0, 1), (1, 2), (2, 3)}
PERSON = {
    "unit": "user",
    "epsilon": 2.0,
    "max_contributions": 6,
    "distinct_pairs": True,
}


@pytest.fixture
def chain(survey):
    pq.write_table(answers(1000), survey.folder / "answers.parquet")
    return survey.set(method="auto", input__pairs=CHAIN, input__design="any", privacy=PERSON)


def listed_matrix() -> np.ndarray:
    """Wins on the listed pairs, counted by hand."""
    table, wins = answers(1000), np.zeros((4, 4), np.int64)
    columns = (table[name].to_numpy() for name in ("item_i", "item_j", "outcome"))
    for left, right, outcome in zip(*columns, strict=True):
        if (min(left, right), max(left, right)) in LISTED:
            wins[(left, right) if outcome == 1 else (right, left)] += 1
    return wins


def test_only_listed_pairs_get_noise_and_the_release_is_verified(chain, command):
    code, printed = command("run", chain.config, "--direct")
    assert code == 0, printed
    assert "input.pairs lists the pairs that were asked about" in printed
    release = json.loads((chain.output / "release.json").read_text())
    released, privacy = release["released"], release["privacy"]
    off = np.array(released["wins"]) - listed_matrix()
    cells = {(i, j) for i, j in np.argwhere(np.array(released["wins"]))}
    assert {(min(cell), max(cell)) for cell in cells} <= LISTED
    assert 0 < np.abs(off).max() < 3 * 60  # Laplace of scale 3: beyond 60 scales never
    assert released["asked"] == [[1], [2], [3], []]
    assert privacy["parameters"]["pairs"] == 3
    assert privacy["max_contributions"] == 3  # of 6, on three distinct pairs
    assert (privacy["sensitivity"], privacy["noise_scale"]) == (6, 3)
    certificate = json.loads((chain.output / "certificate.json").read_text())
    assert certificate["draws"][0]["entries"] == 6
    assert certificate["rows"]["settings"]["pairs"] == 3
    files = {path.name: path.read_bytes() for path in chain.output.iterdir() if path.is_file()}
    say = verify_release.verify(files)
    assert say.good, [text for kind, text in say.lines if kind == "WRONG"]


def test_the_verifier_notices_other_pairs_than_those_that_were_stated(chain, command):
    assert command("run", chain.config, "--direct")[0] == 0
    place = chain.output / "release.json"
    release = json.loads(place.read_text())
    release["released"]["asked"] = [[1], [2, 3], [], []]
    place.write_text(json.dumps(release))
    certificate = json.loads((chain.output / "certificate.json").read_text())
    say = verify_release.Findings()
    verify_release.check_public(certificate, release, say)
    wrong = [text for kind, text in say.lines if kind == "WRONG"]
    assert wrong == ["counts are of other pairs than those stated to be public"]
    assert "released.wins" in list(verify_release.counted_nowhere(release["released"]))


def test_a_file_and_a_list_in_any_order_are_one_job(chain):
    listed = load_config(chain.config)
    lines = [f"{right},{left}" for left, right in reversed(CHAIN)]
    (chain.folder / "pairs.csv").write_text("\n".join(["left,right", *lines]) + "\n")
    in_file = load_config(chain.set(input__pairs="pairs.csv").config)
    assert in_file.job_hash() == listed.job_hash()
    assert in_file.job_hash() != load_config(chain.set(input__pairs=None).config).job_hash()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"input__pairs": [[ITEMS[0]]]}, "must be a file, or a list of pairs of items"),
        ({"input__pairs": [*CHAIN, [ITEMS[0], "moas"]]}, "pair 4: item 'moas' is not in the"),
        ({"input__pairs": CHAIN[:2]}, "are in groups that never meet"),
        ({"input__pairs": [*CHAIN, CHAIN[0][::-1]]}, "pair 4: pair .* stands twice"),
        ({"input__pairs": "none.csv"}, "none.csv: cannot be read"),
        ({"method": "win-loss", "input__design": "random"}, "is for method: auto or noisy-pairs"),
        ({"input__ties": "model"}, "does not go with input.ties"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(chain, changes, said):
    with pytest.raises(ConfigError, match=rf"input\.pairs: .*{said}"):
        load_config(chain.set(**changes).config)


def test_beside_public_exposures_it_is_refused(chain):
    (chain.folder / "e.csv").write_text("item,exposure\n" + "".join(f"{i},9\n" for i in ITEMS))
    with pytest.raises(ConfigError, match=r"input\.pairs: does not go with model\.exposures"):
        load_config(chain.set(model={"exposures": "e.csv"}).config)


def test_beside_answers_that_are_private_already_it_is_refused(chain):
    local = {"unit": "local", "epsilon": 1.0}
    changed = chain.set(method="debiased-rr", privacy=local, input__ties="random")
    with pytest.raises(ConfigError, match=r"input\.pairs: is not for unit: local.*; remove it"):
        load_config(changed.config)


def by_exposures(chain, *, unused=""):
    """The same pairs, in a file that says how often each is compared."""
    lines = [f"{left},{right},90" for left, right in CHAIN]
    (chain.folder / "e.csv").write_text(
        "\n".join(["left,right,comparisons", *lines, unused]) + "\n"
    )
    exposures = {"exposures": "e.csv"}
    return chain.set(input__pairs=None, method="perturbed-mle", model=exposures)


@pytest.mark.parametrize("of_exposures", [False, True])
def test_a_row_on_another_pair_breaks_a_rule(chain, command, of_exposures):
    job = by_exposures(chain) if of_exposures else chain
    code, printed = command("run", job.set(input__on_bad_rows="fail").config, "--direct")
    assert code != 0
    assert "some rows break a rule" in printed
    assert "nothing was released or spent" in printed


def test_rows_on_pairs_that_a_file_of_exposures_leaves_out_are_set_aside(chain, command):
    job = by_exposures(chain, unused=f"{ITEMS[0]},{ITEMS[3]},0")
    code, printed = command("inspect", job.config, "--yes-confidential")
    assert code == 0, printed
    kept = int(listed_matrix().sum())
    left_out = answers(1000).num_rows - kept
    shown = " ".join(printed.replace(",", "").split())
    assert f"pair is not one of the public pairs {left_out} " in shown
    assert f"valid {kept} " in shown
    code, printed = command("run", job.config, "--direct", "--anyway")
    assert code == 0, printed
    rows = json.loads((chain.output / "certificate.json").read_text())["rows"]
    assert rows["settings"]["pairs"] == 3
    assert "A row on a pair that was not asked about breaks a rule." in rows["rules"]
    files = {path.name: path.read_bytes() for path in chain.output.iterdir() if path.is_file()}
    say = verify_release.verify(files)
    assert say.good, [text for kind, text in say.lines if kind == "WRONG"]


def test_plan_invents_the_listed_pairs(chain, command):
    code, printed = command("plan", chain.config, "--people", 200)
    assert code == 0, printed
    assert "noisy-pairs" in printed


def test_python_takes_pairs(tmp_path):
    table = answers(300)
    left, right = ([ITEMS[code] for code in table[n].to_pylist()] for n in ("item_i", "item_j"))
    won = ["left" if each == 1 else "right" for each in table["outcome"].to_pylist()]
    columns = {"user": table["user"], "left": left, "right": right, "winner": won}
    hr.rank(
        pa.table(columns),
        user="user",
        left="left",
        right="right",
        winner="winner",
        items=ITEMS,
        pairs=[tuple(pair) for pair in CHAIN],
        epsilon=1.0,
        max_contributions=6,
        method="auto",
        design="any",
        name="chain",
        ledger=tmp_path / "ledger.jsonl",
    )
    shown = json.loads((tmp_path / "out" / "chain" / "release.json").read_text())
    assert shown["released"]["asked"] == [[1], [2], [3], []]


@pytest.mark.parametrize("ties", ["drop", "model"])
def test_a_ladder_whose_pairs_noise_hides_says_what_is_missing(survey, command, ties):
    """Of 15 players, neighbours alone met, 60 times each; noise in a total is as large."""
    rng = np.random.default_rng(3)
    first = np.repeat(np.arange(14), 60)
    names = [f"p{place:02}" for place in range(15)]
    table = {
        "user": np.arange(len(first)),
        "item_i": first,
        "item_j": first + 1,
        "outcome": np.where(rng.random(len(first)) < 0.65, 1, -1),
    }
    pq.write_table(pa.table(table), survey.folder / "answers.parquet")
    privacy = {"unit": "comparison", "epsilon": 0.1}
    columns = {"left": "item_i", "right": "item_j", "outcome": "outcome"}
    survey.set(method="noisy-pairs", items={"names": names, "first_code": 0}, privacy=privacy)
    survey.set(input__columns=columns, input__design="any", input__ties=ties)
    code, printed = command("run", survey.config, "--direct")
    assert code == 0, printed
    release = json.loads((survey.output / "release.json").read_text())
    (said,) = (each for each in release["warnings"] if "which items met" in each)
    assert "list them in input.pairs" in said
    assert not any("as large as all of the answers" in each for each in release["warnings"])
    ends = {line[end] for line in release["ranking"] for end in ("low", "high")}
    assert ends == {"-inf", "inf"}
