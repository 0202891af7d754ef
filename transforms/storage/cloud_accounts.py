"""Account by which a process reads and writes a cloud's store, in words for a record.

What the cloud itself answers for the credentials in use stands plainly: `Google Cloud:
runner@survey.iam.gserviceaccount.com`. What only a file, an address, a proxy or certificates of
the operator's choice vouch for is a claim and names its source: `GCE_METADATA_HOST says …`.

Asking needs a request or two to the cloud, so only jobs with places there do so. Nothing here
fails or waits long: a cloud that does not answer within `SECONDS` leaves its account unknown.
Whoever replaces code or trusted certificates of the process can have it write any name.

References:
    Google, OAuth 2.0 tokeninfo. https://developers.google.com/identity/protocols/oauth2
    AWS, GetCallerIdentity.
        https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html
    Microsoft, access token claims.
        https://learn.microsoft.com/entra/identity-platform/access-token-claims-reference
"""

from __future__ import annotations

import base64
import contextvars
import functools
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from hushrank.transforms.common.plain_text import short

SECONDS = 5.0  # that one cloud may take
KEPT_SECONDS = 600.0  # that an answer, or the lack of one, is taken for the present
TOKEN_INFO = "https://oauth2.googleapis.com/tokeninfo"
GOOGLE_SCOPES = (
    "https://www.googleapis.com/auth/userinfo.email",
    "https://www.googleapis.com/auth/devstorage.read_only",
)
GOOGLE_ELSEWHERE = ("GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP")
GOOGLE_METADATA = "http://metadata.google.internal"  # without TLS: a proxy can answer for it
CERTIFICATES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")  # name the file of those to trust
_AMAZON = r"(amazonaws\.(com|com\.cn|eu)|api\.aws|api\.amazonwebservices\.(com\.cn|eu))"
AMAZON = re.compile(rf"(.+\.)?{_AMAZON}")
# Not every host of Amazon's: its customers run servers at execute-api.REGION.amazonaws.com.
AMAZON_STS = re.compile(rf"(vpce-[\w-]+\.)?sts(-fips)?(\.[a-z]+(-[a-z]+)+-\d)?(\.vpce)?\.{_AMAZON}")
AZURE_SCOPE = "https://storage.azure.com/.default"
MOST_OF_AN_ACCOUNT = 200  # characters; names of roles and tenants are long
_SETTINGS = ("AWS_", "AZURE_", "GCE_", "GOOGLE_", "STORAGE_EMULATOR_HOST", "IDENTITY_", "MSI_")
_DELIMITERS = re.compile("[;()]")  # a name that holds one could pass for two


class UnknownAccountError(Exception):
    """Error if there are credentials, and nobody says whose."""


def accounts_of(places: Iterable[str]) -> tuple[str, ...]:
    """Text of the account for each cloud that one of `places` is in; none without credentials.

    Args:
        places: paths and URLs of a job.
    """
    settings = frozenset(each for each in os.environ.items() if each[0].startswith(_SETTINGS))
    lately = int(time.monotonic() / KEPT_SECONDS)
    found = dict.fromkeys(map(_cloud_of, places))
    asked = (_account(*each, settings, os.getpid(), lately) for each in found if each)
    return tuple(dict.fromkeys(filter(None, asked)))


def claim(source: str, name: str) -> str:
    """Words for a name that only `source` tells."""
    return f"{account_text(source)} says {account_text(name)}"


def account_text(name: str) -> str:
    """A name as a record holds it, without the marks that part it from other names."""
    return short(_DELIMITERS.sub("_", name), MOST_OF_AN_ACCOUNT)


def is_of_the_machine(certificates: str) -> bool:
    """Whether only the machine's administrator can write that file or folder."""
    try:
        found = os.stat(certificates)
    except OSError:
        return False
    return os.name != "nt" and found.st_uid == 0 and not found.st_mode & 0o022


def within(seconds: float, find: Callable[[], str]) -> str | None:
    """Return what `find` returns, or None if it raises or takes longer; it may go on."""
    found: list[str] = []
    here = contextvars.copy_context()

    def look() -> None:
        try:
            found.append(here.run(find))
        except Exception:  # whatever libraries of clouds raise: the account stays unknown
            return

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(seconds)
    return found[0] if found else None


def _cloud_of(place: str) -> tuple[str, str] | None:
    """Name of the cloud of a place, and the URL that its credentials may depend on."""
    for name, (pattern, _) in CLOUDS.items():
        if pattern.match(place):
            return name, place if name == "Azure" else ""
    return None


@functools.lru_cache(maxsize=16)
def _account(
    cloud: str, url: str, _settings: frozenset[tuple[str, str]], _process: int, _lately: int
) -> str:
    find = CLOUDS[cloud][1]
    found = within(SECONDS, lambda: find(url))
    return f"{cloud} account unknown" if found is None else found


def _google(_url: str) -> str:
    """Account of Google's default credentials, which Cloud Storage and BigQuery use here."""
    if os.environ.get("STORAGE_EMULATOR_HOST"):
        return ""
    import google.auth
    import requests
    from google.auth.exceptions import DefaultCredentialsError
    from google.auth.transport.requests import Request
    from requests.utils import get_environ_proxies, select_proxy

    try:
        credentials, _ = google.auth.default(scopes=GOOGLE_SCOPES)
    except DefaultCredentialsError:
        return ""
    credentials.refresh(Request())
    told = requests.post(TOKEN_INFO, data={"access_token": credentials.token}, timeout=SECONDS)
    said = told.json() if told.ok else {}
    if said.get("email"):
        return _told("Google Cloud", said["email"], _chosen_certificates())
    name = getattr(credentials, "service_account_email", None)
    if not name or "@" not in name:  # the metadata server calls it `default` until it was asked
        raise UnknownAccountError
    if not credentials.__class__.__module__.startswith("google.auth.compute_engine"):
        return claim("the file of credentials", name)
    elsewhere = next(filter(os.environ.get, GOOGLE_ELSEWHERE), None)
    if elsewhere is None and select_proxy(GOOGLE_METADATA, get_environ_proxies(GOOGLE_METADATA)):
        elsewhere = "HTTP_PROXY"
    return _told("Google Cloud", name, elsewhere)


def _told(cloud: str, name: str, elsewhere: str | None) -> str:
    """Words for a name that a cloud tells, or only what the environment put in its place."""
    return claim(elsewhere, name) if elsewhere else f"{cloud}: {account_text(name)}"


def _chosen_certificates() -> str | None:
    """Variable by which a process trusts other certificates than the machine's; None: none."""
    named = filter(os.environ.get, CERTIFICATES)
    return next((each for each in named if not is_of_the_machine(os.environ[each])), None)


def _aws(_url: str) -> str:
    """ARN of the credentials that s3fs uses, as STS names it."""
    from hushrank.transforms.common.extras import is_installed

    if not is_installed("s3"):
        return ""
    from botocore.config import Config
    from botocore.session import get_session

    session = get_session()
    if session.get_credentials() is None:
        return ""
    region = session.get_config_variable("region") or "us-east-1"
    waits = Config(connect_timeout=2, read_timeout=2, retries={"max_attempts": 0})
    clients = [session.create_client(each, region, config=waits) for each in ("s3", "sts")]
    store, identity = (each.meta.endpoint_url for each in clients)
    if _is_at(AMAZON, identity) and not _is_at(AMAZON, store):
        return ""  # these keys belong to another maker's store
    name = str(clients[1].get_caller_identity()["Arn"])
    if not _is_at(AMAZON_STS, identity):
        return claim(urlsplit(identity).netloc.rpartition("@")[2], name)
    bundle = session.get_config_variable("ca_bundle")
    own = bundle and not is_of_the_machine(bundle)
    return _told("AWS", name, "ca_bundle" if own else _chosen_certificates())


def _is_at(hosts: re.Pattern[str], url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" and hosts.fullmatch(parts.hostname or "") is not None


def _azure(url: str) -> str:
    """User or application of the token that adlfs would use; keys of a store name nobody.

    It is a claim: nothing here checks the token's signature, and a program `az` of anybody's in
    PATH may have made it.
    """
    from hushrank.transforms.tables.objects import azure_credential

    credential = azure_credential(url)
    if credential is None:
        return ""
    said = _claims(credential.get_token(AZURE_SCOPE).token)
    user = said.get("upn") or said.get("preferred_username") or said.get("unique_name")
    application = f"application {said.get('appid')}, object {said.get('oid')}"
    return claim("a token for Azure", f"{user or application} of tenant {said['tid']}")


def _claims(token: str) -> dict[str, Any]:
    """Claims of a token, whose signature is not checked."""
    body = token.split(".")[1]
    said: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return said


CLOUDS: Mapping[str, tuple[re.Pattern[str], Callable[[str], str]]] = {
    "Google Cloud": (re.compile(r"(\w+:)?(gs|bigquery)://|bigquery:"), _google),
    "AWS": (re.compile(r"(\w+:)?s3[an]?://"), _aws),
    "Azure": (re.compile(r"abfss?://"), _azure),
}
