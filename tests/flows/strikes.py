"""What the process loads whose children are `crashes`: see `tests.loaded_process`."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from hushrank.transforms.engine import in_process


def load() -> None:
    """Whatever every run needs and takes long; no thread starts, or nothing could be forked."""
    in_process.choose()  # an engine without threads, before another is loaded
    for module in ("tests.flows.crashes", "hushrank.pipelines.reduce.reduce"):
        importlib.import_module(module)
    from hushrank.flows.release.provenance import software
    from tests.flows.conftest import answers

    software()  # reads the whole package
    answers(1)  # the first array takes 0.2 s


def strike(names: Sequence[str], folder: str, stride: int) -> dict[str, int]:
    """As `crashes.strike_runs`."""
    from tests.flows.crashes import strike_runs

    return strike_runs(names, folder, stride)
