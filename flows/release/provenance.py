"""Where a release comes from: `Provenance`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

from hushrank.flows.config.method import AboutConfig
from hushrank.flows.release.stream import StreamRecord
from hushrank.privacy.bits_used import BitsUsed


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """The origin of a release.

    Attributes:
        release_id: unique to this release.
        created: when it was made, with a time zone.
        night: the day whose rows are ranked; None if the configuration selects no nights.
        name: name of the job and its population.
        job: id of the job's configuration.
        method: the method as in the configuration.
        code_version: version of the hushrank that drew the noise; a later one may have published.
        charged: whether the ledger counts it; False if a seed was injected or there is no noise.
        bits: which random bits were really used; None if an older version did not record them; then
            the law of the noise was not stored either.
        stream: which night of which stream it is; None: it is none.
        about: what was asked, of whom and when; None: nothing is stated.
    """

    release_id: str
    created: datetime
    night: date | None = None
    name: str
    job: str
    method: str
    code_version: str
    charged: bool
    bits: BitsUsed | None
    stream: StreamRecord | None = None
    about: AboutConfig | None = None

    @property
    def safe(self) -> bool:
        """Whether nobody can predict or repeat the draw."""
        return self.charged and (self.bits is None or self.bits.safe)
