"""From how many ballots on the result of an election is sure, at each epsilon and size.

The numbers follow from the noise alone, so no survey is simulated, and a release states the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.methods.base import PlannedMethod, SureVotes
from hushrank.flows.methods.registry import calibrate
from hushrank.flows.planning.plan.survey import Setting, with_setting


@dataclass(frozen=True, slots=True)
class SureMargin:
    """Margin that is sure at one epsilon and number of ballots.

    Attributes:
        epsilon, ballots: of the setting; all ballots of all people.
        votes: how far the noise reaches.
    """

    epsilon: float
    ballots: int
    votes: SureVotes

    @property
    def share(self) -> float:
        """Sure noisy margin as a share of the ballots."""
        return self.votes.margin / self.ballots


def sure_margins(config: SurveyConfig, settings: Sequence[Setting]) -> list[SureMargin]:
    """Compute the numbers for each setting; empty where the method states no margins.

    Raises:
        ConfigError: the method refuses a setting.
    """
    found = []
    for setting in settings:
        calibrated = calibrate(with_setting(config, setting))
        method, votes = calibrated.method, None
        if isinstance(method, PlannedMethod):
            votes = method.sure_votes(calibrated.mechanism)
        if votes is None:
            return []
        found.append(SureMargin(setting.epsilon, setting.people * setting.answers, votes))
    return found
