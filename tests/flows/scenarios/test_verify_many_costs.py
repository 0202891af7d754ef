"""The verifier on an honest ledger of many different costs, whose total is that of the accountant,
and on the same with a total that is a little too small."""

from __future__ import annotations

from fractions import Fraction

import pytest

from hushrank.flows.ledger.entries import BudgetTerms
from hushrank.flows.ledger.ledger import Ledger
from hushrank.privacy.units import Adjacency, Unit
from tests.flows.every_method import survey_of
from tests.flows.forgeries import Forger, run
from tests.ledgers import release

COSTS = [0.05 + 0.01137 * number for number in range(24)]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Forger:
    """A release after 24 others of the same people, each of its own cost."""
    survey = survey_of("noisy-counts", tmp_path_factory.mktemp("many") / "job")
    terms = BudgetTerms(
        population="zoo",
        epsilon=100.0,
        delta=1e-5,
        refresh=None,
        unit=Unit.USER,
        adjacency=Adjacency.REPLACE_ONE,
    )
    ledger = Ledger(survey.ledger, terms)
    for number, cost in enumerate(COSTS):
        release(ledger, f"earlier-{number}", cost)
    run(survey.set(privacy__epsilon=0.4))
    return Forger.of(survey)


def test_an_honest_total_of_many_different_costs_is_proved(honest):
    stated = honest.document("certificate.json")["ledger"]["period"]
    assert len(stated["spends"]) == len(COSTS) + 1
    assert stated["rule"] == "renyi"  # costs that differ: chosen in view of results, perhaps
    assert Fraction(stated["epsilon"]) < Fraction(stated["sum"]["epsilon"])
    found = honest.found()
    assert found.good, honest.wrong()
    proved = [text for kind, text in found.lines if kind == "holds" and "(rule renyi)" in text]
    assert [text.partition(" is together")[0] for text in proved] == ["the period", "all periods"]


@pytest.mark.parametrize("part", ["period", "lifetime"])
@pytest.mark.parametrize("share", [Fraction(99, 100), Fraction(999, 1000)])
def test_a_total_that_is_a_little_too_small_is_found(honest, part, share):
    stated = Fraction(honest.document("certificate.json")["ledger"][part]["epsilon"])
    forged = honest.copy().certify(f"ledger.{part}.epsilon", str(stated * share)).with_digests()
    name = {"period": "the period", "lifetime": "all periods"}[part]
    assert forged.wrong().startswith(f"{name} costs more than the stated total of epsilon")
    assert len(forged.wrong().splitlines()) == 1
