"""`hushrank survey` and `hushrank collect`: the page, its one-time tokens, and its collector.

`hushrank survey demo` runs a simulated survey from its page to its report, on this machine. It uses
what a real survey uses: the page, a collector in its own process, HTTP, private answers, the night.
Only the respondents are simulated. The collector's clock is a day behind, because a night can be
ranked only when it is over.
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
    from hushrank.pipelines.simulate.simulate_responses import Population


DISHES = (
    *("soup", "salad", "pasta", "pizza", "curry", "sushi", "tacos", "burger", "falafel", "risotto"),
    *("ramen", "paella", "lasagne", "gnocchi", "tofu", "stew", "pie", "noodles", "fish", "eggs"),
)
CHOSEN = (0.5, 1.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0)  # epsilons of eight people
ANSWERS, SEED, CONNECTIONS = 10, 7, 50
START_SECONDS = 120.0
SURVEY = f"""# A made-up survey, whose answers are randomised before they are sent.
name: favourite-dishes
input:
  kind: comparisons
  paths: ["answers/{{date}}/*.parquet"]
  columns: {{left: left, right: right, outcome: outcome, epsilon: epsilon}}
items: {{names: [{", ".join(DISHES)}]}}
privacy: {{unit: local, already_private: true, epsilon_levels: [0.5, 1, 2, 4]}}
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
    people: Annotated[
        int, typer.Option(min=10, max=1_000_000, help="Number of simulated people.")
    ] = 2000,
) -> None:
    """Try a whole survey: a simulated page, collector, respondents, and night.

    Each person answers 10 pairs of 20 dishes at an epsilon of their own.
    """
    require("collect", "hushrank survey demo")
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty. Name a new folder.")
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
    _say(f"Pairs of dishes in their true order:  {_agreement(population, release):.0%}.")
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        import webbrowser

        webbrowser.open(page.resolve().as_uri())


def _population() -> Population:
    """Simulated people, and dishes whose true order is unrelated to their names."""
    import numpy as np

    from hushrank.pipelines.simulate.simulate_responses import Population

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
    from hushrank.flows.collecting.survey.settings import build_site, write_site
    from hushrank.flows.methods.registry import load_config

    write_site(build_site(load_config(path)), site)


def _yesterday() -> datetime:
    return datetime.now(UTC) - timedelta(days=1)


def _collect(path: Path, port: int) -> None:
    """Run the collector, in a child process, until it is stopped."""
    import asyncio

    from hushrank.flows.collecting.protocol import make_quiet
    from hushrank.flows.collecting.server import Collector, Options, serve, spool_folder
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
    """Start a collector in its own process, and yield its port.

    Raises:
        HushrankError: the collector does not start.
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
    """Send the answers of simulated people; return the seconds that this took.

    Raises:
        HushrankError: an answer was not accepted.
    """
    import asyncio

    from hushrank.pipelines.simulate.simulate_responses import send

    bodies = list(population.bodies(people))
    started = time.perf_counter()
    rate = 0.9 * 5000 / ANSWERS  # just below what the collector takes, 5,000 answers a second
    sent = asyncio.run(send(bodies, port, "/answers", connections=CONNECTIONS, rate=rate))
    if refused := sum(one.status != 200 for one in sent):
        raise HushrankError(f"The collector refused {refused} of {people} people.")
    return time.perf_counter() - started


def _seal(path: Path) -> None:
    """Make the collector end the night."""
    from hushrank.flows.collecting.server import spool_folder, terms_of
    from hushrank.flows.collecting.spool import seal_spools
    from hushrank.flows.methods.registry import load_config

    survey = load_config(path)
    seal_spools(spool_folder(survey, None), terms_of(survey, _say, _yesterday))


def _rank(path: Path, moment: datetime) -> tuple[Release, Path]:
    """Rank the night; return its release and the page of its report."""
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
    """Write the page that asks people and privatises their answers on their own device.

    The files need no program on the server and load nothing from other hosts: put them on any web
    host.
    """
    from hushrank.flows.collecting.survey.settings import (
        INDEX,
        build_site,
        collect_of,
        digest,
        write_site,
    )

    checked = _checked(config, anyway=anyway)
    made = build_site(checked)
    write_site(made, out)
    Console().print(
        f"Wrote {len(made)} files to {out}. The page sends private answers to the"
        f" address {collect_of(checked).url}, and nothing else.{_asker(checked)}\n"
        f"{INDEX} lists the digests of all files; its own digest is {digest(made[INDEX])}.\n"
        f"Next: serve the folder over https, with the headers in {out / '_headers'} if the host"
        f" can; hushrank collect {config} collects the answers.",
        soft_wrap=True,
        markup=False,
        highlight=False,
    )


def _asker(survey: SurveyConfig) -> str:
    """A hint where the page names nobody who asks."""
    if survey.collect is None or survey.collect.about is not None:
        return ""
    return " It does not say who asks: collect.about would."


def tokens(
    config: ConfigPath,
    count: Annotated[int, typer.Argument(min=1, max=MOST_TOKENS, help="Number of tokens to make.")],
    out: Annotated[
        Path, typer.Option(help="The new file for the tokens, one on each line.")
    ] = Path("tokens.txt"),
    page: Annotated[
        str,
        typer.Option(help="The address of the page; each line is then a link to it with a token."),
    ] = "",
    anyway: Anyway = False,
) -> None:
    """Make one-time tokens: each of them admits one batch of answers.

    Tokens prevent people from answering more than once. Somebody who knows which person got which
    token, and sees what is sent, can link private answers to people. The answers stay private, each
    at its epsilon.
    """
    from hushrank.flows.collecting.contents import TokenKey, write_tokens
    from hushrank.flows.collecting.survey.settings import collect_of
    from hushrank.flows.run.confidential_folder import check_confidential
    from hushrank.flows.run.context import record_access
    from hushrank.privacy.randomness import system_bits

    checked, bits = _checked(config, anyway=anyway, people=count), system_bits()
    if not collect_of(checked).tokens:
        raise ConfigError(
            "collect.tokens: must be true; otherwise the collector accepts answers without a token."
        )
    check_confidential(checked.confidential)
    record_access(checked, "survey tokens")
    key = TokenKey.of(checked.confidential, bits)
    try:
        write_tokens(out, key, count, bits, page)
    except FileExistsError:
        raise ConfigError(f"--out: {out} exists already; name a new file.") from None
    _say(
        f"Wrote {count} {'links' if page else 'tokens'} to {out}. Give one to each person, and"
        " keep no"
        " list of who got which one."
    )


def collect(
    config: ConfigPath,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65_535, help="The port to listen on.")] = 8080,
    metrics_port: Annotated[
        int,
        typer.Option(
            min=0,
            max=65_535,
            help="The port of /metrics, reachable from this machine only; 0 turns it off.",
        ),
    ] = 0,
    site: Annotated[
        Path | None,
        typer.Option(help="Serve the page in this folder, made by `hushrank survey build`, too."),
    ] = None,
    spool: Annotated[
        Path | None,
        typer.Option(
            help="Local folder for answers until their night ends; default: in `confidential`."
        ),
    ] = None,
    seal: Annotated[
        bool,
        typer.Option(
            "--seal", help="Write all waiting answers into parts now, and exit: the survey is over."
        ),
    ] = False,
    anyway: Anyway = False,
) -> None:
    """Collect private answers over HTTP, and write a part for each night.

    It stores no addresses, and no times except the night. Put it behind a proxy that speaks TLS.
    """
    require("collect", "hushrank collect")
    from hushrank.flows.collecting.server import path_of, spool_folder, terms_of
    from hushrank.flows.collecting.spool import seal_spools
    from hushrank.flows.collecting.survey.settings import collect_of
    from hushrank.flows.run.confidential_folder import check_confidential

    # answers that were sent are kept whatever their delta
    survey = _checked(config, anyway=anyway or seal)
    folder, collected = spool_folder(survey, spool), collect_of(survey)
    # otherwise nothing is written there
    if isinstance(survey.confidential, Path) or collected.tokens:
        check_confidential(survey.confidential)
    if seal:
        parts = seal_spools(folder, terms_of(survey, _tell))
        _say(f"Wrote {parts} {'part' if parts == 1 else 'parts'} to {collected.folder}.")
        return
    if site is not None and not (site / "index.html").is_file():
        raise ConfigError(f"--site: {site} has no index.html; make it with hushrank survey build.")
    import asyncio

    from hushrank.flows.collecting.protocol import make_quiet
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
        f" It writes parts to {collected.folder} when their night is over. Stop with Ctrl-C."
    )
    asyncio.run(serve(collector, options, collected.origins))


def _checked(config: Path, *, anyway: bool, people: int | None = None) -> SurveyConfig:
    """Read the job of a YAML file; refuse deltas above the limit unless the operator accepts
    them."""
    from hushrank.flows.config.privacy import check_deltas
    from hushrank.flows.methods.registry import load_config

    checked = load_config(config)
    check_deltas(f"{config}", checked.deltas, anyway=anyway, people=people)
    return checked


def _say(text: str) -> None:
    Console().print(text, soft_wrap=True, markup=False, highlight=False)


def _tell(text: str) -> None:
    """Write a line to standard error; continue if nobody reads it any more."""
    with suppress(OSError, ValueError):
        Console(stderr=True).print(text, soft_wrap=True, markup=False, highlight=False)
