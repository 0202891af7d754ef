"""Certificates of versions that stated larger sensitivities, with noise for these, stay right."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushrank.estimation.common import central_noise
from hushrank.privacy.sensitivity import Sensitivity
from tests.flows.forgeries import Forger, published

MLE, WIN_LOSS = "perturbed-mle, exposures", "win-loss, gaussian"
FOUR = {"privacy__distinct_pairs": True}  # 4 items, L = 4
STATED = {  # variant -> function, what it states, what it stated before
    MLE: ("exposures_sensitivity", Sensitivity(8, 36), Sensitivity(16, 36)),
    WIN_LOSS: ("win_loss_sensitivity", Sensitivity(16, 32), Sensitivity(16, 36)),
}


def released(name: str, folder: Path, stated: Sensitivity) -> Forger:
    """A release by a version that states this sensitivity."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(central_noise, STATED[name][0], lambda *args, **more: stated)
        return published(name, folder, **FOUR)


@pytest.mark.parametrize("name", STATED)
def test_an_earlier_release_passes(name, tmp_path):
    derivation, now, before = STATED[name]
    new, old = published(name, tmp_path / "new", **FOUR), released(name, tmp_path / "old", before)
    for forger, sensitivity in ((new, now), (old, before)):
        (draw,) = (
            draw
            for draw in forger.document("certificate.json")["draws"]
            if draw["derivation"].endswith(derivation)
        )
        told = draw["sensitivity"]
        assert (told["l1"], told["l2_squared"]) == (sensitivity.l1, sensitivity.l2_squared)
        assert forger.found().good, forger.wrong()


def test_noise_for_another_change_than_is_stated_is_found(tmp_path):
    """The larger bound of before, with the noise of today's smaller one."""
    forger = published(MLE, tmp_path, **FOUR)
    assert forger.found().good
    forger.certify("draws.1.sensitivity.l1", 16).with_digests()
    assert "the noise costs epsilon 0.5, more than 0.25" in forger.wrong()


@pytest.mark.parametrize("stated", [Sensitivity(16, 31), Sensitivity(16, 35), Sensitivity(16, 40)])
def test_no_other_bound_passes(stated, tmp_path):
    found = released(WIN_LOSS, tmp_path, stated)
    assert f"the certificate says 16 and {stated.l2_squared}" in found.wrong()
