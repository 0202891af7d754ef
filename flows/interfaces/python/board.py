"""`hushrank.board`: a static site of all published releases."""

from __future__ import annotations

from pathlib import Path

from hushrank.flows.board.write import BoardSite, write_board
from hushrank.flows.errors import ConfigError
from hushrank.flows.interfaces.python.arguments import plainly
from hushrank.flows.interfaces.python.configuration import PathLike
from hushrank.flows.interfaces.python.release import language_named
from hushrank.flows.methods.registry import load_config
from hushrank.flows.release.history import outputs_of


@plainly
def board(
    *sources: PathLike, out: PathLike, url: str | None = None, language: str = "en"
) -> BoardSite:
    """Write a static site of all published releases; reads no row and spends nothing.

    A release that does not verify is left out and named. An older site in `out` is replaced once
    the new one is whole.

    Args:
        *sources: YAML files of jobs, or their output folders, of one population.
        out: folder of the site.
        url: https:// address where the site will be, for its feeds and widget.
        language: `en`, `de`, `es`, `fr` or `pt`: language of its pages; feeds are in English.

    Raises:
        ConfigError: no release can be shown, `url` is no https:// address, the language is another
            or its extra `languages` is not installed, or `out` holds other files or cannot be
            written.
    """
    spoken = language_named(language)
    if not sources:
        raise ConfigError("sources: name the YAML file of a job, or its output folder")
    outputs = outputs_of(map(str, sources), load_config)
    return write_board(outputs, Path(out), url, spoken)
