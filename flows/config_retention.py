"""The `retention` section: how long the confidential area keeps what no release needs any more."""

from __future__ import annotations

from pydantic import Field

from hushrank.flows.config_section import Section


class RetentionConfig(Section):
    """What `hushrank clean` deletes; nothing of it enters the release key.

    Attributes:
        rejects_days: after which rows that were set aside, exact row counts and error texts go.
        drawn_days: after which the stored noise of a published or unsafe release goes.
    """

    rejects_days: int = Field(default=30, ge=0, le=36_500, examples=["30"])
    drawn_days: int = Field(default=365, ge=0, le=36_500, examples=["365"])
