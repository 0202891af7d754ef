"""Method `auto`: the method of least noise that is right for what the operator states.

All of it follows from public facts: the design, the catalogue, epsilon and the bounds. The family
of counts chooses among the methods on comparisons (`counts.least_noise`), that of test answers
among its own (`responses.least_noise`); only the one that is asked is imported.
"""

from __future__ import annotations

from hushrank.flows.config.method import MethodFacts, Problems, Sections
from hushrank.flows.config.responses import ResponsesConfig
from hushrank.flows.config.row_rules import ASKED, TIE_MODEL
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.methods.base import Choice, Method
from hushrank.privacy.units import Unit


def _rules(config: Sections) -> Problems:
    if isinstance(config.input, ResponsesConfig):
        from hushrank.flows.methods.responses.least_noise import problems_of_tests

        yield from problems_of_tests(config)


class Auto(Method):
    """The method of least noise that is right for the stated design."""

    facts = MethodFacts(
        name="auto",
        summary="the method of least noise that suits the stated design, by public facts alone",
        kind="comparisons",
        also=("responses",),
        units=(Unit.USER, Unit.COMPARISON),
        rules=_rules,
        reads=(
            "groups",
            "model.anchors",
            "model.bands",
            "model.link",
            "model.exposures",
            "model.expected_comparisons",
            "privacy.public_graph",
            "input.columns.weight",
            TIE_MODEL,
            ASKED,
        ),
    )

    def resolve(self, config: SurveyConfig) -> Choice:
        """The candidate of least noise, and why.

        Raises:
            ConfigError: no candidate suits the configuration.
        """
        if isinstance(config.input, ResponsesConfig):
            from hushrank.flows.methods.responses import least_noise as tests

            return tests.of_least_noise(config)
        from hushrank.flows.methods.counts import least_noise as comparisons

        return comparisons.of_least_noise(config)


METHODS = (Auto(),)
