"""How far a plain run walks through our files: `python -m tests.flows.walk --list` prints all."""

from __future__ import annotations

import sys

import pytest

from tests.flows.walk import PARENT, READER, Walk, walked

MOST = {  # lower a number whenever a run walks less; the aims are 100, 340, 200, 1 and 4
    "files entered": 120,  # the check of a file, small files as one batch, and who runs it
    "arrows between files": 465,
    "modules loaded": 218,  # dated lists, sets of a row and metered squares have files of their own
    "calibrations of one method": 1,
    "reads of the ledger": 4,
}
OFTEN_TOO_MUCH = {
    *("scipy.integrate", "scipy.interpolate", "scipy.linalg", "scipy.optimize", "scipy.stats"),
    *("numpy.f2py", "numpy.testing", "apache_beam", "pandas.core", "prefect"),
}
LIBRARIES = [
    (PARENT, {"opendp"}, OFTEN_TOO_MUCH),
    (READER, {"pyarrow.csv"}, OFTEN_TOO_MUCH | {"scipy.special", "opendp", "asyncio", "pydantic"}),
]


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Walk:
    return walked(tmp_path_factory.mktemp("walk"))


@pytest.mark.parametrize("name", MOST)
def test_a_plain_run_walks_no_further(walk: Walk, name: str):
    sys.stdout.write(walk.text())
    assert walk.figures()[name] <= MOST[name]


def test_both_processes_are_followed(walk: Walk):
    reader = "hushrank.pipelines.reduce.reduce"
    assert {"hushrank.flows.interfaces.cli.main", reader} <= walk.entered <= walk.loaded
    assert any(arrow.startswith(f"{reader} -> ") for arrow in walk.arrows)
    assert walk.calibrations > 0
    assert walk.ledger_reads > 0


@pytest.mark.parametrize(("process", "needed", "unused"), LIBRARIES)
def test_a_plain_run_loads_no_library_for_nothing(
    walk: Walk, process: str, needed: set[str], unused: set[str]
):
    assert needed <= walk.libraries[process]
    loaded = walk.libraries[process]  # scipy loads its parts unseen, but not what is inside them
    assert [
        name for name in loaded if any(f"{name}.".startswith(f"{each}.") for each in unused)
    ] == []
