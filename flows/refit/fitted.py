"""A ranking that was fitted to public counts, and its files."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field

from hushrank.estimation.ties.tie_models import TieModel
from hushrank.flows.config.items import read_public_design
from hushrank.flows.config.method import PairEstimator
from hushrank.flows.errors import ConfigError
from hushrank.flows.refit.model import Model, PublicCounts, fit, public_counts
from hushrank.flows.release.boards import (
    RankedItem,
    number_of_best,
    probabilities_of,
    published_lines,
    ranked_items,
)
from hushrank.flows.release.release import NO_ELO, NOT_INFORMATIVE, json_text
from hushrank.flows.release.released import TieRecord
from hushrank.flows.release.scale import UNITS, Scale, ScoreUnit, elo_of
from hushrank.flows.statement.record import Record
from hushrank.transforms.common.plain_text import number_cell
from hushrank.transforms.storage.places import write_whole

ESTIMATE, RANKING = "estimate.json", "ranking.csv"
Names = TypeVar("Names", bound=StrEnum)
OF_A_RELEASE = (
    "Post-processing of release {}: fitted to its published counts alone. No row was read and no"
    " noise was drawn, so it costs nobody anything more."
)
OF_A_TABLE = (
    "Fitted to a public table of pairs, {}. It adds no noise, so it protects nobody whose answers"
    " the table counts: that table has to be public already."
)


class Origin(Record):
    """Public counts that were fitted; a field that does not apply is null.

    Attributes:
        release: id of the finished release.
        name: name of the population.
        table: name of the file of pairs.
        sha256: digest of that file.
    """

    release: str | None = None
    name: str | None = None
    table: str | None = None
    sha256: str | None = None


class PublicRanking(Record):
    """A ranking in the shape of a release's, computed from public numbers alone.

    Attributes:
        informative: False if nothing can be learned through the noise.
        warnings: warnings for a reader.
        scale, unit: scale and unit of the scores.
        top: k of `p_top` in the ranking.
        ranking: lines, best first, as in a release.
    """

    informative: bool
    warnings: tuple[str, ...]
    scale: Scale
    unit: ScoreUnit
    top: int
    ranking: tuple[RankedItem, ...] = Field(min_length=2)

    def to_json(self) -> str:
        """Strict JSON with keys in a fixed order, the ranking last."""
        own = [name for name in type(self).model_fields if name not in PublicRanking.model_fields]
        fields = self.model_dump(mode="json", exclude={"ranking"})
        content = {name: fields[name] for name in [*own, *fields] if name in fields}
        content["ranking"] = list(published_lines(self.ranking, self._is_said))
        return f"{json_text(content)}\n"

    def to_csv(self) -> str:
        """The ranking as a table, with six decimals."""
        text, lines = io.StringIO(), list(published_lines(self.ranking, self._is_said))
        table = csv.writer(text, lineterminator="\n")
        names = [f"p_top_{self.top}" if name == "p_top" else name for name in lines[0]]
        table.writerow([*names, "unit"])
        for line in lines:
            cells = (number_cell(v) if isinstance(v, float) else v for v in line.values())
            table.writerow([*cells, self.unit.value])
        return text.getvalue()

    def _is_said(self, name: str) -> bool:
        return any(getattr(line, name) is not None for line in self.ranking)


class Fitted(PublicRanking):
    """A ranking that was fitted to public counts.

    Attributes:
        post_processing_of: the counts.
        says: result in a sentence.
        spent: epsilon that it cost: always 0.
        model: the keys that were asked for.
        ties: shares of ties; None: the model does not say.
    """

    post_processing_of: Origin
    says: str
    spent: float = 0.0
    model: dict[str, str | float]
    ties: TieRecord | None = None


def estimate(
    matrices: str | Path,
    *,
    link: str | None = None,
    ridge: float | None = None,
    estimator: str | None = None,
    tie_model: str | None = None,
    exposures: str | Path | None = None,
    elo: bool = False,
) -> Fitted:
    """Fit a model to public counts: what `hushrank.estimate` does, once its arguments are checked.

    Raises:
        ConfigError: the counts cannot be fitted so; the text says why, and what can.
    """
    counts = public_counts(Path(matrices))
    model = Model(
        link=link,
        ridge=ridge,
        estimator=_one_of(PairEstimator, "estimator", estimator),
        tie_model=_one_of(TieModel, "tie_model", tie_model),
        exposures=_design(exposures),
    )
    stated = {
        "link": link,
        "ridge": ridge,
        "estimator": estimator,
        "tie_model": tie_model,
        "exposures": None if exposures is None else Path(exposures).name,
    }
    asked = {name: value for name, value in stated.items() if value is not None}
    return _fitted(counts, model, asked, elo=elo)


def _fitted(
    counts: PublicCounts, model: Model, asked: dict[str, str | float], *, elo: bool
) -> Fitted:
    found = fit(counts, model)
    estimated, scale = found.estimate, found.scale
    lines = ranked_items(
        counts.items, estimated, scale, counts.labels, probabilities_of(estimated, None)
    )
    warnings = [] if estimated.informative else [NOT_INFORMATIVE]
    if elo and scale is not Scale.LOG_ODDS:
        warnings.append(NO_ELO)
    elif elo:
        scale, lines = Scale.ELO, tuple(line.moved(elo_of) for line in lines)
    release = counts.release
    if release is None:
        origin = Origin(table=counts.table, sha256=counts.sha256)
        says = OF_A_TABLE.format(counts.table)
    else:
        origin = Origin(release=release.release_id, name=release.name)
        says = OF_A_RELEASE.format(release.release_id)
        warnings += _of_release(counts)
    return Fitted(
        post_processing_of=origin,
        says=says,
        model=asked,
        informative=estimated.informative,
        warnings=tuple(warnings),
        scale=scale,
        unit=UNITS[scale],
        top=number_of_best(len(counts.items), None),
        ties=found.ties,
        ranking=lines,
    )


def _of_release(counts: PublicCounts) -> Iterator[str]:
    if counts.release is not None and not counts.release.safe:
        yield f"Release {counts.release.release_id} protects nobody. Not for publication."


def _one_of(names: type[Names], key: str, name: str | None) -> Names | None:
    """Return the member that is named, or None where none is."""
    if name is None:
        return None
    try:
        return names(name)
    except ValueError:
        known = ", ".join(each.value for each in names)
        raise ConfigError(f"{key}: must be {known}, got {name[:40]!r}") from None


def _design(file: str | Path | None) -> Any:
    if file is None:
        return None
    try:
        return read_public_design(Path(file))
    except ValueError as error:
        raise ConfigError(f"exposures: {file}: {error}") from None


def write_fitted(fitted: PublicRanking, folder: Path, name: str = ESTIMATE) -> None:
    """Write `estimate.json` and `ranking.csv` into a folder, which holds nothing else of hushrank.

    Args:
        fitted: the ranking.
        folder: is made if it does not exist.
        name: name of the JSON file.

    Raises:
        ConfigError: the folder holds a release, or cannot be written.
    """
    if (folder / "release.json").exists():
        raise ConfigError(f"{folder}: holds a release; name another folder. Nothing was written.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(str(folder / RANKING), fitted.to_csv().encode())
        write_whole(str(folder / name), fitted.to_json().encode())
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written ({error.strerror}).") from None
