"""What hushrank adds, against what there was: every figure is found, measured and drawn."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from hushrank.experiments.beyond import groups, heavy_users, local_pairs, ties, trusted_rankings
from hushrank.experiments.beyond.beyond import figures, run


def value_of(rows: list[dict[str, str]], panel: str, way: str, epsilon: float) -> float:
    (value,) = (
        float(row["value"])
        for row in rows
        if (row["panel"], row["way"], float(row["x"])) == (panel, way, epsilon)
    )
    return value


def test_the_page_of_reproductions_names_every_figure() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reproduction.md").read_text()
    assert figures()
    assert [name for name in figures() if f"`--only {name}`" not in page] == []


def test_trusted_rankings_are_nearer_at_every_epsilon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trusted_rankings, "EPSILONS", (0.5, 4.5))
    run(["trusted-rankings"], 3, False, tmp_path)
    with (tmp_path / "results.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 2 * 2 * 4
    for epsilon in (0.5, 4.5):
        of = {
            way: value_of(rows, trusted_rankings.ERROR, way, epsilon)
            for way in {row["way"] for row in rows}
        }
        assert of[trusted_rankings.GAUSSIAN] < of[trusted_rankings.LAPLACE]
        local = min(of[trusted_rankings.PLAIN], of[trusted_rankings.UNDONE])
        assert of[trusted_rankings.LAPLACE] < 0.3 * local
    # Of each pair two cells with noise of scale m (m - 1) / epsilon.
    scale = 72 / 0.5
    expected = 2 * scale / (2 * trusted_rankings.PEOPLE)
    found = value_of(rows, trusted_rankings.ERROR, trusted_rankings.LAPLACE, 0.5)
    assert found == pytest.approx(expected, rel=0.2)
    for ending in ("png", "svg"):
        assert (tmp_path / f"trusted-rankings.{ending}").stat().st_size > 5_000


def test_random_pairs_are_nearer_until_epsilon_is_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_pairs, "EPSILONS", (4.5, 36.0))
    run(["local-pairs"], 3, False, tmp_path)
    with (tmp_path / "results.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 2 * 2 * 3
    for panel, less in ((local_pairs.SHARES, 0.1), (local_pairs.SCORES, 0.8)):
        of = {
            (way, epsilon): value_of(rows, panel, way, epsilon)
            for way in (local_pairs.MALLOWS, *local_pairs.PAIRS.values())
            for epsilon in (4.5, 36.0)
        }
        order, items = (local_pairs.PAIRS[hide] for hide in local_pairs.Hide)
        assert of[order, 4.5] < less * of[local_pairs.MALLOWS, 4.5]
        assert of[order, 36.0] > of[local_pairs.MALLOWS, 36.0]
        assert of[order, 4.5] < of[items, 4.5] < 1.3 * of[order, 4.5]


def test_weights_for_heavy_users_narrow_the_intervals_and_cover(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(heavy_users, "EXPONENTS", (1.0,))
    monkeypatch.setattr(heavy_users, "PEOPLE", 2_000)
    found = {(each.panel, each.way): each.value for each in heavy_users.measure(6)}
    for panel in (heavy_users.ERROR, heavy_users.WIDTH):
        assert found[panel, heavy_users.WEIGHTS] < 0.85 * found[panel, heavy_users.LEAVE_OUT]
    for way in (heavy_users.WEIGHTS, heavy_users.LEAVE_OUT):
        assert found[heavy_users.COVERAGE, way] > 0.9


def test_ties_as_outcomes_beat_coins_and_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where half of the votes on equals are ties, a coin's error is four times as large."""
    monkeypatch.setattr(ties, "CHANCES", (0.5,))
    found = {(each.panel, each.way): each.value for each in ties.measure(3)}
    own, coin, half, left_out = (found[ties.ERROR, name] for name in ties.WAYS.values())
    assert own < 0.5 * min(coin, half)
    assert own < 1.1 * left_out


def test_every_module_with_a_figure_is_found() -> None:
    modules = {path.stem for path in Path(trusted_rankings.__file__).parent.glob("*.py")}
    assert set(figures()) == {
        name.replace("_", "-") for name in modules - {"__init__", "beyond", "figure"}
    }


def test_what_cannot_be_run_is_refused(tmp_path: Path) -> None:
    for arguments, message in (
        ((["magic"], 1, True, tmp_path), "unknown figure 'magic'; known: "),
        ((None, 0, True, tmp_path), "replicates must be >= 1"),
        ((None, 1, True, tmp_path, [tmp_path]), "no real answers"),
    ):
        with pytest.raises(ValueError, match=message):
            run(*arguments)


def test_pooling_beats_own_counts_and_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "OWN_SPREADS", (0.25,))
    run(["groups"], 12, False, tmp_path)
    with (tmp_path / "results.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    panel = "groups differ by 0.25"
    for share in groups.SHARES:
        of = {
            way: value_of(rows, panel, way, share * groups.VOTES)
            for way in (groups.UNPOOLED, groups.WHOLE, groups.POOLED)
        }
        assert of[groups.POOLED] < 1.1 * min(of[groups.UNPOOLED], of[groups.WHOLE]), share
    smallest = groups.SHARES[-1] * groups.VOTES
    assert value_of(rows, panel, groups.UNPOOLED, smallest) > 1.5 * value_of(
        rows, panel, groups.POOLED, smallest
    )
    assert (tmp_path / "groups.svg").stat().st_size > 5_000
