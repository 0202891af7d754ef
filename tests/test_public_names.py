"""`import hushrank` is light, and checkers see every public name with its type."""

from __future__ import annotations

import ast
import importlib
import json
import pydoc
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from inspect import signature
from pathlib import Path

import pytest

import hushrank
from hushrank.flows.interfaces.python.configuration import Keywords

MOST_SECONDS = 0.3
HEAVY = ("apache_beam", "prefect", "numpy", "pyarrow", "scipy", "pydantic", "rich", "typer")
LAYERS = ("privacy", "estimation", "transforms", "pipelines", "flows", "experiments")
PACKAGES = ("hushrank", "hushrank.privacy", "hushrank.estimation")
LOOK = (
    "import json, sys, time; before = time.process_time(); import hushrank; hushrank.__version__;"
    " print(json.dumps([time.process_time() - before, list(sys.modules)]))"
)
APP = """
from pathlib import Path

import hushrank as hr
from hushrank.estimation import WinCounts, rank_by_win_counts
from hushrank.privacy import NoiseLaw


def ranked(table: object, models: list[str]) -> str:
    release = hr.rank(
        table, left="a", right="b", winner="w", user="u", items=models, epsilon=1.0,
        max_contributions=20, ledger=Path("l.jsonl"), name="arena",
    )
    first: hr.Release = hr.read_release("out/arena")
    left: float = hr.Ledger("l.jsonl").balance.remaining_epsilon
    return f"{first.verdict} {left} {release.statement} {hr.__version__} {len(hr.history('out'))}"


def scores(counts: WinCounts, law: NoiseLaw) -> float:
    return float(rank_by_win_counts(counts, law).scores[0])
"""
WRONG = """
import hushrank as hr

hr.rank([], epsilon="1")
hr.rank([], epsilom=1.0)
hr.rnk([])
hr.read_release("out").rankng
hr.privacy.laplace_lew
hr.privacy.laplace_law("x", epsilom=1)
"""

# What people have beside a plain installation is not looked at: extras of hushrank, what other
# libraries would take, and types of scipy, which come apart from it.
ABSENT = (
    *("IPython", "PIL", "adlfs", "apache_beam", "azure", "deltalake", "google"),
    *("matplotlib", "opentelemetry", "pandas", "polars", "prefect", "pyiceberg"),
    *("pymongo", "requests", "s3fs", "scipy", "sqlalchemy", "starlette", "tornado", "uvicorn"),
)
MYPY = f"""
[mypy]
strict = true
follow_imports = silent
cache_dir = /dev/null
[mypy-{",".join(f"{name}.*" for name in ABSENT)}]
follow_imports = skip
follow_imports_for_stubs = true
"""


def imports_for_checkers(module: str) -> dict[str, str]:
    """Name -> home of the imports that only type checkers see."""
    source = Path(str(importlib.import_module(module).__file__)).read_text()
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for each in ast.walk(node):
                if isinstance(each, ast.ImportFrom):
                    assert all(alias.asname == alias.name for alias in each.names)
                    found.update({alias.name: str(each.module) for alias in each.names})
    return found


@pytest.mark.parametrize("module", PACKAGES)
def test_every_name_is_where_checkers_look_for_it(module: str):
    package = importlib.import_module(module)
    wanted = imports_for_checkers(module)
    assert set(dir(package)) == set(wanted) | ({"__version__"} if module == "hushrank" else set())
    for name, home in wanted.items():
        value = getattr(package, name)
        assert value is getattr(importlib.import_module(home), name)
    with pytest.raises(AttributeError, match="no attribute 'rnk'"):
        _ = package.rnk


def test_all_is_what_there_is():
    assert sorted(hushrank.__all__) == dir(hushrank)


def test_importing_it_is_light():
    """Processor time, the least of three: it does not depend on what else the machine does."""
    looks = [
        json.loads(subprocess.check_output([sys.executable, "-c", LOOK], text=True))
        for _ in range(3)
    ]
    assert min(seconds for seconds, _ in looks) < MOST_SECONDS
    assert {name.partition(".")[0] for name in looks[0][1]}.isdisjoint(HEAVY)


@pytest.fixture(scope="module")
def project(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's project, and the package as it is installed, in links."""
    folder = tmp_path_factory.mktemp("project")
    image = folder / "site" / "hushrank"
    image.mkdir(parents=True)
    for path in [*(checkout / "entry").glob("*.*"), *(checkout / layer for layer in LAYERS)]:
        (image / path.name).symlink_to(path)
    (folder / "app.py").write_text(APP)
    (folder / "wrong.py").write_text(WRONG)
    settings = {"extraPaths": ["site"], "include": ["app.py", "wrong.py"]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    return folder


@pytest.mark.slow
def test_pyright_sees_types_and_mistakes(project: Path):
    if shutil.which("node") is None:
        pytest.skip("needs node, on which pyright runs")
    words = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(words, cwd=project, capture_output=True, text=True, check=False)
    try:
        found = json.loads(done.stdout)["generalDiagnostics"]
    except ValueError:
        pytest.skip(f"pyright could not be loaded: {done.stderr[-200:]}")
    errors = [each for each in found if each["severity"] == "error"]
    lines = {(Path(each["file"]).name, each["range"]["start"]["line"] + 1) for each in errors}
    assert lines == {("wrong.py", line) for line in (4, 5, 6, 7, 8, 9)}


@pytest.mark.slow
def test_mypy_sees_types_and_mistakes(project: Path):
    (project / "mypy.ini").write_text(MYPY)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "app.py", "wrong.py"],
        cwd=project,
        env={"MYPYPATH": "site", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line.split(":")[:2] for line in done.stdout.splitlines() if ": error:" in line]
    found = {(name, int(line)) for name, line in lines}
    assert found == {("wrong.py", line) for line in (4, 5, 6, 7, 8, 9)}, done.stdout


def every_kind(error: type[Exception]) -> Iterator[type[Exception]]:
    """The class and all classes below it."""
    yield error
    for each in error.__subclasses__():
        yield from every_kind(each)


def test_every_error_that_can_be_raised_is_public_and_documented():
    for path in sorted((Path(__file__).parent.parent / "flows").rglob("*.py")):
        if "(HushrankError)" in (text := path.read_text()) or "(ConfigError)" in text:
            name = ".".join(path.relative_to(Path(__file__).parent.parent).with_suffix("").parts)
            importlib.import_module(f"hushrank.{name}")
    for each in every_kind(hushrank.HushrankError):
        if each.__module__.startswith("hushrank."):
            assert getattr(hushrank, each.__name__) is each
            assert each.__doc__


@pytest.mark.parametrize("jedi", [True, False])
def test_help_and_completion_know_every_keyword(jedi: bool):
    """In a process of its own: IPython has one shell a process, and its own settings."""
    asked = f"""
from IPython.core.completer import provisionalcompleter
from IPython.testing.globalipapp import start_ipython

shell = start_ipython()
shell.Completer.use_jedi = {jedi}
shell.run_cell("import hushrank as hr")
for line in ("hr.rank(t, epsi", "hr.plan(people=3, max_con", "hr.inspect(t, winner_va"):
    with provisionalcompleter():
        print(*(each.text for each in shell.Completer.completions(line, len(line))))
"""
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True)
    assert done.stdout.splitlines()[-3:] == ["epsilon=", "max_contributions=", "winner_values="]


@pytest.mark.parametrize("name", ["rank", "plan", "inspect"])
def test_help_says_what_each_keyword_means(name: str):
    function = getattr(hushrank, name)
    text = pydoc.render_doc(function, renderer=pydoc.plaintext)
    for keyword in Keywords.__annotations__:
        assert keyword in signature(function).parameters
        assert re.search(rf"^ +(\w+, )*{keyword}(, \w+)*: ", text, re.MULTILINE), keyword
    assert "**" not in text


def test_no_name_goes_before_two_minor_versions_have_warned(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
):
    """`make pages` adds the names of today to the file, and takes none away."""
    monkeypatch.syspath_prepend(str(checkout / "docs"))
    names = importlib.import_module("public_names")
    lines = names.FILE.read_text().splitlines()
    today = names.names_today()
    assert names.gone_too_early(lines, today, hushrank.__version__) == []
    some = {
        ("python", "hushrank.Release.ranking"),
        ("key", "privacy.epsilon"),
        ("option", "hushrank_run_--direct"),
        ("command", "hushrank_ledger_show"),
    }
    assert some <= today
    for kind, name in some:
        without = today - {(kind, name)}
        (line,) = names.gone_too_early(lines, without, "0.9.0")
        assert line.startswith(f"{kind} {name} ")
        warned = [f"{line} 0.7" if each == line else each for each in lines]
        assert names.gone_too_early(warned, without, "0.8.3") == [f"{line} 0.7"]
        assert names.gone_too_early(warned, without, "0.9.0") == []
