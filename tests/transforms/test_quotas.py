"""Affinity and quota of a container, each where Linux states it, decide how many processors."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from hushrank.transforms.system import quotas
from hushrank.transforms.system.quotas import allowed, processors, quota_of

V1 = "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
V2 = "41 31 0:38 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"
DISK = "23 1 8:1 / / rw - ext4 /dev/sda1 rw\n"


def system_with(root: Path, groups: str, mounts: str, files: dict[str, str]) -> Path:
    """A folder that states control groups as Linux does, without a kernel."""
    for name, text in {
        "proc/self/cgroup": groups,
        "proc/self/mountinfo": DISK + mounts,
        **files,
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),  # no file: a kernel without the controller
        ({"job/cpu.max": "max 100000\n"}, None),
        ({"job/cpu.max": "150000 100000\n"}, 1.5),
        ({"job/cpu.max": "max 100000\n", "cpu.max": "300000 100000\n"}, 3.0),  # the group above
        ({"job/cpu.max": "400000 100000\n", "cpu.max": "50000 100000\n"}, 0.5),  # the least counts
        ({"job/cpu.max": "nonsense\n"}, None),
    ],
)
def test_the_least_quota_of_nested_groups_counts(tmp_path, files, quota):
    placed = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    assert quota_of(system_with(tmp_path, "0::/job\n", V2, placed)) == quota


@pytest.mark.parametrize(
    ("quota", "period", "found"),
    [("-1", "100000", None), ("250000", "100000", 2.5), ("0", "100000", None), ("1", "0", None)],
)
def test_version_1_states_quota_and_period_apart(tmp_path, quota, period, found):
    place = "sys/fs/cgroup/cpu,cpuacct/docker/abc"
    files = {f"{place}/cpu.cfs_quota_us": quota, f"{place}/cpu.cfs_period_us": period}
    groups = "4:memory:/elsewhere\n3:cpu,cpuacct:/docker/abc\n0::/\n"
    assert quota_of(system_with(tmp_path, groups, V1 + V2, files)) == found


def test_a_container_sees_its_own_group_as_the_root_of_the_mount(tmp_path):
    mounts = V1.replace(" / /sys", " /docker/abc /sys")
    place = "sys/fs/cgroup/cpu,cpuacct"
    files = {f"{place}/cpu.cfs_quota_us": "200000", f"{place}/cpu.cfs_period_us": "100000"}
    root = system_with(tmp_path, "3:cpu,cpuacct:/docker/abc\n", mounts, files)
    assert quota_of(root) == 2.0


def test_a_system_without_control_groups_has_no_quota(tmp_path):
    assert quota_of(tmp_path) is None
    assert quota_of(system_with(tmp_path, "nonsense\n", V2, {})) is None


@pytest.mark.parametrize(("quota", "number"), [(None, 8), (0.1, 1), (1.5, 2), (3.0, 3), (64.0, 8)])
def test_a_part_of_a_processor_counts_as_one(monkeypatch, quota, number):
    monkeypatch.setattr(quotas, "allowed", lambda: 8)
    monkeypatch.setattr(quotas, "quota_of", lambda _: quota)
    assert processors() == number


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has affinities")
def test_affinity_counts():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert allowed() == 1
    finally:
        os.sched_setaffinity(0, before)
    assert allowed() == len(before)
