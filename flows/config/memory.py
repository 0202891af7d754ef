"""The key `memory_limit`: a number of bytes, or a text such as `2 GiB`."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator

from hushrank.flows.config.problems import refuse
from hushrank.pipelines.engine.memory_plan import LEAST_MEMORY, MOST_MEMORY

UNITS = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
}
_SIZE = re.compile(rf"(\d{{1,18}}(?:\.\d{{1,18}})?) *({'|'.join(UNITS)})")


def _bytes(value: object) -> object:
    if isinstance(value, str):
        found = _SIZE.fullmatch(value.strip())
        if found is None:
            refuse(("", f"must be bytes, or a size such as 2 GiB or 1500 MB, got {value[:40]!r}"))
        value = int(float(found[1]) * UNITS[found[2]])
    if isinstance(value, int) and not isinstance(value, bool) and value < LEAST_MEMORY:
        refuse(
            (
                "",
                f"must be at least {LEAST_MEMORY >> 20} MiB, of which the engine and its readers"
                f" take most, got {value} bytes; raise it, or remove it for 2 GiB",
            )
        )
    if isinstance(value, int) and value > MOST_MEMORY:
        refuse(("", f"must be at most {MOST_MEMORY >> 40} TiB; write what this machine can spare"))
    return value


MemorySize = Annotated[int, BeforeValidator(_bytes)]
