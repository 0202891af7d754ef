"""`hushrank survey` and `hushrank collect`: the page, tokens to open it with, its collector.

`hushrank survey demo` runs a simulated survey from its page to its report, on this machine.
Everything is what a real survey uses: the page, a collector in a process of its own, HTTP, private
answers, the night. Only the respondents are simulated. The collector's clock is a day late, because
a night can be ranked once it is over.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hushrank.flows.errors import ConfigError, HushrankError, require
from hushrank.flows.interfaces.cli.arguments import Anyway, ConfigPath
from hushrank.flows.terminal import Console
from hushrank.transforms.common.local_files import open_to_write

if TYPE_CHECKING:
    from hushrank.flows.config.survey import SurveyConfig
    from hushrank.flows.release.release import Release
    from hushrank.pipelines.simulate.respondents import Population


DISHES = (
    *("soup", "salad", "pasta", "pizza", "curry", "sushi", "tacos", "burger", "falafel", "risotto"),
    *("ramen", "paella", "lasagne", "gnocchi", "tofu", "stew", "pie", "noodles", "fish", "eggs"),
)
CHOSEN = (0.5, 1.0, 1.0, 1.5, 2.0, 2.0, 3.0, 4.0)  # epsilons of eight people
ANSWERS, SEED, CONNECTIONS = 10, 7, 50
START_SECONDS = 120.0
SURVEY = f"""# A made-up survey, whose answers are randomised before they are sent.
name: favourite-dishes
input:
  kind: comparisons
  paths: ["answers/{{date}}/*.parquet"]
  columns: {{left: left, right: right, outcome: outcome, epsilon: epsilon}}
items: {{names: [{", ".join(DISHES)}]}}
privacy: {{unit: local, already_private: true, epsilon_range: [0.5, 4]}}
method: debiased-rr
collect: {{folder: answers, questions: {ANSWERS}}}
output: out
confidential: .hushrank/work
ledger: {{path: .hushrank/ledger.jsonl, epsilon: 1000}}
"""


def demo(
    folder: Annotated[Path, typer.Argument(help="A new folder for the survey.")] = Path(
        "demo-survey"
    ),
    people: Annotated[int, typer.Option(min=10, max=1_000_000, help="How many answer.")] = 2000,
) -> None:
    """Try all of it: a made-up survey, its page, its collector, simulated people, the night.

    Each person answers 10 pairs of 20 dishes at an epsilon of their own.
    """
    require("collect", "hushrank survey demo")
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty; name a new folder.")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "survey.yaml"
    with open_to_write(path) as file:
        file.write(SURVEY.encode())
    _build_page(path, folder / "site")
    population = _population()
    _say(f"Wrote {path} and the page in {folder / 'site'}. {people} people answer it …")
    with _collector(path) as port:
        seconds = _answer(population, people, port)
    _say(f"The collector kept {people * ANSWERS} private answers in {seconds:.1f} s.")
    yesterday = datetime.now(UTC) - timedelta(days=1)
    _seal(path)
    release, page = _rank(path, yesterday)
    _say(f"Order of all pairs of dishes, as it truly is: {_agreement(population, release):.0%}.")
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        import webbrowser

        webbrowser.open(page.resolve().as_uri())


def _population() -> Population:
    """Dishes in an order that has nothing to do with their names."""
    import numpy as np

    from hushrank.pipelines.simulate.respondents import Population

    order = 7 * np.arange(len(DISHES)) % len(DISHES)
    return Population(
        survey="favourite-dishes",
        items=DISHES,
        scores=np.linspace(1.2, -1.2, len(DISHES))[order],
        epsilons=CHOSEN,
        answers=ANSWERS,
        seed=SEED,
    )


def _build_page(path: Path, site: Path) -> None:
    from hushrank.flows.collecting.survey.site import build_site, write_site
    from hushrank.flows.methods.registry import load_config

    write_site(build_site(load_config(path)), site)


def _yesterday() -> datetime:
    return datetime.now(UTC) - timedelta(days=1)


def _collect(path: Path, port: int) -> None:
    """In a child: collect until it is told to stop."""
    import asyncio

    from hushrank.flows.collecting.limits import make_quiet
    from hushrank.flows.collecting.places import spool_folder
    from hushrank.flows.collecting.server import Collector, Options, serve
    from hushrank.flows.methods.registry import load_config

    make_quiet()
    survey = load_config(path)
    collector = Collector(survey, spool_folder(survey, None), _say, _yesterday)
    options = Options(
        host="127.0.0.1", port=port, metrics_port=None, site=path.with_name("site"), headers={}
    )
    asyncio.run(serve(collector, options, ()))


@contextlib.contextmanager
def _collector(path: Path) -> Iterator[int]:
    """A collector in a process of its own; yields its port.

    Raises:
        HushrankError: it does not start.
    """
    import multiprocessing

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    process = multiprocessing.get_context("spawn").Process(target=_collect, args=(path, port))
    process.start()
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _listens(port):
            if not process.is_alive() or time.monotonic() > deadline:
                raise HushrankError("The collector did not start.")
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.join()


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 5).close()
        return True
    return False


def _answer(population: Population, people: int, port: int) -> float:
    """Have people answer; the seconds that it took.

    Raises:
        HushrankError: an answer was not accepted.
    """
    import asyncio

    from hushrank.pipelines.simulate.respondents import send

    bodies = list(population.bodies(people))
    started = time.perf_counter()
    rate = 0.9 * 5000 / ANSWERS  # the collector takes 5 000 answers a second
    sent = asyncio.run(send(bodies, port, "/answers", connections=CONNECTIONS, rate=rate))
    if refused := sum(one.status != 200 for one in sent):
        raise HushrankError(f"The collector refused {refused} of {people} people.")
    return time.perf_counter() - started


def _seal(path: Path) -> None:
    """Have the night end for the collector."""
    from hushrank.flows.collecting.places import spool_folder
    from hushrank.flows.collecting.server import terms_of
    from hushrank.flows.collecting.spool import seal_spools
    from hushrank.flows.methods.registry import load_config

    survey = load_config(path)
    seal_spools(spool_folder(survey, None), terms_of(survey, _say, _yesterday))


def _rank(path: Path, moment: datetime) -> tuple[Release, Path]:
    """Rank the night; its release, and the page of its report."""
    from hushrank.flows.display import show_outcome
    from hushrank.flows.interfaces.cli.night_commands import execution
    from hushrank.flows.nights.nights import run_night
    from hushrank.flows.release.archive import REPORT
    from hushrank.flows.run.job import read_survey

    with execution(path, prefect=False) as execute:
        outcome = run_night(read_survey(path), moment.date(), datetime.now(UTC), execute)
    show_outcome(Console(), outcome)
    return outcome.release, Path(str(outcome.folder)) / REPORT


def _agreement(population: Population, release: Release) -> float:
    """Share of pairs of dishes whose order in the release is that of their true scores."""
    import numpy as np

    score = dict(zip(population.items, population.scores, strict=True))
    true = np.array([score[line.item] for line in release.ranking])
    above = true[:, None] > true[None, :]
    return float(above[np.triu_indices(len(true), k=1)].mean())


MOST_TOKENS = 10_000_000


def build(
    config: ConfigPath,
    out: Annotated[Path, typer.Option(help="The folder for the page's files.")] = Path("site"),
    anyway: Anyway = False,
) -> None:
    """Write a page that asks people, and privatises what they answer on their own device.

    The files need no server program and load nothing from elsewhere: put them on any web host.
    """
    from hushrank.flows.collecting.survey.settings import collect_of
    from hushrank.flows.collecting.survey.site import INDEX, build_site, digest, write_site

    checked = _checked(config, anyway=anyway)
    made = build_site(checked)
    write_site(made, out)
    Console().print(
        f"Wrote {len(made)} files to {out}. The page sends privatised answers to the"
        f" address {collect_of(checked).url}, and nothing else to anybody.\n"
        f"{INDEX} names the digests of all files; its own is {digest(made[INDEX])}.\n"
        f"Next: serve the folder over https, with the headers in {out / '_headers'} if the host"
        f" can; hushrank collect {config} takes the answers.",
        soft_wrap=True,
        markup=False,
        highlight=False,
    )


def tokens(
    config: ConfigPath,
    count: Annotated[
        int, typer.Argument(min=1, max=MOST_TOKENS, help="How many people may answer.")
    ],
    out: Annotated[Path, typer.Option(help="The new file for them, one a line.")] = Path(
        "tokens.txt"
    ),
    page: Annotated[
        str, typer.Option(help="The address of the page: then lines are links to it.")
    ] = "",
    anyway: Anyway = False,
) -> None:
    """Make one-time tokens: with each of them one batch of answers is accepted.

    They hinder people from answering more than once. Whoever knows who got which token, and sees
    what is sent, can tell whose private answers are whose: the answers stay private, each at its
    epsilon.
    """
    from hushrank.flows.collecting.survey.settings import collect_of
    from hushrank.flows.collecting.tokens import TokenKey, write_tokens
    from hushrank.flows.run.confidential_folder import check_confidential
    from hushrank.privacy.randomness import system_bits

    checked, bits = _checked(config, anyway=anyway, people=count), system_bits()
    if not collect_of(checked).tokens:
        raise ConfigError(
            "collect.tokens: must be true, or the collector takes answers without a token."
        )
    check_confidential(checked.confidential)
    key = TokenKey.of(checked.confidential, bits)
    try:
        write_tokens(out, key, count, bits, page)
    except FileExistsError:
        raise ConfigError(f"--out: {out} exists already; name a new file.") from None
    _say(
        f"Wrote {count} {'links' if page else 'tokens'} to {out}. Give each person one, and keep no"
        " list of who got which."
    )


def collect(
    config: ConfigPath,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65_535, help="The port to listen at.")] = 8080,
    metrics_port: Annotated[
        int,
        typer.Option(
            min=0, max=65_535, help="The port of /metrics, for this machine alone; 0: none."
        ),
    ] = 0,
    site: Annotated[
        Path | None,
        typer.Option(help="Serve this folder, too: the page that `hushrank survey build` made."),
    ] = None,
    spool: Annotated[
        Path | None,
        typer.Option(
            help="Local folder where answers wait for the end of their night; else in confidential."
        ),
    ] = None,
    seal: Annotated[
        bool,
        typer.Option("--seal", help="Write what waits into parts now, and end: a survey is over."),
    ] = False,
    anyway: Anyway = False,
) -> None:
    """Collect private answers over HTTP, and write a part for each night.

    It keeps no addresses, and no times but the night. Put it behind a proxy that speaks TLS.
    """
    require("collect", "hushrank collect")
    from hushrank.flows.collecting.places import path_of, spool_folder
    from hushrank.flows.collecting.server import terms_of
    from hushrank.flows.collecting.spool import seal_spools
    from hushrank.flows.collecting.survey.settings import collect_of
    from hushrank.flows.run.confidential_folder import check_confidential

    survey = _checked(config, anyway=anyway or seal)  # what was sent already is kept
    folder, collected = spool_folder(survey, spool), collect_of(survey)
    if isinstance(survey.confidential, Path) or collected.tokens:  # else nothing goes there
        check_confidential(survey.confidential)
    if seal:
        parts = seal_spools(folder, terms_of(survey, _tell))
        _say(f"Wrote {parts} {'part' if parts == 1 else 'parts'} to {collected.folder}.")
        return
    if site is not None and not (site / "index.html").is_file():
        raise ConfigError(f"--site: {site} has no index.html; make it with hushrank survey build.")
    import asyncio

    from hushrank.flows.collecting.limits import make_quiet
    from hushrank.flows.collecting.server import Collector, Options, allow_connections, serve
    from hushrank.flows.collecting.survey.settings import page_headers

    make_quiet()
    allow_connections()
    collector = Collector(survey, folder, _tell)
    options = Options(
        host=host,
        port=port,
        metrics_port=metrics_port or None,
        site=site,
        headers=page_headers(collected.url),
    )
    _say(
        f"Collecting answers for {survey.name} at http://{host}:{port}{path_of(collected.url)}."
        f" Parts go to {collected.folder} when their night is over. Stop with Ctrl-C."
    )
    asyncio.run(serve(collector, options, collected.origins))


def _checked(config: Path, *, anyway: bool, people: int | None = None) -> SurveyConfig:
    """The job of a YAML file, if its deltas are below the limit or the operator accepts them."""
    from hushrank.flows.config.privacy import check_deltas
    from hushrank.flows.methods.registry import load_config

    checked = load_config(config)
    check_deltas(f"{config}", checked.deltas, anyway=anyway, people=people)
    return checked


def _say(text: str) -> None:
    Console().print(text, soft_wrap=True, markup=False, highlight=False)


def _tell(text: str) -> None:
    """Say it on standard error; the collector goes on if nobody can read that any more."""
    with suppress(OSError, ValueError):
        Console(stderr=True).print(text, soft_wrap=True, markup=False, highlight=False)
