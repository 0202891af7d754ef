"""How a file comes back that was damaged: what every test of it tries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from hushrank.transforms.storage.places import npz_bytes

Damage = Callable[[Path], object]


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Damage] = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-200]),
    "empty": lambda path: path.write_bytes(b""),
    "flipped": flip,
    "another's": lambda path: path.write_bytes(npz_bytes(wins=np.zeros(4, np.int64))),
    "a folder": replace_by_folder,
}


def remove(path: Path) -> None:
    if path.is_dir():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
