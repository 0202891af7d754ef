"""The order of the layers and of the rooms in them, read from the imports of every module.

The rules are functions from source text to findings, so that the second half of this file can
plant each fault and see it found.
"""

from __future__ import annotations

import ast
import importlib
import itertools
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

BELOW = {
    "privacy": set(),
    "estimation": {"privacy"},
    "transforms": {"estimation", "privacy"},
    "pipelines": {"transforms", "estimation", "privacy"},
    "verifier": set(),  # a program of its own: whoever checks a release reads it alone
    "flows": {"verifier", "pipelines", "transforms", "estimation", "privacy"},
    "experiments": {"pipelines", "transforms", "estimation", "privacy"},
}
# A room imports from the groups before its own; rooms of one group do not know each other.
ROOMS: dict[str, tuple[tuple[str, ...], ...]] = {
    "privacy": (),
    "estimation": (("common",), ("fit",), ("comparisons", "responses", "rankings"), ("ties",)),
    "transforms": (
        ("system",),
        ("engine",),
        ("common",),
        ("tables",),
        ("storage",),
        ("streams",),
        ("comparisons", "responses", "rankings"),
    ),
    "pipelines": (("engine",), ("reduce", "simulate"), ("inspect", "privatize")),
    "flows": (
        ("errors", "terminal"),
        ("progress", "reading"),
        ("config",),
        ("collecting", "ledger", "statement"),
        ("release",),
        ("methods", "report"),
        ("planning",),
        ("run",),
        ("display", "trust", "watching"),
        ("board", "refit"),
        ("assembly",),
        ("nights",),
        ("backup",),
        ("interfaces",),
    ),
    "verifier": (),
    "experiments": (("beyond", "ccw", "nz", "rdp", "stream", "xsc"),),
}
# One release from reservation to commit. Whatever else a run needs, `flows.assembly` hands to it.
KERNEL = {
    f"hushrank.flows.run.{name}"
    for name in (
        *("confidential_folder", "context", "drawn", "input_files", "run", "stages"),
        "found_names",
    )
}
BELOW_KERNEL = {
    f"hushrank.flows.{room}"
    for room in (
        *("errors", "terminal", "reading", "config", "ledger", "statement", "release"),
        "methods",
    )
}
PURE = {"privacy", "estimation"}
RELEASING = {"privacy", "estimation", "transforms", "flows"}
IMPURE_MODULES = {
    *("apache_beam", "prefect", "pyarrow", "pandas", "polars", "duckdb", "google", "matplotlib"),
    *(
        "logging",
        "pathlib",
        "shutil",
        "tempfile",
        "io",
        "sqlite3",
        "subprocess",
        "socket",
        "warnings",
    ),
    *("pydantic", "yaml", "typer", "rich", "jinja2", "filelock"),
    *("threading", "multiprocessing", "concurrent"),
}
EXCEPTIONS = {
    "hushrank.privacy.noise": {"concurrent.futures.ThreadPoolExecutor"},  # exact draws
    "hushrank.flows.report.slide_pdf": {"matplotlib"},  # of charts in PDF, which nothing else loads
}
ORCHESTRATION_MODULES = {"prefect", "typer", "rich", "jinja2", "pydantic"}
LOADED_AT_ONCE = {"scipy.special"}  # other parts of scipy load where their full name is used
SLOW_MODULES = {"matplotlib"}  # the product draws its figures itself: `flows.report.drawings`
PREDICTABLE_RANDOMNESS = {"random", "numpy.random", "scipy.stats.qmc"}
SYSTEM_RANDOMNESS = {"secrets", "os.urandom", "os.getrandom", "random.SystemRandom"}
SOURCES_OF_BITS = {
    "hushrank.privacy.randomness",
    "hushrank.privacy.local_source",  # runs alone, on the device where a person answers
}


def sources() -> dict[str, str]:
    """Source text of every module of the installed package, by dotted name."""
    found = {}
    for layer in BELOW:
        (folder,) = importlib.import_module(f"hushrank.{layer}").__path__
        for path in Path(folder).rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            found[".".join(("hushrank", layer, *parts))] = path.read_text()
    return found


def imported(tree: ast.Module) -> Iterator[str]:
    """Dotted names that the module imports, anywhere in it; `from a import b` gives `a.b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            prefix = "." * node.level + (node.module or "")
            yield from (f"{prefix}.{alias.name}" for alias in node.names)


def used(tree: ast.Module) -> Iterator[str]:
    """Imported names, and attributes of imported modules by full name: `np.random` too."""
    full_names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".")[0]
                full_names[alias.asname or top] = alias.name if alias.asname else top
    yield from imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            dotted = ast.unparse(node)
            head, _, rest = dotted.partition(".")
            if head in full_names:
                yield f"{full_names[head]}.{rest}"


def inside(name: str, modules: set[str]) -> bool:
    """Whether `name` is one of `modules` or lies in one."""
    return any(name == module or name.startswith(f"{module}.") for module in modules)


def room_findings(module: str, names: list[str]) -> list[str]:
    """Imports of `module` that go up from its room, or across to one that it must not know."""
    _, layer, room, *_ = (*module.split("."), "")
    groups = ROOMS[layer]
    rank = {name: place for place, group in enumerate(groups) for name in group}
    if room not in rank:
        return [f"{module} is in no room"] if groups and room != "__init__" else []
    wrong = []
    for name in names:
        parts = name.split(".")
        other = parts[2] if name.startswith(f"hushrank.{layer}.") else room
        if other != room and (other not in rank or rank[other] >= rank[room]):
            wrong.append(name)
    return wrong


def circles(sources: dict[str, str]) -> list[list[str]]:
    """A set of modules that import each other in a circle, sorted; none is right."""
    graph: dict[str, set[str]] = {}
    for module, source in sources.items():
        names = imported(ast.parse(source))
        graph[module] = {
            found
            for name in names
            for found in (name, name.rpartition(".")[0])
            if found in sources and found != module
        }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [sorted(set(error.args[1]))]
    return []


def names_of(statement: ast.stmt) -> set[str]:
    """What an import at the top of a module imports; nothing for another statement."""
    if not isinstance(statement, ast.Import | ast.ImportFrom):
        return set()
    return set(imported(ast.Module([statement], [])))


def calls(tree: ast.Module) -> set[str]:
    """Names of plain functions that the module calls."""
    functions = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {function.id for function in functions if isinstance(function, ast.Name)}


def findings(module: str, source: str) -> list[str]:
    """What in `source`, the text of `module`, breaks the order of the layers."""
    layer = module.split(".")[1]
    tree = ast.parse(source)
    names = sorted(set(imported(tree)))
    allowed = {f"hushrank.{name}" for name in BELOW[layer] | {layer}}
    wrong = [name for name in names if name.startswith("hushrank") and not inside(name, allowed)]
    wrong += [name for name in names if name.startswith(".")]  # relative: one import path per name
    wrong += room_findings(module, names)
    if module in KERNEL:
        flows = (name for name in names if name.startswith("hushrank.flows"))
        wrong += [name for name in flows if not inside(name, KERNEL | BELOW_KERNEL)]
    if layer in PURE:
        excepted = EXCEPTIONS.get(module, set())
        wrong += [name for name in names if inside(name, IMPURE_MODULES) and name not in excepted]
        wrong += [f"{call}()" for call in sorted(calls(tree)) if call in {"open", "print", "input"}]
    if layer != "experiments":
        parts = (name for name in names if name.startswith("scipy."))
        wrong += [name for name in parts if not inside(name, LOADED_AT_ONCE)]
        slow = SLOW_MODULES - EXCEPTIONS.get(module, set())
        wrong += [name for name in names if inside(name, slow)]
    if layer not in {"flows", "experiments"}:
        wrong += [name for name in names if inside(name, ORCHESTRATION_MODULES)]
    if layer in RELEASING:
        wrong += [name for name in sorted(set(used(tree))) if inside(name, PREDICTABLE_RANDOMNESS)]
    if layer in RELEASING and module not in SOURCES_OF_BITS:
        wrong += [name for name in sorted(set(used(tree))) if inside(name, SYSTEM_RANDOMNESS)]
    return wrong


SOURCES = sources()


def test_every_layer_has_modules():
    for layer in BELOW:
        assert f"hushrank.{layer}.__init__" in SOURCES
    for layer in PURE | {"transforms", "pipelines", "flows"}:
        assert sum(name.startswith(f"hushrank.{layer}.") for name in SOURCES) > 1, layer


def test_imports_go_down_only():
    found = {module: findings(module, source) for module, source in SOURCES.items()}
    assert {module: wrong for module, wrong in found.items() if wrong} == {}


def test_no_modules_import_each_other_in_a_circle():
    assert circles(SOURCES) == []


def test_a_planted_circle_is_found():
    planted = {
        "hushrank.flows.run.run": "def f():\n"
        "    from hushrank.flows.watching.observer import observe",
        "hushrank.flows.watching.observer": "from hushrank.flows.watching.events import Event",
        "hushrank.flows.watching.events": "from hushrank.flows.run import run",
    }
    assert circles(planted) == [sorted(planted)]


def test_every_module_of_the_kernel_is_there():
    assert set(SOURCES) >= KERNEL


def test_every_room_that_is_named_has_modules():
    for layer, groups in ROOMS.items():
        for room in itertools.chain.from_iterable(groups):
            prefix = f"hushrank.{layer}.{room}"
            assert any(name == prefix or name.startswith(f"{prefix}.") for name in SOURCES), prefix


@pytest.mark.parametrize("layer", sorted(set(BELOW) - PURE))
def test_a_package_exports_nothing_itself(layer):
    statements = ast.parse(SOURCES[f"hushrank.{layer}.__init__"]).body
    assert len(statements) == 1  # the docstring: a second import path for a name is refused
    assert isinstance(statements[0], ast.Expr)


@pytest.mark.parametrize("layer", sorted(PURE))
def test_a_public_layer_loads_nothing_itself(layer):
    """Its names are for users (`tests/test_public_names.py`); no module here takes them there."""
    statements = ast.parse(SOURCES[f"hushrank.{layer}.__init__"]).body
    loaded = {
        name for node in statements if not isinstance(node, ast.If) for name in names_of(node)
    }
    assert loaded == {"__future__.annotations", "importlib.import_module"} | {
        f"typing.{name}" for name in ("TYPE_CHECKING", "Any")
    }
    public = {
        f"hushrank.{layer}.{name}" for name in dir(importlib.import_module(f"hushrank.{layer}"))
    }
    taken = {module for module, text in SOURCES.items() if public & set(imported(ast.parse(text)))}
    assert taken == set()


@pytest.mark.parametrize(
    ("module", "source", "finding"),
    [
        ("privacy.noise", "from hushrank.estimation.common.links import LINKS", "estimation"),
        ("privacy.noise", "import hushrank.transforms.storage.read", "transforms"),
        ("estimation.common.links", "import hushrank.flows", "flows"),
        ("estimation.common.links", "from scipy.optimize import brentq", "scipy.optimize"),
        ("estimation.common.links", "from scipy import stats", "scipy.stats"),
        ("transforms.storage.read", "from hushrank.pipelines import simulate", "pipelines"),
        (
            "pipelines.simulate.simulate",
            "def f():\n    from hushrank.flows.interfaces.cli.main import main",
            "flows",
        ),
        ("flows.interfaces.cli.main", "from hushrank.experiments import xsc", "experiments"),
        ("experiments.xsc.xsc", "import hushrank.flows.run.run", "flows"),
        ("estimation.common.links", "from ..privacy import noise", "..privacy"),
        ("estimation.common.links", "from hushrank.estimation.fit import solve", "fit.solve"),
        ("transforms.rankings.rankings", "import hushrank.transforms.comparisons", "comparisons"),
        ("flows.config.survey", "from hushrank.flows.ledger.ledger import Ledger", "ledger"),
        ("flows.release.release", "from hushrank.flows.report.page import page", "report"),
        ("flows.attic", "", "in no room"),
        ("flows.run.run", "def f():\n    import hushrank.flows.report.page", "report.page"),
        (
            "flows.run.run",
            "from hushrank.flows.trust.recovery import keep",
            "recovery.keep",
        ),
        ("flows.run.context", "from hushrank.flows.run import stream_night", "stream_night"),
        ("privacy.noise", "import apache_beam as beam", "apache_beam"),
        ("estimation.common.links", "from pathlib import Path", "pathlib"),
        ("estimation.common.links", "def f():\n    import logging", "logging"),
        ("privacy.noise", "def f(name):\n    return open(name)", "open()"),
        ("transforms.storage.read", "from prefect import task", "prefect"),
        ("pipelines.reduce.reduce", "import typer", "typer"),
        ("flows.report.page", "def f():\n    import matplotlib.figure", "matplotlib"),
        ("privacy.noise", "import random", "random"),
        ("privacy.noise", "from numpy.random import default_rng", "numpy.random"),
        ("transforms.comparisons.bound", "from numpy import random", "numpy.random"),
        ("estimation.common.links", "import numpy\nnumpy.random.normal()", "numpy.random"),
        (
            "flows.planning.plan",
            "import numpy as np\nrng = np.random.default_rng(0)",
            "numpy.random",
        ),
        ("privacy.noise", "import os\nos.urandom(8)", "os.urandom"),
        ("transforms.comparisons.bound", "from os import urandom", "os.urandom"),
        ("flows.ledger.ledger", "import secrets", "secrets"),
    ],
)
def test_a_planted_fault_is_found(module, source, finding):
    assert finding in " ".join(findings(f"hushrank.{module}", source))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("privacy.randomness", "import os\nos.urandom(8)"),
        ("estimation.comparisons.perturbed_mle", "from hushrank.privacy.noise import laplace_law"),
        ("pipelines.simulate.simulate", "import numpy as np\nnp.random.default_rng(0)"),
        (
            "flows.interfaces.cli.main",
            "import typer\nfrom hushrank.pipelines.simulate.simulate import simulate",
        ),
        (
            "estimation.common.estimate",
            "import numpy as np\nfrom scipy.special import expit\nnp.sort([1])",
        ),
    ],
)
def test_what_is_allowed_passes(module, source):
    assert findings(f"hushrank.{module}", source) == []


def test_the_map_of_rooms_names_every_room(checkout):
    page = (checkout / "docs" / "architecture.md").read_text()
    rooms = {
        f"{layer}/{room}"
        for layer, groups in ROOMS.items()
        for room in itertools.chain.from_iterable(groups)
        if layer != "experiments"
    }
    named = set()
    for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE):
        layer = ""
        for name in re.findall(r"`([a-z/]+)`", row):
            layer = name.split("/")[0] if "/" in name else layer
            named.add(name if "/" in name else f"{layer}/{name}")
    assert rooms <= named
