"""What tests of every layer share: settings of hypothesis, and where the source tree is."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]

# No test may depend on how fast the machine is.
settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def checkout() -> Path:
    """Root of the source tree. The tests also run away from it, against the built wheel."""
    if not (ROOT / "privacy").is_dir():
        pytest.skip("needs the source tree, and this run tests the installed wheel away from it")
    return ROOT


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of real datasets beside the checkout; they are not part of the project."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"needs the real datasets in {folder}, which are not part of the project")
    return folder
