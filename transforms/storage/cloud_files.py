"""The objects that a gs:// path of the input names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from hushrank.transforms.common.schema import InputError
from hushrank.transforms.storage.cloud_storage import CloudPath, Listed
from hushrank.transforms.tables.patterns import MAGIC, as_regex


def cloud_matches(
    url: str, is_input: Callable[[PurePosixPath], bool]
) -> Iterator[tuple[str, int, str]]:
    """Path, size and generation of the objects that `url` names.

    Args:
        url: an object; or a folder, with or without a slash at its end, which stands for the
            objects in and below it that `is_input` accepts; or a pattern, in which `*` and `?`
            stand for anything but a slash and `**` for anything.
        is_input: decides by the name below the folder whether an object belongs to the input.

    Raises:
        InputError: the bucket cannot be listed, or the path is not valid.
    """
    try:
        yield from (
            (str(found.path), found.size, str(found.generation)) for found in _find(url, is_input)
        )
    except ValueError as error:
        raise InputError(f"input.paths: {error}") from None
    except OSError as error:
        raise InputError(f"{url}: cannot be listed ({error.strerror}); nothing was read.") from None


def _find(url: str, is_input: Callable[[PurePosixPath], bool]) -> Iterator[Listed]:
    magic = MAGIC.search(url)
    if magic is not None:
        folder, _, start = url[: magic.start()].rpartition("/")
        place, wanted = CloudPath.parse(folder), re.compile(as_regex(url[len(folder) + 1 :]))
        start_of_name = len(f"{place.key}/") if place.key else 0
        for found in place.objects(start):
            if wanted.fullmatch(found.path.key[start_of_name:]):
                yield found
        return
    place = CloudPath.parse(url)
    for found in place.parent.objects(place.name) if place.key else place.objects():
        below = PurePosixPath(found.path.key[len(place.key) :].lstrip("/"))
        if found.path == place:
            named = not url.endswith("/")
        else:
            named = place.contains(found.path) and is_input(below)
        if named:
            yield found
