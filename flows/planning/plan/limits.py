"""Limits of the accuracy of a job: sampling (who was asked), and the noise that protects people.

With N people the squared error by a method's formula is S / N + P / N^2 where noise is added to
counts, and (S + P) / N where each answer is privatised by itself. S is found from the same formula:
with so many people that noise is nothing, or so large an epsilon that answers are left as they are.
Beside it stand the two terms of the papers' theorems at the job's numbers, without their unknown
constants.

References:
    [CCW] Cai, Chakraborty, Wang. Optimal differentially private ranking from pairwise comparisons.
        2025. Theorems 2.1, 2.2 (a comparison), 3.1 to 3.4 (a person).
    [NZ] Nguyen, Zhang. Optimal and private learning from human response data. 2023. Section 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.planning.plan.survey import (
    Setting,
    answers_of,
    chosen_method,
    predicted,
)
from hushrank.flows.planning.plan.world import World
from hushrank.privacy.units import Unit

MANY = 2.0**20  # times as many people: noise on counts is then nothing
NO_FLIPS = 300.0  # epsilon of an answer at which none is flipped


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Parts of the typical error of a score, by formula: squares add up.

    Attributes:
        method: method whose limits these are.
        people: number of people who are supposed to answer.
        epsilon: epsilon of the setting.
        sampling: limit by who was asked.
        privacy: limit by noise, or by randomised answers.
        even: number of people at which both are equal; None: privacy costs the same share whatever
            the number of people is.
        theorem: theorem with the two terms below; empty: none of the papers' fits the job.
        their_sampling, their_privacy: terms of the theorem at the numbers of the job, without
            constants.
    """

    method: str
    people: int
    epsilon: float
    sampling: float
    privacy: float
    even: int | None
    theorem: str
    their_sampling: float
    their_privacy: float

    @property
    def privacy_rules(self) -> bool:
        """Whether privacy adds more to the error than who was asked."""
        return self.privacy > self.sampling

    @property
    def text(self) -> str:
        """Limits in words."""
        rules = "privacy" if self.privacy_rules else "sampling"
        found = (
            f"What limits the error of {self.method} with {self.people:,} people at epsilon"
            f" {self.epsilon:g}: {rules}. By"
            f" formula {self.sampling:.2g} comes from who is asked and {self.privacy:.2g} from"
            " privacy (squares add up)."
        )
        if self.even is None:
            more = 1 + (self.privacy / self.sampling) ** 2
            found += f" Privacy takes {more:.3g} times as many people, however many there are."
        else:
            found += f" Both are equal with about {float(f'{self.even:.2g}'):,.0f} people."
        if self.theorem:
            found += (
                f" {self.theorem}: {self.their_sampling:.2g} and {self.their_privacy:.2g}, without"
                " the constants, which the paper does not give."
            )
        return found


def limits_of(config: SurveyConfig, setting: Setting, world: World) -> Limits | None:
    """Find the parts of the error of one setting; None: no formula tells them apart.

    Args:
        config: the job.
        setting: setting of people, answers, epsilon and method.
        world: assumptions about people and items.
    """
    local = config.privacy.unit is Unit.LOCAL
    setting = replace(setting, method=chosen_method(config, setting).method.facts.name)
    changed = replace(setting, epsilon=NO_FLIPS * max(setting.answers, 1))
    if not local:
        changed = replace(setting, people=int(setting.people * MANY))
    try:
        whole, alone = (predicted(config, each, world) for each in (setting, changed))
    except (ConfigError, OverflowError):
        return None
    if whole is None or alone is None or not whole > 0 < alone:
        return None
    sampling = alone if local else alone * math.sqrt(MANY)
    if not sampling < whole:
        return None
    privacy = math.sqrt(whole**2 - sampling**2)
    theorem, *terms = _theorem(config, setting)
    return Limits(
        method=setting.method,
        people=setting.people,
        epsilon=setting.epsilon,
        sampling=sampling,
        privacy=privacy,
        even=None if local else max(1, round(setting.people * (privacy / sampling) ** 2)),
        theorem=str(theorem),
        their_sampling=float(terms[0]),
        their_privacy=float(terms[1]),
    )


def _theorem(config: SurveyConfig, setting: Setting) -> tuple[str, float, float]:
    """The theorem for unit and kind of input, with its sampling and its privacy term."""
    n, m, epsilon = len(config.items.catalogue()), setting.people, setting.epsilon
    answers, log_n = answers_of(config, setting.answers), math.log(n)
    if config.input.kind == "comparisons" and config.privacy.unit is Unit.COMPARISON:
        met = 2 * m * answers / n  # n p of the paper: comparisons of an item
        text = "Theorem 2.1 of Cai, Chakraborty and Wang has sqrt(log n / np) and log n / (np eps)"
        return text, math.sqrt(log_n / met), log_n / (met * epsilon)
    if config.input.kind == "comparisons" and config.privacy.unit is Unit.USER:
        text = (
            "Theorem 3.1 of Cai, Chakraborty and Wang has sqrt(n log n / m) and n log n / (m eps),"
            " for n items and m people"
        )
        return text, math.sqrt(n * log_n / m), n * log_n / (m * epsilon)
    if config.input.kind == "responses" and config.privacy.unit is Unit.USER:
        text = (
            "In the count of a pair of items, section 4 of Nguyen and Zhang has the deviations"
            " sqrt(n p^2) by chance and sqrt(m (m - 1)) / eps by noise, for n people and m items"
        )
        return text, math.sqrt(m) * answers / n, math.sqrt(n * (n - 1)) / epsilon
    return "", 0.0, 0.0
