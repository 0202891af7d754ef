"""An item that nobody listed: the pilot query tells of it, with noise, wherever people read."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.estimation.common.central_noise import one_error
from hushrank.flows.methods.registry import load_config
from hushrank.flows.nights import flow
from hushrank.flows.release.release import load_release
from hushrank.flows.statement.record import FALSE_ITEM, LookRecord
from hushrank.privacy.noise import NoiseKind, NoiseLaw, add_noise
from hushrank.privacy.randomness import seeded_bits
from tests.flows.conftest import Survey

PEOPLE, NEW = 2_000, "newt"
LOOK = {"share": 0.2, "unlisted": True}
ITEMS = ["ants", "bees", "cats", "dogs"]


def votes(share: float, people: int = PEOPLE) -> pa.Table:
    """Five votes of each person; in such a share of them the left item is new."""
    random = np.random.default_rng(0)
    n = 5 * people
    left = random.integers(4, size=n)
    right = (left + random.integers(1, 4, size=n)) % 4
    named = np.where(random.random(n) < share, NEW, np.array(ITEMS)[left])
    return pa.table(
        {
            "user": np.repeat(np.arange(people), 5),
            "item_i": named,
            "item_j": np.array(ITEMS)[right],
            "outcome": random.choice([-1, 1], size=n).astype(np.int8),
        }
    )


@pytest.fixture
def listed(survey: Survey) -> Survey:
    return survey.set(privacy__look=LOOK, privacy__epsilon=2.0, privacy__max_contributions=5)


def ran(survey: Survey, command: Any, share: float) -> tuple[str, LookRecord]:
    pq.write_table(votes(share), survey.folder / "answers.parquet")
    code, printed = command("run", survey.config, "--direct")
    assert code == 0, printed
    look = load_release(survey.output / "release.json").look
    assert look is not None
    return " ".join(printed.split()), look


def test_a_new_item_in_a_third_of_the_rows_is_told_and_verified(listed, command):
    printed, look = ran(listed, command, 0.3)
    users = votes(0.3).to_pandas()
    truly = users[users.item_i == NEW].user.nunique()
    assert look.names_unlisted
    assert abs(look.unlisted - truly) < 20 * look.noise_scale  # but for a chance of 1e-8
    sentence = f"About {look.unlisted:,} people gave an answer with an item that is not listed"
    assert look.of_items.startswith(sentence)
    assert sentence in printed
    release = load_release(listed.output / "release.json")
    assert any(sentence in each for each in release.warnings)
    assert sentence in (listed.output / "report.html").read_text()
    assert any("The look also told how many people" in each for each in release.privacy.statement)
    code, told = command("verify", listed.output)
    assert code == 0, told


def test_where_all_items_are_listed_nothing_warns(listed, command):
    """But for one release in 1,000, which is what a warning by chance may be."""
    printed, look = ran(listed, command, 0.0)
    assert abs(look.unlisted) < 20 * look.noise_scale
    if not look.names_unlisted:
        assert "If an item is new" not in printed
        assert look.of_items in printed


def test_rows_are_counted_one_by_one_where_a_row_is_protected(listed, command):
    listed.set(privacy={"unit": "comparison", "epsilon": 2.0, "look": LOOK})
    printed, look = ran(listed, command, 0.2)
    truly = votes(0.2)["item_i"].to_pylist().count(NEW)
    assert abs(look.unlisted - truly) < 20 * look.noise_scale
    assert "rows name an item that is not listed" in printed


def test_a_stopped_run_says_so_too(listed, command):
    pq.write_table(votes(1.0), listed.folder / "answers.parquet")
    code, printed = command("run", listed.config, "--direct")
    assert code == 4, printed
    assert "people gave an answer with an item that is not listed" in " ".join(printed.split())
    assert not (listed.output / "release.json").exists()


def test_prefect_gets_an_event_once(listed, command, monkeypatch):
    events: list[dict[str, Any]] = []
    prefect = pytest.importorskip("prefect.events")
    monkeypatch.setattr(prefect, "emit_event", lambda **event: events.append(event))
    ran(listed, command, 0.3)
    release = load_release(listed.output / "release.json")
    balance = SimpleNamespace(population="zoo")
    for spent in (1.0, None):  # None: it was published before
        flow._tell_unlisted(SimpleNamespace(release=release, spent=spent, balance=balance))
    (event,) = events
    assert event["event"] == "hushrank.item.unlisted"
    assert event["payload"]["unlisted"] == release.look.unlisted
    assert event["payload"]["what"] == release.look.of_items


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input": {"kind": "rankings", "paths": ["answers.parquet"]}, "method": "borda"},
         "privacy.look.unlisted: is for comparisons, got kind: rankings"),
        ({"privacy__look": {"share": 0.1, "unlisted": "yes please"}}, "privacy.look.unlisted"),
    ],
)  # fmt: skip
def test_where_no_row_can_name_another_item_it_is_refused(listed, command, changes, message):
    code, printed = command("validate", listed.set(**changes).config)
    assert code != 0
    assert message in " ".join(printed.split())


def test_the_key_is_part_of_the_job_only_where_it_is_true(survey):
    hashes = []
    for look in (0.2, {"share": 0.2}, {"share": 0.2, "unlisted": False}, LOOK):
        hashes.append(load_config(survey.set(privacy__look=look).config).job_hash())
    assert hashes[0] == hashes[1] == hashes[2] != hashes[3]


@pytest.mark.parametrize("scale", [0.7, 3.0, 150.0])
def test_the_error_of_one_number_and_false_warnings_are_as_rare_as_stated(scale):
    """40,000 draws; each share may be off by four standard deviations: once in 16,000 runs."""
    law, draws = NoiseLaw(NoiseKind.LAPLACE, scale), 40_000
    noise = add_noise(np.zeros(draws, np.int64), law, seeded_bits(3))
    beyond = np.mean(np.abs(noise) > one_error(law))
    assert beyond < 0.05 + 4 * np.sqrt(0.05 * 0.95 / draws)
    if scale > 100:  # of integers, so a smaller error would not do
        assert beyond > 0.05 - 0.003 - 4 * np.sqrt(0.05 * 0.95 / draws)
    false = np.mean(noise > one_error(law, 2 * FALSE_ITEM))
    assert false < FALSE_ITEM + 4 * np.sqrt(FALSE_ITEM / draws)


def test_releases_without_the_number_have_no_key_of_it(survey, command):
    survey.set(privacy__look=0.2, privacy__epsilon=5.0)
    code, printed = command("run", survey.config, "--direct")
    assert code == 0, printed
    assert "unlisted" not in json.loads((survey.output / "release.json").read_text())["look"]
