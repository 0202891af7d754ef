"""Key `schedule.stream.participation`: the rows of a person that count in a stream of nights."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field

from hushrank.flows.config.section import Section
from hushrank.privacy.stream_encoder import MAX_NIGHTS, RowTerms, SquareTerms, StreamTerms, Terms


class ParticipationConfig(Section):
    """Terms of a stream that counts a person's rows, or squares of their numbers, not nights.

    Attributes:
        rows: most rows of one person that count in the whole stream.
        squares: `method: win-loss`, in place of `rows`: a night on which l rows of a person count
            uses l^2 + l, and all nights together at most so much.
        pair_gap: `method: noisy-pairs`: rows of a person on the same two items count at most once
            in so many nights.
        burst: with `pair_gap` or `squares`: part of a person's allowance that there is on the first
            night; it grows evenly from it to `rows` or `squares` on the last night. Left out: a
            third of it, and of squares at least what one row uses, 2.
        refill: with `nights: endless` and `pair_gap` or `squares`: amount by which the allowance of
            a person grows a night, up to `rows` or `squares`, which are those of a lifetime.
        gap: with `squares`, and for `method: noisy-counts` with `privacy.max_contributions: 1`:
            least distance of two nights on which a person's rows count.
    """

    rows: int | None = Field(default=None, ge=1, le=MAX_NIGHTS, examples=["60"])
    squares: int | None = Field(default=None, ge=2, le=MAX_NIGHTS, examples=["120"])
    pair_gap: int | None = Field(default=None, ge=1, le=MAX_NIGHTS, examples=["28"])
    burst: int | None = Field(default=None, ge=1, le=MAX_NIGHTS, examples=["20"])
    gap: int | None = Field(default=None, ge=1, le=MAX_NIGHTS, examples=["28"])
    refill: float | None = Field(default=None, gt=0, le=MAX_NIGHTS, examples=["0.2"])

    @property
    def meters(self) -> bool:
        """Whether a person has an allowance, of rows on pairs or of squares; else nights count."""
        return self.pair_gap is not None or self.squares is not None

    def _problems(self) -> Iterable[tuple[str, str]]:
        name = "rows" if self.squares is None else "squares"
        most = self.rows if self.squares is None else self.squares
        if most is None or (self.rows is not None) == (self.squares is not None):
            yield "rows", "name either rows or squares (method: win-loss)"
            return
        if self.squares is not None and (self.gap is None or self.pair_gap is not None):
            yield "gap", "squares take gap, such as gap: 28, and no pair_gap; write that"
        elif (self.pair_gap is None) == (self.gap is None):
            yield (
                "pair_gap",
                "name either pair_gap (method: noisy-pairs) or gap (method: noisy-counts with"
                " max_contributions: 1)",
            )
        if self.meters and self.refill is not None and self.refill > most:
            yield "refill", f"must be at most {name} ({most}), got {self.refill:g}"
        if self.burst is None:
            return
        least = 1 if self.squares is None else 2
        if not self.meters:
            yield "burst", "goes with pair_gap or squares; remove it"
        elif not least <= self.burst <= most:
            between = f"at most {name} ({most})"
            if self.burst < least:
                between = f"at least {least}, which is what one row uses"
            yield "burst", f"must be {between}, got {self.burst}"

    def terms(self, nights: int) -> StreamTerms:
        """Return the terms for a stream of so many nights."""
        if self.squares is not None:
            burst = max(2, -(-self.squares // 3)) if self.burst is None else self.burst
            return SquareTerms(
                nights=nights,
                squares=self.squares,
                gap=self.gap or 1,
                burst=burst,
                refill=self.refill,
            )
        rows = self.rows or 1
        if self.pair_gap is None:
            return Terms(nights=nights, participations=rows, gap=self.gap or 1)
        burst = -(-rows // 3) if self.burst is None else self.burst
        return RowTerms(
            nights=nights, rows=rows, gap=self.pair_gap, burst=burst, refill=self.refill
        )
