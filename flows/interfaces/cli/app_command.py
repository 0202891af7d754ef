"""`hushrank app`: a local page that leads from a file to a report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from hushrank.flows.errors import require
from hushrank.flows.terminal import Console
from hushrank.transforms.system.numpy_threads import load_numpy_with_one_thread


def app(
    folder: Annotated[
        Path, typer.Argument(metavar="[FOLDER]", help="The folder with your answers.")
    ] = Path(),
    port: Annotated[
        int, typer.Option(help="Port on 127.0.0.1.", show_default="a free one", min=0, max=65535)
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")
    ] = True,
) -> None:
    """Open a page that leads from a file of answers to a report, without a YAML file to write.

    The page is served on this machine alone, to whoever has its address, and loads nothing from
    elsewhere. All files stay in the folder: afterwards, hushrank run survey.yaml there does the
    same. Ctrl-C ends the page; a run that it started goes on.
    """
    require("collect", "hushrank app")
    load_numpy_with_one_thread()  # it plans; a run is a process of its own
    from hushrank.flows.interfaces.app.folder import Folder
    from hushrank.flows.interfaces.app.guard import new_secret
    from hushrank.flows.interfaces.app.server import HOST, Page, listening, open_browser, serve

    found = Folder.at(folder)
    os.chdir(found.root)  # messages and YAML files name files as from there
    opened, secret = listening(port), new_secret()
    address = f"http://{HOST}:{opened.getsockname()[1]}/{secret}/"
    console = Console()
    console.print(f"The page: {address}", soft_wrap=True, markup=False, highlight=False)
    console.print(
        "Whoever has this address can use the page: show it to nobody. Ctrl-C ends the page; a run"
        " that it started goes on.",
        soft_wrap=True,
    )
    if browser:
        open_browser(found, address)
    serve(Page.of(found), opened, secret)
