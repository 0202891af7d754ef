"""The job that is audited: the guarantee, bounds and method of a configuration, on a few items.

Only public settings enter. The files of the survey are replaced by synthetic ones with columns of
fixed names, so that their formats, words and columns are no part of an audit.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

from hushrank.flows.config.comparisons import InputConfig
from hushrank.flows.config.rankings import RankingsConfig
from hushrank.flows.config.schedule import StreamConfig
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.methods.registry import METHODS, calibrate, check_job
from hushrank.privacy.units import Unit

ROWS = "rows.parquet"
GROUP, WEIGHT, FEATURE = "group", "weight", "feature_{}"
MOST_GROUPS, MOST_NIGHTS = 2, 8
FIRST_NIGHT = date(2026, 1, 1)
_KEPT = {"name", "privacy", "model", "spectral", "top_k", "groups"}
_OF_SOURCES = ("epsilon_range", "epsilon_table", "already_private")


def small_job(
    config: SurveyConfig, n_items: int, folder: Path, longest: int | None = None
) -> SurveyConfig:
    """Return the same job on `n_items` items and on files in `folder`.

    Args:
        config: the job, whose rules hold.
        n_items: size of the synthetic catalogue.
        folder: absolute, exists; for the synthetic files.
        longest: the most items of a ranking; None: as the job has it.

    Raises:
        ConfigError: the job cannot be had on so few items; the text says why.
    """
    given = config.model_dump(mode="json", exclude_unset=True, include=_KEPT)
    content: dict[object, Any] = {key: value for key, value in given.items() if value is not None}
    facts = METHODS[config.method].resolve(config).method.facts
    content |= {
        "method": facts.same_draws or facts.name,
        "items": {"count": n_items},
        "input": _input_of(config, longest),
        "output": str(folder / "out"),
        "confidential": str(folder / "work"),
        "ledger": {"path": str(folder / "ledger.jsonl"), "epsilon": 1e6, "delta": 0.9},
    }
    if config.privacy.unit is Unit.LOCAL:
        content["privacy"] = _at_the_largest_epsilon(config, content["privacy"])
        model: dict[str, Any] = dict(content.get("model") or {})
        unread = ("weights", "item_features")
        content["model"] = {key: each for key, each in model.items() if key not in unread}
    if "groups" in content:
        values = content["groups"]["values"][:MOST_GROUPS]
        content["groups"] |= {"column": GROUP, "values": values}
        if content["groups"].get("districts"):
            content["groups"]["districts"] = {name: [name] for name in values}
    if config.model.design() is not None:
        content["model"]["exposures"] = str(_public_design(config, n_items, folder))
    if config.schedule.stream is not None:
        content["schedule"] = {"stream": _short_stream(config.schedule.stream)}
        content["input"]["paths"] = ["rows-{date}.parquet"]
    return check_job(folder / "audit.yaml", content)


def _input_of(config: SurveyConfig, longest: int | None) -> dict[str, Any]:
    kind: dict[str, Any] = {"kind": config.input.kind, "paths": [ROWS], "on_bad_rows": "set-aside"}
    if isinstance(config.input, InputConfig):
        return kind | _comparisons_of(config.input)
    if isinstance(config.input, RankingsConfig):
        longest = longest or config.input.max_length
        own = {"layout": "list", "columns": {"user": "user"}, "max_length": longest}
        return kind | own | {"unlisted": config.input.unlisted}
    if most_points := config.input.points_of(config.items.catalogue()):
        kind["points"] = max(most_points)
    missing = config.input.missing
    return kind if missing is None else kind | {"missing": missing}


def _comparisons_of(given: InputConfig) -> dict[str, Any]:
    columns = {}
    if given.columns.weight is not None:
        columns["weight"] = WEIGHT
    if given.columns.first is not None:
        columns["first"] = "left"
    found: dict[str, Any] = {"columns": columns, "design": given.design, "ties": given.ties}
    if "tie_model" in given.model_fields_set:
        found["tie_model"] = given.tie_model
    if given.features:
        found["features"] = [
            {"column": FEATURE.format(place), "scale": feature.scale}
            for place, feature in enumerate(given.features)
        ]
    return found


def _at_the_largest_epsilon(config: SurveyConfig, privacy: dict[str, Any]) -> dict[str, Any]:
    """Answers at the largest epsilon that the job accepts, privatised here."""
    kept = {key: value for key, value in privacy.items() if key not in _OF_SOURCES}
    if config.privacy.epsilon is None:
        kept["epsilon"] = config.privacy.local_epsilons().high
    if not isinstance(config.input, RankingsConfig) or "mechanism" not in kept:
        return kept
    guarantee = calibrate(config).mechanism.guarantee  # type: ignore[attr-defined]
    kept |= {"mechanism": guarantee.mechanism, "epsilon": guarantee.high}
    if guarantee.pairs is not None:
        kept["pairs"] = guarantee.pairs.pairs
    return kept


def _public_design(config: SurveyConfig, n_items: int, folder: Path) -> Path:
    design = config.model.design()
    each = 2 * design.comparisons / len(config.items.catalogue()) if design is not None else 0
    path = folder / "exposures.csv"
    lines = ["item,exposure", *(f"{item},{each!r}" for item in range(n_items))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _short_stream(stream: StreamConfig) -> dict[str, Any]:
    """Shorten a stream to eight nights, on which a person counts as much as allowed."""
    nights = min(stream.nights, MOST_NIGHTS)
    content = stream.model_dump(mode="json", exclude_unset=True)
    gap = min(stream.gap, max(nights // 2, 1))
    content |= {"nights": nights, "gap": gap, "first": FIRST_NIGHT.isoformat()}
    content["participations"] = min(stream.participations, -(-nights // gap))
    window = stream.show.window
    content["show"] = "cumulative" if window is None else {"window": min(window, nights)}
    if stream.bands is not None:
        content["bands"] = min(stream.bands, gap, window or nights)
    return content
