"""Objects in S3 and Azure Blob Storage, listed and read by s3fs and adlfs.

Size and ETag of an object identify its content. Credentials come from the environment, the files
and the roles that boto3 and azure-identity use.
"""

from __future__ import annotations

import functools
import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import IO, Any

from hushrank.transforms.common.extras import is_installed, need
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.tables.names import MAGIC, Answering, as_regex, ask, explained

S3 = "s3://"
ADVICE = {
    True: "Address and credentials come from the environment or the files and roles of AWS"
    " (AWS_PROFILE, AWS_ENDPOINT_URL, …): check them there.",
    False: "Address and credentials come from the environment (AZURE_STORAGE_ACCOUNT_KEY,"
    " AZURE_STORAGE_CONNECTION_STRING, az login, …): check them there.",
}
BLOCK_BYTES = 1 << 22  # least bytes of one request
_SETTINGS = ("AWS_", "AZURE_")  # a store that was opened under other ones is not used again
_AZURE = re.compile(
    r"(?P<start>abfss?://(?P<container>[a-z0-9$-]{3,63})"
    r"(@(?P<account>[a-z0-9]{3,24})\.(dfs|blob)\.core\.windows\.net)?)(/(?P<key>.*))?",
    re.DOTALL,
)
_S3 = re.compile(r"(?P<start>s3://(?P<container>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]))(/(?P<key>.*))?")

_lock = threading.Lock()


def object_place(url: str) -> re.Match[str]:
    """Parse a URL: `start`, `container`, `key`, and for Azure `account`.

    Raises:
        ValueError: the URL does not have the form of its kind. The text does not quote it, because
            it may hold a signature.
    """
    if "sig=" in url.lower():
        raise ValueError(
            "must hold no signature: leave it out and set AZURE_STORAGE_SAS_TOKEN in the"
            " environment"
        )
    match = (_S3 if url.startswith(S3) else _AZURE).fullmatch(url)
    if match is None:
        raise ValueError(
            "must be s3://BUCKET/NAME, abfs://CONTAINER/NAME or"
            " abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/NAME, without keys or passwords"
        )
    return match


def object_matches(
    url: str, is_input: Callable[[PurePosixPath], bool]
) -> Iterator[tuple[str, int, str]]:
    """Yield path, size and ETag of the objects that `url` names.

    Args:
        url: an object; a folder, which stands for the objects in and below it that `is_input`
            accepts; or a pattern, as in `patterns`.
        is_input: decides by the name below the folder whether an object belongs to the input.

    Raises:
        InputError: the URL has another form, or the store cannot be asked.
    """
    try:
        place = object_place(url)
    except ValueError as error:  # its text does not quote the URL, which may hold a signature
        raise InputError(f"An object's address {error}. Nothing was read.") from None
    start, key = place["start"], place["key"] or ""
    magic = MAGIC.search(key)
    folder = key if magic is None else key[: magic.start()].rpartition("/")[0]
    folder = folder.strip("/")
    wanted = None if magic is None else re.compile(as_regex(key))
    listed = ask(
        lambda: _listed(url, f"{place['container']}/{folder}".rstrip("/")), url, _advice(url)
    )
    for path, found in sorted(listed.items()):
        name = path.partition("/")[2]
        below = PurePosixPath(name[len(folder) :].lstrip("/"))
        if wanted is not None:
            named = wanted.fullmatch(name) is not None
        elif name == folder:
            named = not key.endswith("/")
        else:
            named = (not folder or name.startswith(f"{folder}/")) and is_input(below)
        if named and found["type"] == "file" and not name.endswith("/"):
            yield f"{start}/{name}", int(found["size"]), _tag(found)


def object_tag(url: str) -> str:
    """Return the present ETag of an object, or an empty text if it is gone.

    Raises:
        InputError: the store cannot be asked.
    """
    place = object_place(url)

    def find() -> str:
        store = _store(url)
        store.invalidate_cache()
        try:
            return _tag(store.info(f"{place['container']}/{place['key']}"))
        except FileNotFoundError:
            return ""

    return ask(find, url, _advice(url))


def open_object(url: str, name: str) -> IO[bytes]:
    """Open a readable, seekable stream of an object.

    Args:
        url: the object.
        name: name for messages.

    Raises:
        FileNotFoundError: there is no such object.
        InputError: the store cannot be asked.
    """
    place = object_place(url)

    def opened() -> Any:
        try:
            return _store(url).open(
                f"{place['container']}/{place['key']}", "rb",
                block_size=BLOCK_BYTES, cache_type="readahead",
            )  # fmt: skip
        except FileNotFoundError:
            return None

    with explained(name, _advice(url)):
        stream = opened()
    if stream is None:
        raise FileNotFoundError(url)
    return Answering(stream, name, _advice(url))  # type: ignore[return-value]


def azure_credential(url: str) -> Any:
    """The credential that gives tokens for an Azure store; None: a key opens it, or nothing does.

    Raises:
        ValueError: the URL does not have the form of its kind.
    """
    if not is_installed("azure"):
        return None
    store = _store(url)
    keyed = store.account_key or store.sas_token or store.connection_string
    return None if keyed else store.sync_credential


def _advice(url: str) -> str:
    return ADVICE[url.startswith(S3)]


def _listed(url: str, folder: str) -> dict[str, dict[str, Any]]:
    store = _store(url)
    store.invalidate_cache()
    try:
        found = store.find(folder, detail=True)
    except FileNotFoundError:
        return {}
    return {path.lstrip("/"): each for path, each in found.items()}


def _tag(found: dict[str, Any]) -> str:
    tag = found.get("ETag") or found.get("etag")
    if not tag:
        raise InputError(f"{found.get('name')}: the store gives no ETag, so nothing identifies it.")
    return str(tag).strip('"')


def _store(url: str) -> Any:
    need("s3" if url.startswith(S3) else "azure", url)
    settings = frozenset(pair for pair in os.environ.items() if pair[0].startswith(_SETTINGS))
    account = None if url.startswith(S3) else object_place(url)["account"]
    with _lock:
        return _store_of(os.getpid(), settings, url.startswith(S3), account)


@functools.lru_cache(maxsize=4)
def _store_of(
    _process: int, _settings: frozenset[tuple[str, str]], is_s3: bool, account: str | None
) -> Any:
    if is_s3:
        import s3fs

        waiting = {"connect_timeout": 10, "read_timeout": 30, "retries": {"max_attempts": 2}}
        return s3fs.S3FileSystem(config_kwargs=waiting, skip_instance_cache=True)
    import adlfs

    named = {} if account is None else {"account_name": account}
    return adlfs.AzureBlobFileSystem(**named, skip_instance_cache=True)
