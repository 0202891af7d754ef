"""What every part of `release.json` is made of."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """A part of `release.json`: frozen, and closed to unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")
