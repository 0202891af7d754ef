"""`hushrank survey` and `hushrank collect`: the page, tokens to open it with, its collector."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hushrank.flows.errors import ConfigError, require
from hushrank.flows.interfaces.cli.arguments import Anyway, ConfigPath
from hushrank.flows.terminal import Console

if TYPE_CHECKING:
    from hushrank.flows.config.survey import SurveyConfig

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

    from hushrank.flows.collecting.server import Collector, Options, allow_connections, serve
    from hushrank.flows.collecting.silence import make_quiet
    from hushrank.flows.collecting.survey.policy import page_headers

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
