"""What tests of every layer share: settings of hypothesis, and where the source tree is."""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import gc
import os
import sys
import weakref
from collections.abc import Generator, Iterator
from pathlib import Path
from types import MethodType
from typing import Any

import absl.logging
import pytest
from hypothesis import HealthCheck, settings

from tests import forked_workers, go_cloud_storage
from tests.systems import left_out

ROOT = Path(__file__).resolve().parents[1]

# No test may depend on how fast the machine is. Examples are the same in every run, so a test fails
# for what has changed; `make soak` looks for new ones: --hypothesis-profile=new-examples.
settings.register_profile(
    "new-examples", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("same-examples", settings.get_profile("new-examples"), derandomize=True)
settings.load_profile("same-examples")

# Libraries and tests are loaded for good: nobody need look for what may go until all are there.
gc.disable()

# What a test writes need not survive a power failure; each run would wait for the disk 30 times.
# A test that counts flushes, or lets one fail, replaces this in its turn.
REAL_FSYNC = os.fsync
os.fsync = os.fdatasync = lambda descriptor: os.fstat(descriptor) and None  # a bad one still fails

# Before anything loads numpy: its threads wait for each other in a loop, and where tests run
# side by side, that takes most of the processor. Child processes inherit it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# absl, which dp-accounting loads, keeps the stderr it finds and closes it when Prefect sets up its
# own logging: pytest's, in the middle of a test, unless it is given one that stays.
absl.logging.get_absl_handler().python_handler.setStream(sys.__stderr__)


SAME_DRAWS = [[room] for room in ("clients", "estimation", "flows", "pipelines", "transforms")]
LEFT_OUT = pytest.StashKey[list[str]]()  # names of tests that only `make soak` runs
SECONDS_TO_END = 120  # of a process whose tests are over and whose old folders are removed


def pytest_configure(config: pytest.Config) -> None:
    """Of several processes that each find the tests, the first finds none."""
    if forked_workers.take_over(config):
        return
    if config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput"):
        gc.enable()


def pytest_unconfigure() -> None:
    """What still runs once all tests are over cannot keep the process: it is shown, and ended.

    pytest removes what earlier runs left before it comes to this: that takes as long as the disk
    needs.
    """
    faulthandler.dump_traceback_later(SECONDS_TO_END, exit=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    """What `make soak` gives."""
    parser.addoption("--soak", action="store_true", help="run the tests marked soak")
    parser.addoption("--real-draws", action="store_true", help="see tests/draws.py")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """What macOS or Windows leaves out: see `tests.systems`."""
    if not collection_path.is_relative_to(ROOT):
        return None
    return collection_path.relative_to(ROOT).as_posix() in left_out(sys.platform) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long tests first: at the end several workers have something left to share."""
    if not config.getoption("--soak"):
        left = [item for item in items if item.get_closest_marker("soak") is not None]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item.get_closest_marker("soak") is None]
        _tell_left_out(config, sorted({item.nodeid.partition("[")[0] for item in left}))
    items.sort(key=_turn)


def _tell_left_out(config: pytest.Config, names: list[str]) -> None:
    """Where several processes run tests, each finds the same ones and tells the first process."""
    config.stash[LEFT_OUT] = names
    if hasattr(config, "workeroutput"):
        config.workeroutput["left_out"] = names


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Hear what a process of pytest-xdist tells."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", [])


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Nothing is left out in silence."""
    if elsewhere := left_out():
        terminalreporter.section(f"left out on {sys.platform}")
        for name, reason in elsewhere.items():
            terminalreporter.line(f"{name}: {reason}")
    if names := config.stash.get(LEFT_OUT, []):
        terminalreporter.section("left to make soak, because they take long")
        for name in names:
            terminalreporter.line(name)


def _turn(item: pytest.Item) -> int:
    if item.get_closest_marker("engine") is not None:
        return 0
    return 1 if item.get_closest_marker("slow") is not None else 2


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Each test draws the same in every run: see `tests.draws`."""
    with _same_draws(item.nodeid, real=_draws_are_real(item, item.nodeid)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """What several tests share is drawn alike, whichever of them comes first."""
    if fixturedef.scope == "function":
        return (yield)
    where = f"{fixturedef.baseid}::{fixturedef.argname}[{getattr(request, 'param_index', 0)}]"
    with _same_draws(where, real=_draws_are_real(request.node, where)):
        return (yield)


def _draws_are_real(node: pytest.Item | pytest.Collector, where: str) -> bool:
    room = where.partition("::")[0].split("/")[1:2]
    return room not in SAME_DRAWS or node.config.getoption("--real-draws")


def _same_draws(name: str, *, real: bool) -> contextlib.AbstractContextManager[None]:
    if real:
        return contextlib.nullcontext()
    from tests.draws import same_draws  # what it loads takes seconds, and many tests need none

    return same_draws(name)


def pytest_collection_finish() -> None:
    """What all tests share is ready: libraries are loaded, tests are known."""
    # Nobody lets go of these millions of objects any more, so nobody need look whether someone has.
    # A child process that does not look at them does not copy them either.
    gc.collect()
    gc.freeze()
    # Every 700 new objects, as Python has it, it would look through those of one test again and
    # again: that is 6 % of the processor time of tests that read configurations and write pages.
    gc.set_threshold(50_000, 20, 20)
    gc.enable()
    if "apache_beam" in sys.modules:
        _keep_signatures()


def _keep_signatures() -> None:
    """Beam asks for the signatures of the same methods 2 800 times a graph: they are kept.

    So are the states and timers that a class of `DoFn` declares. These, and the width of a help
    text, which its options ask for too, are nearly half of the processor time of a small graph.
    """
    from apache_beam.options import pipeline_options
    from apache_beam.transforms import userstate
    from apache_beam.typehints import decorators

    anew, kept = decorators.get_signature, weakref.WeakKeyDictionary[Any, dict[bool, Any]]()

    def signature(method: Any) -> Any:
        bound = hasattr(method, "__self__")
        try:
            found = kept.setdefault(getattr(method, "__func__", method), {})
        except TypeError:  # of a callable object that cannot be a key
            return anew(method)
        return found[bound] if bound in found else found.setdefault(bound, anew(method))

    for module in [*sys.modules.values()]:
        if getattr(module, "get_signature", None) is anew:
            module.get_signature = signature  # type: ignore[attr-defined]
    specs, specs_of_class = userstate.get_dofn_specs, dict[type, Any]()

    def specs_of(dofn: Any) -> Any:
        if any(isinstance(each, MethodType) for each in vars(dofn).values()):
            return specs(dofn)  # methods of its own, beside those of its class
        if type(dofn) not in specs_of_class:
            specs_of_class[type(dofn)] = specs(dofn)
        return specs_of_class[type(dofn)]

    userstate.get_dofn_specs = specs_of
    formatter = argparse.HelpFormatter("")
    pipeline_options._BeamArgumentParser._get_formatter = lambda _: formatter


@pytest.fixture(scope="session")
def checkout() -> Path:
    """Root of the source tree. The tests also run away from it, against the built wheel."""
    if not (ROOT / "privacy").is_dir():
        pytest.skip("needs the source tree, and this run tests the installed wheel away from it")
    return ROOT


@pytest.fixture(scope="session")
def go_server() -> Iterator[str]:
    """URL of fake-gcs-server, one for all tests of this process."""
    if not go_cloud_storage.binary().exists():
        pytest.skip(go_cloud_storage.ABSENT)
    with go_cloud_storage.go_server() as url:
        yield url


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of real datasets beside the checkout; they are not part of the project."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"needs the real datasets in {folder}, which are not part of the project")
    return folder
