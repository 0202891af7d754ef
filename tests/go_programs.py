"""Programs in Go that tests run: each is built once, into the cache of this account."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

BUILD_SECONDS = 900


def cache() -> Path:
    """What tests keep from one run to the next."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hushrank"


@dataclass(frozen=True)
class GoProgram:
    """A program.

    Attributes:
        package: its path, as `go install` takes it; the last part is its name.
        version: of the module that holds it.
    """

    package: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def name(self) -> str:
        """Its name."""
        return self.package.rpartition("/")[2]

    def binary(self) -> Path:
        """Where it is, or would be."""
        return cache() / f"{self.name}-{self.version}"

    def build(self) -> Path:
        """Build it if it is not there; return where it is.

        Raises:
            SystemExit: there is no Go, or it cannot build the program.
        """
        target = self.binary()
        if target.exists():
            return target
        if shutil.which("go") is None:
            raise SystemExit(f"{self.name} needs Go 1.26 or newer, and this machine has none")
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = target.with_name(f"{target.name}.building-{os.getpid()}")
        command = ["go", "install", "-ldflags=-s -w", f"{self.package}@{self.version}"]
        settings = {"GOBIN": str(folder), "GOTOOLCHAIN": "local", "GOFLAGS": ""}
        try:
            done = subprocess.run(command, env={**os.environ, **settings}, timeout=BUILD_SECONDS)
            if done.returncode:
                raise SystemExit(f"{self} cannot be built; is the Go module proxy reached?")
            (folder / self.name).rename(target)
        except subprocess.TimeoutExpired:
            raise SystemExit(f"{self} was not built in {BUILD_SECONDS} s") from None
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return target
