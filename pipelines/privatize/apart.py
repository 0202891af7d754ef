"""Work on files of answers in the process that reads them, without loading Beam."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hushrank.privacy.randomness import system_bits
from hushrank.transforms.engine import in_process

if TYPE_CHECKING:
    from hushrank.pipelines.privatize.synthetic_rankings import SyntheticRankings


def write_private_answers(*asked: Any) -> tuple[str, ...]:
    """Call `privatize_file` with bits of the system; its other arguments, result and errors."""
    in_process.choose()  # no graph runs here
    from hushrank.pipelines.privatize.answers_file import privatize_file

    return privatize_file(*(*asked, system_bits()))


def write_private_rankings(*asked: Any) -> tuple[str, ...]:
    """Call `privatize_ranking_file` with bits of the system."""
    in_process.choose()
    from hushrank.pipelines.privatize.rankings_file import privatize_ranking_file

    return privatize_ranking_file(*(*asked, system_bits()))


def collect_synthetic_rankings(*asked: Any) -> SyntheticRankings:
    """Call `collect_rankings`, which draws nothing."""
    in_process.choose()
    from hushrank.pipelines.privatize.synthetic_rankings import collect_rankings

    return collect_rankings(*asked)
