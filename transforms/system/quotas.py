"""How many processors this process may use: what its affinity and its container's quota leave.

A container may have the affinity of a whole machine and a quota of two processors, which the kernel
enforces by letting all threads wait once the share of a period is used. A quota is a property of a
control group and of every group above it, and the least of them counts. Linux has them in one
hierarchy ([cgroup v2], `cpu.max`) or in one for each controller ([cgroup v1], `cpu.cfs_quota_us`).

References:
    [cgroup v1] Linux kernel documentation, scheduler/sched-bwc. CFS bandwidth control.
    [cgroup v2] Linux kernel documentation, admin-guide/cgroup-v2, section CPU interface files.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_MOUNTS, _GROUPS = "proc/self/mountinfo", "proc/self/cgroup"
_V1, _V2 = "cpu", "cgroup2"  # controller of version 1; kind of a mount of version 2


def processors() -> int:
    """Number of processors that this process may use at once, at least 1.

    A quota of 1.5 counts as 2: with one thread less, half a processor would be idle.
    """
    quota = quota_of(Path("/"))
    return allowed() if quota is None else max(1, min(allowed(), math.ceil(quota)))


def allowed() -> int:
    """Number of processors on which the system may run this process, whatever its quota."""
    affinity = getattr(os, "sched_getaffinity", None)  # Windows and macOS have none
    return (os.cpu_count() or 1) if affinity is None else len(affinity(0))


def quota_of(root: Path) -> float | None:
    """Processors that the control groups of this process allow; None: no group states a limit.

    Args:
        root: folder that holds `proc` and the mounts that it names.
    """
    with suppress(OSError, ValueError):
        return min(_quotas(root), default=None)
    return None


def _quotas(root: Path) -> Iterator[float]:
    """Yield the quota of each group that states one, of the process's own and of those above."""
    mounts = list(_mounts(root))
    for controller, path in _groups(root):
        own = Path(path)
        for mounted, of_mount, place in mounts:
            if controller not in mounted:
                continue
            # A container may see its own group as the root of the mount.
            inside = own.relative_to(of_mount) if own.is_relative_to(of_mount) else Path()
            for group in (inside, *inside.parents):
                quota = _stated(root / place.relative_to("/") / group)
                if quota is not None:
                    yield quota


def _groups(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the controller, `_V2` in version 2, and path of this process's groups."""
    for line in _text(root / _GROUPS).splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield _V2, path
        elif _V1 in controllers.split(","):
            yield _V1, path


def _mounts(root: Path) -> Iterator[tuple[tuple[str, ...], str, Path]]:
    """Yield controllers, root within its hierarchy, and place of each mount of control groups."""
    for line in _text(root / _MOUNTS).splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind in ("cgroup", _V2):
            of_mount, place = before.split(" ")[3:5]
            yield (_V2,) if kind == _V2 else tuple(options.split(",")), of_mount, Path(place)


def _stated(group: Path) -> float | None:
    """Quota of one group in processors; None: it states none."""
    with suppress(OSError, ValueError):
        quota, period = _text(group / "cpu.max").split()
        return None if quota == "max" else int(quota) / int(period)
    with suppress(OSError, ValueError, ZeroDivisionError):
        micros = int(_text(group / "cpu.cfs_quota_us"))
        return None if micros <= 0 else micros / int(_text(group / "cpu.cfs_period_us"))
    return None


def _text(path: Path) -> str:
    return path.read_text("utf-8")
