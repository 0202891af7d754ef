"""What README and getting started show is what the program prints: their commands are run.

The students are simulated: as many as on the page, with the same cities and nearly the same shares.
Noise changes numbers and the order of cities that are close, so both are taken out before lines are
compared; every other word has to be as on the page.
"""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from hushrank.flows.ledger.operator import operator_name

CITIES = ["London", "Paris", "St.Gallen", "Barcelona", "Milano", "Stockholm"]
STRENGTHS = [1.2, 0.2, 0.0, 0.0, -0.4, -0.8]
STUDENTS = 303

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the file of the page."""
    rng = np.random.default_rng(1)
    rows = []
    for student in range(1, STUDENTS + 1):
        for a, b in combinations(range(len(CITIES)), 2):
            wins = rng.random() < 1 / (1 + np.exp(STRENGTHS[b] - STRENGTHS[a]))
            choice = "tie" if rng.random() < 0.08 else CITIES[a if wins else b]
            rows.append([student, CITIES[a], CITIES[b], choice])
    with (tmp_path / "answers.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["student", "a", "b", "choice"], *rows])
    return tmp_path


def commands(page: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a page, and the lines that it is said to print."""
    for block in re.findall(r"^```\w*\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        command, lines = "", list[str]()
        for line in block.splitlines():
            if line.startswith("$ "):
                if command:
                    yield command, lines
                command, lines = line[2:].split("  #")[0].rstrip(), []
            elif command:
                lines.append(line)
        if command:
            yield command, lines


def normal(line: str) -> str:
    """A line without what differs from run to run."""
    line = re.sub(r"/\S*?/(out/|answers\.csv)", r"…/\1", line)
    line = re.sub(r"\b[0-9a-f]{16}\b", "ID", line.replace(operator_name(), "root"))
    for city in CITIES:
        line = line.replace(city, "CITY")
    line = re.sub(r"\d+(\.\d+)?", "#", line)
    line = re.sub(r"#–#", "#", line)  # a rank of its own or several, an interval
    line = re.sub(r"[<>]#", "#", line)  # a chance
    return re.sub(r"\s+", " ", line.replace("#=", "#")).strip()


def is_free(line: str) -> bool:
    """Whether noise decides the words: a verdict, or what a plan recommends."""
    free = ("Take ", "Methods at", "(simulated", "# # %", "A noisy look at the rows saw")
    return "CITY leads" in line or "CITY very likely leads" in line or line.startswith(free)


HUSHRANK = f"""#!{sys.executable}
import sys
from pathlib import Path
sys.path.append({str(Path(__file__).parents[3])!r})
from hushrank.flows.ledger.operator import operator_name
from hushrank.flows.interfaces.cli.main import main
from tests.draws import same_draws
if __name__ == "__main__":
    count = Path(__file__).with_suffix(".count")
    count.write_text((count.read_text() if count.exists() else "") + "+")
    with same_draws(f"{{count.read_text()}} {{sys.argv[1:]}}"):
        main()
"""


def commands_folder(folder: Path) -> Path:
    """Holds a `hushrank` that draws in its nth call on a page what it drew there before."""
    made = folder.parent / f"{folder.name}-commands"
    if not made.exists():
        made.mkdir()
        (made / "hushrank").write_text(HUSHRANK)
        (made / "hushrank").chmod(0o755)
    return made


def run(command: str, folder: Path, programs: Path | None = None) -> list[str]:
    """What a command of a shell prints; `hushrank` is the one in `programs`, or one that starts."""
    places = (programs or commands_folder(folder), Path(sys.executable).parent, os.environ["PATH"])
    path = os.pathsep.join(map(str, places))
    environment = {**os.environ, "PATH": path, "COLUMNS": "300", "NO_COLOR": "1"}
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, text=True, timeout=840,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    return done.stdout.splitlines()


def differences(page: list[str], printed: list[str]) -> list[str]:
    """Lines of the page that were not printed, in their order."""
    rest, missing = [normal(line) for line in printed], []
    for line in map(normal, page):
        if line in ("", "...") or is_free(line):
            continue
        if line in rest:
            rest = rest[rest.index(line) + 1 :]
        else:
            missing.append(line)
    return missing


def follow(
    page: str, folder: Path, edits: dict[str, dict[str, str]], programs: Path | None = None
) -> dict[str, list[str]]:
    """Run the commands of a page; what is missing of what it shows, by command.

    Args:
        page: its text.
        folder: where.
        edits: what the reader is told to do before a command, as replacements in survey.yaml.
        programs: folder of a `hushrank` to take instead of the real one.
    """
    found, wanted = {}, dict(edits)
    for number, (command, lines) in enumerate(commands(page)):
        for before, change in list(wanted.items()):
            if before in command:
                text = (folder / "survey.yaml").read_text()
                for old, new in change.items():
                    text, times = re.subn(old, new, text, flags=re.MULTILINE)
                    assert times, f"{old} is not in survey.yaml"
                (folder / "survey.yaml").write_text(text)
                del wanted[before]
        missing = differences(lines, run(command, folder, programs))
        if missing:
            found[f"{number}: {command}"] = missing
    assert not wanted
    return found


def test_readme(checkout, folder):
    page = (checkout / "README.md").read_text()
    filled = {
        r"^items: .*": f"items: {{names: [{', '.join(CITIES)}]}}",
        r"design: +# CHOOSE.*": "design: balanced",
        r"^  epsilon: +# CHOOSE.*": "  epsilon: 2.0",
        r"max_contributions: +# CHOOSE.*": "max_contributions: 10",
    }
    section = page.split("## From the command line")[1].split("\n## ")[0]
    assert follow(section, folder, {"validate": filled}) == {}
    assert (folder / "out" / "answers" / "report.html").exists()


CHOICES = {
    r"^items: .*": f"items: {{names: [{', '.join(CITIES)}]}}",
    r"design: +# CHOOSE.*": "design: balanced",
    r"ties: drop": "ties: split",
    r"noise: gaussian.*\n  delta:.*": "noise: laplace",
    r"max_contributions: +# CHOOSE.*": "max_contributions: 15",
    r"look: 0.02": "look: 0.05",
}


def test_getting_started(checkout, folder, programs):
    """The mistakes of its last section are made in copies of the file."""
    page = (checkout / "docs" / "getting_started.md").read_text()
    wrong, right = page.split("## When something is wrong")[1], page.split("## When something")[0]
    before, after = right.split("## 5. See what a run would do")
    assert follow(before, folder, {"plan": CHOICES}, programs) == {}
    text = (folder / "survey.yaml").read_text()
    (folder / "survey.yaml").write_text(re.sub(r"  epsilon:  .*", "  epsilon: 2.0", text))
    assert follow(after, folder, {}, programs) == {}
    text = (folder / "survey.yaml").read_text()
    mistakes = {
        "typo": ("epsilon: 2.0", "epsilom: 2.0"),
        "column": ("winner: choice", "winner: chioce"),
        "dear": ("epsilon: 2.0", "epsilon: 9.0"),
    }
    for name, change in mistakes.items():
        other = text.replace("output: out/answers", f"output: out/{name}")
        (folder / f"{name}.yaml").write_text(other.replace(*change))
    assert follow(wrong, folder, {}, programs) == {}


def test_a_line_that_is_not_printed_is_found(checkout, folder):
    assert differences(["Report: x", "wins: 3"], ["Report: x", "share won: 3"]) == ["wins: #"]
