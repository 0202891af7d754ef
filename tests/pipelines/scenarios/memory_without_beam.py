"""The jobs of `test_memory` in a process that has chosen Beam's stand-in before it loads them."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from hushrank.transforms.engine import in_process

JOBS = "tests.pipelines.scenarios.test_memory"


def load() -> None:
    in_process.choose()
    importlib.import_module(JOBS)


def __getattr__(job: str) -> Callable[..., None]:
    found: Callable[..., None] = getattr(importlib.import_module(JOBS), job)
    return found
