"""Arguments that a command refuses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.flows.bad_inputs.case import COMPARISONS, Case, Prepare, changed, file, job

NIGHTS = changed(COMPARISONS, {"input.paths": ["{date}.csv"]})
WINDOW = changed(
    COMPARISONS,
    {"schedule": {"window": "at", "timezone": "Pacific/Kiritimati"}},
)
DATES = (
    *("0001-01-01", "0001-01-02", "9999-12-31", "1899-12-31", "2026-02-30", "2026-13-01"),
    *("yesterday", "", "-1", "20261", "2026-11-20T00:00", "9" * 400, "2026-11-2\u0660"),
    *("\x1b[31m", "2999-01-01", "0000-00-00", "'; drop table"),
)
EPSILONS = ("1e-320", "1e308", "1e-10", "1e7", "0", "-1", "nan", "inf", "many", "1" + "0" * 400)
ANSWERS_CSV = "answers.csv"


def command_cases() -> Iterator[Case]:
    """Every command with what it refuses."""
    yield from _dates()
    yield from _privatize()
    yield from _others()


def _dates() -> Iterator[Case]:
    for number, date in enumerate(DATES):
        for base, settings in (("nights", NIGHTS), ("window", WINDOW)):
            words = ("run", "survey.yaml", "--direct", f"--date={date}")
            yield Case("date", f"run-{base}-{number}", job(settings), words)
        words = ("validate", "survey.yaml", f"--date={date}")
        if date != "2999-01-01":  # a night that may come
            yield Case("date", f"validate-{number}", job(WINDOW), words)
        words = ("backfill", "survey.yaml", "--direct", f"--from={date}", f"--to={date}")
        yield Case("date", f"backfill-{number}", job(NIGHTS), words)


def _privatize() -> Iterator[Case]:
    for epsilon in EPSILONS:
        words = ("privatize", ANSWERS_CSV, "--out", "new.csv", f"--epsilon={epsilon}")
        yield Case("privatize", f"epsilon-{epsilon[:9]}", _nothing, words)
        words = ("privatize", ANSWERS_CSV, "--out", "new.csv", "--epsilon-column", "outcome")
        words = (*words, "--epsilon-range", epsilon, epsilon)
        if not epsilon.startswith("-"):
            yield Case("privatize", f"range-{epsilon[:9]}", _nothing, words)
    latin = "user,left,right,outcome\n" + "".join(
        f"{n},\u00e9mile,zo\u00e9,1\n{n},zo\u00e9,ren\u00e9e,1\n" for n in range(20)
    )
    one = ("--epsilon", "1")
    for name, words, prepare in (
        ("latin-1", ("latin.csv", "--out", "new.csv", *one), _latin(latin)),
        ("absent", ("nowhere.csv", "--out", "new.csv", *one), _nothing),
        ("binary", ("a.csv", "--out", "new.csv", *one), file("a.csv", bytes(range(256)) * 9)),
        ("out-exists", (ANSWERS_CSV, "--out", "survey.yaml", *one), _nothing),
        ("out-there", (ANSWERS_CSV, "--out", "there.csv", *one), file("there.csv", b"x")),
        ("out-ending", (ANSWERS_CSV, "--out", "new.doc", *one), _nothing),
        ("out-nowhere", (ANSWERS_CSV, "--out", "no/new.csv", *one), _nothing),
        ("out-proc", (ANSWERS_CSV, "--out", "/proc/new.csv", *one), _nothing),
        ("out-long", (ANSWERS_CSV, "--out", "x" * 300 + ".csv", *one), _nothing),
        ("no-epsilon", (ANSWERS_CSV, "--out", "new.csv"), _nothing),
        ("column", (ANSWERS_CSV, "--out", "new.csv", *one, "--left", "nowhere"), _nothing),
        ("kind", (ANSWERS_CSV, "--out", "new.csv", *one, "--kind", "poems"), _nothing),
        ("budget", (ANSWERS_CSV, "--out", "new.csv", *one, "--budget", "all"), _nothing),
        ("of-rankings", (ANSWERS_CSV, "--out", "new.csv", *one, "--ties", "random"), _nothing),
        ("long-source", ("x" * 300 + ".csv", "--out", "new.csv", *one), _nothing),
    ):
        yield Case("privatize", name, prepare, ("privatize", *words))


def _others() -> Iterator[Case]:
    for name, words in {
        "no-command": ("dance",),
        "no-option": ("run", "survey.yaml", "--dance"),
        "again-alone": ("run", "survey.yaml", "--again"),
        "seed-text": ("run", "survey.yaml", "--unsafe-seed", "many"),
        "no-privacy": ("run", "survey.yaml", "--direct", "--no-privacy"),
        "cancel-nobody": ("ledger", "cancel", "survey.yaml", "0123456789abcdef"),
        "cancel-path": ("ledger", "cancel", "survey.yaml", "../../etc/passwd"),
        "cancel-escape": ("ledger", "cancel", "survey.yaml", "\x1b[31m"),
        "resume-nobody": ("resume", "0123456789abcdef", "survey.yaml"),
        "resume-path": ("resume", "../x", "survey.yaml"),
        "init-folder": ("init", "."),
        "init-absent": ("init", "nowhere.csv"),
        "init-there": ("init", ANSWERS_CSV, "--out", "survey.yaml"),
        "init-long": ("init", "x" * 300 + ".csv"),
        "init-out-long": ("init", ANSWERS_CSV, "--out", "x" * 300 + ".yaml"),
        "init-out-proc": ("init", ANSWERS_CSV, "--out", "/proc/new.yaml"),
        "init-out-nowhere": ("init", ANSWERS_CSV, "--out", "no/new.yaml"),
        "simulate-items": ("simulate", "new", "--items", "1"),
        "simulate-huge": ("simulate", "new", "--items", "9" * 30),
        "simulate-people": ("simulate", "new", "--people", "-5"),
        "simulate-spread": ("simulate", "new", "--spread", "nan"),
        "simulate-ties": ("simulate", "new", "--ties", "2"),
        "simulate-link": ("simulate", "new", "--link", "magic"),
        "simulate-format": ("simulate", "new", "--format", "xlsx"),
        "simulate-there": ("simulate", "."),
        "simulate-files": ("simulate", "new", "--files", "0"),
        "history-absent": ("history", "nowhere"),
        "history-plot": ("history", "survey.yaml", "--plot", "a.doc"),
        "export-absent": ("export", "nowhere", "--out", "a.csv"),
        "plan-absent": ("plan", "nowhere.yaml"),
        "deploy-cron": ("serve", "survey.yaml", "--cron", "soon"),
        "forecast-absent": ("ledger", "forecast", "nowhere.yaml"),
    }.items():
        yield Case("command", name, _nothing, words)


def _nothing(folder: Path) -> None:
    """The mistake is in the words."""


def _latin(text: str) -> Prepare:
    return file("latin.csv", text.encode("latin-1"))
