"""Rows that a release was counted from, if a Beam transform and no file held them."""

from __future__ import annotations

from datetime import date

from hushrank.flows.config.schedule import path_on
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.statement.record import Record
from hushrank.transforms.tables.parts import PYTHON


class RowSource(Record):
    """The transform and the public name of its rows, in the operator's words.

    Attributes:
        type: name of the transform in Beam YAML; `PTransform` if Python passed it.
        version: public name of the rows. The same version again is the same release.
    """

    type: str
    version: str

    @property
    def text(self) -> str:
        """Type and name of the source, for people."""
        named = "a Beam transform" if self.type == PYTHON else f"Beam's {self.type}"
        return f"version {self.version}, read by {named}"


def row_source_of(config: SurveyConfig, night: date | None) -> RowSource | None:
    """Return the source of a job's rows; None: they come from files.

    Args:
        config: the job.
        night: the day whose rows are ranked; None: the version as it is written.
    """
    stated, version = config.input.source, config.input.version
    if version is None:
        return None
    version = version if night is None else path_on(version, night)
    return RowSource(type=PYTHON if stated is None else stated.type, version=version)
