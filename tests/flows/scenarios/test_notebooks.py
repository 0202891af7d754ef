"""The notebooks of the documentation run, on data that they simulate themselves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

NAMES = ("survey", "leaderboard", "arena", "test", "election", "beam")
SECONDS = 600  # of a cell, of its messages or of a start, on a machine that does much else


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs(checkout: Path, tmp_path: Path, tmp_path_factory, name: str):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    config = pytest.importorskip("traitlets.config").Config()
    config.KernelManager.transport = "ipc"  # five ports would be free only when they were chosen
    config.KernelManager.ip = str(tmp_path_factory.mktemp("kernel") / "ipc")
    notebook = nbformat.read(checkout / "docs" / "notebooks" / f"{name}.ipynb", as_version=4)
    for cell in notebook.cells:
        cell.outputs = []
    client = nbclient.NotebookClient(
        notebook,
        timeout=SECONDS,
        startup_timeout=SECONDS,
        iopub_timeout=SECONDS,
        config=config,
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute()  # raises where a cell does
    shown = [out for cell in notebook.cells if cell.cell_type == "code" for out in cell.outputs]
    assert any("<svg" in out.get("data", {}).get("text/html", "") for out in shown)
    assert list(tmp_path.iterdir()) == []  # it writes into a folder of its own


def test_every_notebook_is_run(checkout: Path):
    found = {path.stem for path in (checkout / "docs" / "notebooks").glob("*.ipynb")}
    assert found == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_shows_what_it_printed(checkout: Path, name: str):
    notebook = json.loads((checkout / "docs" / "notebooks" / f"{name}.ipynb").read_text())
    assert any(cell.get("outputs") for cell in notebook["cells"])
    assert "/tmp/api" not in json.dumps(notebook)
