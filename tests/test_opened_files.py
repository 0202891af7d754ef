"""Every local file is opened by `transforms.common.local_files`, which never waits.

The rule is a function from source text to findings, so that faults can be planted.
"""

from __future__ import annotations

import ast

import pytest

from tests.test_layers import SOURCES

OPENING = {
    "open",
    "open_descriptor",
    "read_text",
    "read_bytes",
    "write_text",
    "write_bytes",
    "OSFile",
    "memory_map",
}
OWN_RESOURCE = "a file of the installed package"
AN_OBJECT = "an object of a remote store, or something else that is no file"
NEW_NAME = "a new file under a random name, or in a folder that was just made empty"
EXCEPTIONS = {
    "transforms.common.local_files: system.open_descriptor": "the one function",
    "transforms.system.posix: os.open": "its part on this system, and folders to be flushed",
    "transforms.system.windows: os.open": "its part on Windows",
    "transforms.system.posix: Path('/proc/self/statm').read_text": "the memory of this process",
    "transforms.system.posix: Path('/proc/self/mountinfo').read_text": "its file systems, in /proc",
    "transforms.system.quotas: path.read_text": "what the kernel says of processors",
    "transforms.storage.window: system.open_descriptor": "the end of a file: it checks for itself",
    "transforms.storage.files: pa.OSFile": "after `require_regular`: Arrow opens by name only",
    "transforms.storage.files: CloudPath.parse(path).open": AN_OBJECT,
    "transforms.storage.places: target.read_bytes": AN_OBJECT,
    "transforms.storage.places: place.read_bytes": AN_OBJECT,
    "transforms.storage.places: self.read_bytes": AN_OBJECT,
    "transforms.storage.places: blob.open": AN_OBJECT,
    "transforms.tables.iceberg: table.io.new_input(file.location).open": AN_OBJECT,
    "transforms.tables.objects: _store(url).open": AN_OBJECT,
    "flows.report.languages: place.open": OWN_RESOURCE,
    "flows.release.provenance: path.read_bytes": OWN_RESOURCE,
    "flows.release.provenance: found.read_text": OWN_RESOURCE,
    "flows.release.provenance: (folders[PACKAGE] / COMMIT).read_text": OWN_RESOURCE,
    "flows.report.svg: files('hushrank.flows.report')"
    ".joinpath('figure.css').read_text": OWN_RESOURCE,
    "flows.report.page: files('hushrank.flows.report').joinpath(name).read_text": OWN_RESOURCE,
    "flows.board.site: files('hushrank.flows.board').joinpath(name).read_text": OWN_RESOURCE,
    "flows.collecting.survey.settings: "
    "files('hushrank.flows.collecting.survey').joinpath('files', name).read_bytes": OWN_RESOURCE,
    "flows.collecting.survey.settings: file.read_text": OWN_RESOURCE,
    "flows.ledger.anchor: (self._folder / name).read_bytes": AN_OBJECT,
    "flows.ledger.anchor: (self._folder / found.head.name).read_bytes": AN_OBJECT,
    "flows.ledger.anchor: path.read_bytes": AN_OBJECT,
    "flows.ledger.git_anchor: (process / 'comm').read_text": "a name in /proc",
    "flows.release.archive: path.read_bytes": AN_OBJECT,
    "flows.interfaces.cli.survey_command: webbrowser.open": AN_OBJECT,
    "flows.interfaces.app.server: webbrowser.open": AN_OBJECT,
    "flows.interfaces.app.server: "
    "(files('hushrank.flows.interfaces.app') / 'files' / name).read_bytes": OWN_RESOURCE,
    "flows.watching.destinations: _OPENER.open": AN_OBJECT,
    "flows.reading: os.open": "the null device, on purpose",
    "flows.terminal: os.open": "the null device, on purpose",
    "flows.run.confidential_folder: unmarked.read_bytes": AN_OBJECT,
    "flows.run.confidential_folder: drawn.read_bytes": AN_OBJECT,
    "flows.nights.dataflow_template: path.write_bytes": NEW_NAME,
    "flows.trust.audit.people: path.write_text": NEW_NAME,
    "pipelines.simulate.simulate: written.survey.write_text": NEW_NAME,
    "pipelines.simulate.simulate: path.open": NEW_NAME,
    "pipelines.simulate.simulate: part.open": NEW_NAME,
    "verifier.verify_release: os.open": "it stands alone, and checks for itself",
    "verifier.verify_release: say.open": "a finding that stays open",
    "verifier.verify_release: found.open": "a finding that stays open",
}
PRODUCT = ("flows", "pipelines", "transforms", "privacy", "estimation", "verifier")


def openings(source: str) -> set[str]:
    """Calls that open a file by its name, but for those that can only make a new one."""
    return {
        ast.unparse(node.func)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and _opens(node.func) and not _makes_new(node)
    }


def _opens(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in OPENING


def _makes_new(call: ast.Call) -> bool:
    """Whether the mode is exclusive creation, which opens nothing that exists."""
    mode = call.args[0] if call.args else None
    return isinstance(mode, ast.Constant) and str(mode.value).startswith("x")


def found() -> set[str]:
    """All of them in the product, as `module: call`."""
    return {
        f"{name.removeprefix('hushrank.')}: {call}"
        for name, source in SOURCES.items()
        if name.split(".")[1] in PRODUCT
        for call in openings(source)
    }


def test_files_are_opened_in_one_place():
    assert found() - EXCEPTIONS.keys() == set(), "use hushrank.transforms.common.local_files"


def test_no_exception_is_left_over():
    assert EXCEPTIONS.keys() - found() == set()


@pytest.mark.parametrize(
    "source",
    [
        "open(path)",
        "import os\nos.open(path, os.O_RDONLY)",
        "path.open('rb')",
        "path.read_text()",
        "path.read_bytes()",
        "def f(path):\n    return lambda: path.open('a')",
    ],
)
def test_a_planted_opening_is_found(source):
    assert openings(source)


def test_a_new_file_is_no_finding():
    assert openings("path.open('xb')\npath.open('x', encoding='utf-8')") == set()
