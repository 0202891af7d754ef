"""Node and npm, where this machine has them."""

from __future__ import annotations

import shutil
import subprocess

import pytest

OLDEST = 20  # older ones have no `crypto` of their own


def node_program() -> str:
    """Node; the test is skipped where it is missing or too old."""
    program = shutil.which("node")
    if program is None:
        pytest.skip("needs node: the JavaScript client was not run")
    words = [program, "-p", "process.versions.node.split('.')[0]"]
    version = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    if int(version) < OLDEST:
        pytest.skip(f"needs node {OLDEST} or newer, not {version}: JavaScript was not run")
    return program


def npm_program() -> str:
    """npm, with a node that it can use; the test is skipped where it is missing."""
    node_program()
    program = shutil.which("npm")
    if program is None:
        pytest.skip("needs npm: the JavaScript client was not built again")
    return program
