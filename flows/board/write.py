"""`hushrank board`: from output folders to a folder of a site, whole or not at all."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from hushrank.flows.board.archive import read_archive
from hushrank.flows.board.site import ATOM, DATA, FEED, INDEX, WIDGET, site_files
from hushrank.flows.config.language import Language
from hushrank.flows.errors import ConfigError
from hushrank.flows.release.archive import write_file
from hushrank.flows.statement.record import Record
from hushrank.transforms import system
from hushrank.transforms.storage.places import Place, flush_folder

_URL = re.compile(r"https://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[\w.~%-]+)*/?")
_OURS = re.compile(r"(item-[0-9a-f]{16}|group-[0-9]+)\.html")
_FIXED = {INDEX, DATA, ATOM, FEED, WIDGET, "release"}


class BoardSite(Record):
    """A site that was written.

    Attributes:
        out: its folder.
        releases: number of releases that it shows.
        files: number of its files.
        size: bytes of all of them.
        left_out: sentence on each release that is left out.
    """

    out: str
    releases: int
    files: int
    size: int
    left_out: tuple[str, ...]


def write_board(
    outputs: Sequence[Place],
    out: Path,
    url: str | None = None,
    language: Language = Language.ENGLISH,
) -> BoardSite:
    """Write the site of all releases in output folders; see `hushrank.board`.

    A new folder is filled beside `out`, which then takes its place. A build that is killed leaves
    the old site whole; only between two renames there is none under that name.

    Raises:
        ConfigError: no release can be shown, `url` is no https:// address, or `out` holds other
            files or cannot be written.
    """
    if url is not None and not _URL.fullmatch(url):
        raise ConfigError(
            f"url: must be an https:// address without ? and #, got {url[:80]!r}; write for example"
            " https://board.example.org/"
        )
    _refuse_others(out)
    archive = read_archive(outputs)
    partial, old = (out.with_name(f".{out.name}.{what}") for what in ("partial", "old"))
    count = size = 0
    try:
        shutil.rmtree(partial, ignore_errors=True)
        (partial / "release").mkdir(parents=True)
        address = f"{url.rstrip('/')}/" if url else ""
        for name, content in site_files(archive, address, language):
            write_file(partial / name, content)
            count, size = count + 1, size + len(content)
        flush_folder(partial)
        shutil.rmtree(old, ignore_errors=True)
        if out.exists():
            system.replace(out, old)
        system.replace(partial, out)
        flush_folder(out.parent)
    except OSError as error:
        raise ConfigError(
            f"{out}: cannot be written ({error.strerror}); name another folder"
        ) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        if out.exists():
            shutil.rmtree(old, ignore_errors=True)
    return BoardSite(
        out=str(out),
        releases=len(archive.past),
        files=count,
        size=size,
        left_out=archive.left_out,
    )


def _refuse_others(out: Path) -> None:
    """Refuse a folder that holds anything but an older board: it would be deleted."""
    if not out.exists():
        return
    if not out.is_dir() or out.is_symlink():
        raise ConfigError(f"{out}: is no folder; name another one")
    names = {path.name for path in out.iterdir()}
    strange = sorted(name for name in names - _FIXED if not _OURS.fullmatch(name))
    if strange:
        raise ConfigError(
            f"{out}: holds {strange[0][:80]}, which is not of a board; name a new folder"
        )
