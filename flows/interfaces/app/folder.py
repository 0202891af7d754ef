"""The folder of the page: which files it has, what may be put there, and what is out of reach."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from hushrank.flows.errors import ConfigError
from hushrank.transforms import system
from hushrank.transforms.common.local_files import MostBytes, open_to_write, read_local
from hushrank.transforms.common.plain_text import hidden_character, short
from hushrank.transforms.storage.files import ENDINGS, ending_of, is_input_name
from hushrank.transforms.storage.places import temporary_name

PRIVATE = Path(".hushrank", "app")  # notes of the page, below the folder
MOST_LISTED = 300  # files of a list
MOST_UPLOAD = 4 * 10**9  # bytes of a file that is dropped in
YAML_ENDINGS = (".yaml", ".yml")
MOST_NAME = 200  # characters
CHANGED = "{}: was changed since this page showed it. Look at it again. Nothing was spent."


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of this machine, which the page never leaves.

    Attributes:
        root: the folder, without symbolic links in its path.
    """

    root: Path

    @classmethod
    def at(cls, path: Path) -> Folder:
        """Return the folder at `path`.

        Raises:
            ConfigError: there is no such folder.
        """
        if not path.is_dir():
            raise ConfigError(f"{path}: no such folder; name the folder that holds your answers")
        return cls(path.resolve())

    @property
    def private(self) -> Path:
        """Folder of the page's own notes, which only this account may open."""
        path = self.root / PRIVATE
        path.parent.mkdir(exist_ok=True)
        if not path.is_dir():
            system.make_private_folder(path)
        return path

    def place(self, name: str) -> Path:
        """Return the path of a file or folder in this folder, by its name as the page lists it.

        Raises:
            ConfigError: the name leads out of the folder, by its parts or by a symbolic link, also
                by a link inside a folder of that name; or it leads to a hidden place.
        """
        parts = PurePosixPath(name).parts
        plain = bool(parts) and all(
            part not in ("..", "/") and not part.startswith(".") for part in parts
        )
        if not plain or "\\" in name or ":" in name or hidden_character(name, lines=True):
            raise ConfigError(f"{short(name)}: is not the name of a file in this folder")
        path = self.root.joinpath(*parts)
        inner = path.rglob("*") if path.is_dir() else ()
        links = (each for each in inner if each.is_symlink())
        if not all(each.resolve().is_relative_to(self.root) for each in (path, *links)):
            raise ConfigError(
                f"{short(name)}: leads out of this folder; copy the file into it instead"
            )
        return path

    def files(self) -> list[str]:
        """Names of files of answers, and of folders of such files, in order."""
        found = []
        for entry in sorted(self._entries(), key=lambda each: each.name.lower()):
            if entry.is_file():
                if is_input_name(PurePosixPath(entry.name)):
                    found.append(entry.name)
            elif any(is_input_name(PurePosixPath(each.name)) for each in _names_in(entry)):
                found.append(f"{entry.name}/")
        return found[:MOST_LISTED]

    def surveys(self) -> list[str]:
        """Names of YAML files, which may be jobs, in order."""
        found = (each.name for each in self._entries() if each.is_file())
        return sorted(each for each in found if each.lower().endswith(YAML_ENDINGS))[:MOST_LISTED]

    def survey(self, name: str) -> Path:
        """Return the path of a job's YAML file.

        Raises:
            ConfigError: there is no such file in the folder.
        """
        path = self.place(name)
        if not name.lower().endswith(YAML_ENDINGS) or not path.is_file():
            raise ConfigError(f"{short(name)}: no such YAML file in this folder")
        return path

    def new_survey(self, file: str) -> Path:
        """Return the path for a new YAML file, `survey.yaml` if there is none.

        Raises:
            ConfigError: both names that it could have are taken.
        """
        stem = PurePosixPath(file.rstrip("/")).name.partition(".")[0]
        for name in ("survey.yaml", f"survey-{stem}.yaml"):
            if not os.path.lexists(self.root / name):
                return self.root / name
        raise ConfigError(
            f"survey-{stem}.yaml: exists already and was not changed; choose it on the first page,"
            " or remove it"
        )

    async def keep(self, name: str, pieces: AsyncIterator[bytes], stated: int | None) -> Path:
        """Store a file that somebody dropped in, as a whole or not at all; never over another.

        Args:
            name: name of the file.
            pieces: its bytes.
            stated: its size, if known.

        Raises:
            ConfigError: the name or the size does not suit, a file has the name, or the disk is
                full.
        """
        path = self.place(name)
        if "/" in name or len(name) > MOST_NAME or ending_of(name) not in ENDINGS:
            raise ConfigError(
                f"{short(name)}: not a format that is read. Known endings: {', '.join(ENDINGS)}"
            )
        if os.path.lexists(path):
            raise ConfigError(
                f"{short(name)}: a file of this name is in the folder already. Choose it from the"
                " list, or rename the one that you drop in"
            )
        if stated is not None and stated > MOST_UPLOAD:
            raise _too_large(name)
        temporary = self.private / temporary_name("upload")
        try:
            size = 0
            with open_to_write(temporary) as file:
                async for piece in pieces:
                    size += len(piece)
                    if size > MOST_UPLOAD:
                        raise _too_large(name)
                    file.write(piece)
            if stated is not None and size != stated:
                raise ConfigError(f"{short(name)}: arrived in part only; drop it in again")
            os.link(temporary, path)  # never over a file that appeared meanwhile
        except OSError as error:
            raise ConfigError(f"{short(name)}: cannot be stored: {error.strerror}") from None
        finally:
            temporary.unlink(missing_ok=True)
        return path

    def _entries(self) -> Iterator[Path]:
        """Yield what is in the folder, except hidden places and links that lead out of it."""
        for entry in self.root.iterdir():
            inside = entry.resolve().is_relative_to(self.root)
            if inside and not entry.name.startswith("."):
                yield entry


def text_at(path: Path, most: int = MostBytes.SETTINGS) -> str:
    """Return the text of a local file.

    Raises:
        ConfigError: it cannot be read, is too large or is no text.
    """
    try:
        return read_local(path, most).decode("utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:
        raise ConfigError(f"{path}: is no text in UTF-8") from None


def digest_of(text: str) -> str:
    """Return the digest by which a page names the content that it showed."""
    return hashlib.sha256(text.encode()).hexdigest()


def _names_in(folder: Path) -> Iterator[Path]:
    try:
        yield from folder.iterdir()
    except OSError:  # a folder that this account may not open
        return


def _too_large(name: str) -> ConfigError:
    return ConfigError(
        f"{short(name)}: larger than {MOST_UPLOAD / 10**9:g} GB; copy the file into the folder"
        " instead, and choose it from the list"
    )
