"""Whose credentials a process uses: what a cloud answers, what is only claimed, and no answer."""

from __future__ import annotations

import base64
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import certifi
import pytest
from botocore.config import Config
from botocore.session import get_session
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth.compute_engine import _metadata
from moto import mock_aws
from moto.server import ThreadedMotoServer

from hushrank.transforms.storage import cloud_accounts
from hushrank.transforms.storage.cloud_accounts import AMAZON_STS, _is_at, accounts_of, within
from hushrank.transforms.tables import objects
from tests.ports import closed_port

RUNNER = "runner@survey.iam.gserviceaccount.com"
LEDGER = "gs://survey/ledger.jsonl"
CONTAINER = "abfs://rows@survey.dfs.core.windows.net/log"
UNKNOWN = "Google Cloud account unknown"


@dataclass
class Cloud:
    """A server that gives tokens and says whose they are.

    Attributes:
        answers: JSON, text or a status for each path, up to its question mark.
        asked: what was asked, in order.
        silent: set while it answers nothing.
    """

    answers: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    silent: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    address: str = ""

    def handler(cloud) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - `self` is each request
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = urlsplit(self.path).path  # a proxy is asked for whole URLs
                cloud.asked.append(path)
                if cloud.silent.is_set():
                    cloud.over.wait()
                    return
                found = cloud.answers.get(path, 404)
                body = found.encode() if isinstance(found, str) else json.dumps(found).encode()
                self.send_response(found if isinstance(found, int) else 200)
                self.send_header("Metadata-Flavor", "Google")
                kind = "text/plain" if isinstance(found, str) else "application/json"
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", f"{len(body)}")
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.do_GET()

            def log_message(self, *_: object) -> None:
                return

        return Handler


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """No credentials but what a test sets, and no answer from an earlier test."""
    own = ("AWS_", "AZURE_", "GCE_", "GOOGLE_", "STORAGE_", "IDENTITY_")
    for name in list(os.environ):
        detour = name.lower().endswith(("_proxy", "_ca_bundle"))
        if name.startswith(own) or detour:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    cloud_accounts._account.cache_clear()
    objects._store_of.cache_clear()  # which holds the token of an earlier test
    monkeypatch.setattr(cloud_accounts, "SECONDS", 60.0)


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    cloud = Cloud()
    server = ThreadingHTTPServer(("127.0.0.1", 0), cloud.handler())
    server.daemon_threads = True
    cloud.address = f"127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(cloud_accounts, "TOKEN_INFO", f"http://{cloud.address}/tokeninfo")
    yield cloud
    cloud.over.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def machine(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    """A machine of Google's, whose metadata server knows a service account."""
    about = "/computeMetadata/v1/instance/service-accounts/default"
    cloud.answers |= {
        "/": "",
        "/computeMetadata/v1/project/project-id": "survey",
        "/computeMetadata/v1/universe/universe-domain": "googleapis.com",
        f"{about}/": {"email": RUNNER, "scopes": [], "aliases": ["default"]},
        f"{about}/token": {"access_token": "t", "expires_in": 3600, "token_type": "Bearer"},
        f"/computeMetadata/v1/instance/service-accounts/{RUNNER}/token": {
            "access_token": "t", "expires_in": 3600, "token_type": "Bearer",
        },
    }  # fmt: skip
    monkeypatch.setattr(_metadata, "_GCE_METADATA_HOST", cloud.address)
    monkeypatch.setattr(_metadata, "_GCE_DEFAULT_MDS_IP", cloud.address)
    monkeypatch.setattr(_metadata, "_GCE_DEFAULT_MDS_HOSTS", [cloud.address])
    return cloud


@pytest.fixture
def key_file(cloud: Cloud, monkeypatch: pytest.MonkeyPatch, tmp_path) -> Cloud:
    """A service account's key file."""
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path = tmp_path / "key.json"
    told = {
        "type": "service_account",
        "project_id": "survey",
        "private_key": key.decode(),
        "client_email": RUNNER,
        "token_uri": f"http://{cloud.address}/token",
    }
    path.write_text(json.dumps(told))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    cloud.answers["/token"] = {"access_token": "t", "expires_in": 3600}
    return cloud


def test_a_job_without_places_in_a_cloud_asks_nobody(machine):
    assert accounts_of(["/srv/ledger.jsonl", "answers.csv", "git:/srv/anchor", ""]) == ()
    assert machine.asked == []


def test_google_says_whose_token_it_is(key_file):
    key_file.answers["/tokeninfo"] = {"email": "ada@example.org", "email_verified": "true"}
    assert accounts_of([LEDGER]) == ("Google Cloud: ada@example.org",)


@pytest.mark.parametrize("answer", [404, 503, {"azp": "1"}])
def test_a_key_file_alone_is_a_claim(key_file, answer):
    key_file.answers["/tokeninfo"] = answer
    assert accounts_of([LEDGER]) == (f"the file of credentials says {RUNNER}",)


def test_the_metadata_server_says_it(machine):
    assert accounts_of([LEDGER, "gs://survey/out"]) == (f"Google Cloud: {RUNNER}",)


def test_a_metadata_server_of_somebodys_choice_is_a_claim(machine, monkeypatch):
    monkeypatch.setenv("GCE_METADATA_HOST", machine.address)
    assert accounts_of([LEDGER]) == (f"GCE_METADATA_HOST says {RUNNER}",)


def test_a_proxy_that_answers_for_the_metadata_server_makes_a_claim(machine, monkeypatch):
    monkeypatch.setenv("http_proxy", f"http://{machine.address}")
    assert accounts_of([LEDGER]) == (f"HTTP_PROXY says {RUNNER}",)
    cloud_accounts._account.cache_clear()
    monkeypatch.setenv("no_proxy", "metadata.google.internal,127.0.0.1")
    assert accounts_of([LEDGER]) == (f"Google Cloud: {RUNNER}",)


@pytest.fixture
def others_certificates(tmp_path) -> Path:
    """Certificates of the machine, in a file that others may write."""
    path = tmp_path / "certificates.pem"
    path.write_bytes(Path(certifi.where()).read_bytes())
    path.chmod(0o666)
    return path


@pytest.mark.parametrize("variable", cloud_accounts.CERTIFICATES)
def test_a_name_by_certificates_of_somebodys_choice_is_a_claim(
    key_file, others_certificates, monkeypatch, variable
):
    key_file.answers["/tokeninfo"] = {"email": "ada@example.org"}
    monkeypatch.setenv(variable, f"{others_certificates}")
    assert accounts_of([LEDGER]) == (f"{variable} says ada@example.org",)


@pytest.mark.parametrize("answer", [400, "no JSON"])
def test_a_cloud_that_fails_leaves_the_account_unknown(key_file, answer):
    key_file.answers["/token"] = answer
    assert accounts_of([LEDGER]) == (UNKNOWN,)


def test_a_cloud_that_is_silent_leaves_the_account_unknown(key_file, monkeypatch):
    key_file.silent.set()
    monkeypatch.setattr(cloud_accounts, "SECONDS", 0.2)
    assert accounts_of([LEDGER]) == (UNKNOWN,)
    assert not key_file.over.is_set()  # it has not answered, and nobody waits for it


def test_an_answer_is_kept_for_the_next_lines(key_file):
    key_file.answers["/tokeninfo"] = {"email": "ada@example.org"}
    assert accounts_of([LEDGER]) == accounts_of(["gs://other/place"])
    assert key_file.asked.count("/tokeninfo") == 1


def test_a_name_cannot_pass_for_two(key_file):
    key_file.answers["/tokeninfo"] = {"email": "eve) (; Google Cloud: ada@example.org\x1b[2J"}
    (told,) = accounts_of([LEDGER])
    assert not {*";()\x1b"} & {*told}


def test_an_emulator_has_no_accounts(key_file, monkeypatch):
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://{key_file.address}")
    assert accounts_of([LEDGER]) == ()
    assert key_file.asked == []


@pytest.fixture
def aws_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")


@pytest.mark.parametrize("place", ["s3://lake/log", "delta:s3://lake/battles"])
def test_aws_says_whose_keys_they_are(place, aws_keys):
    with mock_aws():
        assert accounts_of([place]) == ("AWS: arn:aws:sts::123456789012:user/moto",)


@pytest.mark.parametrize(
    ("variable", "source"),
    [("AWS_CA_BUNDLE", "ca_bundle"), ("REQUESTS_CA_BUNDLE", "REQUESTS_CA_BUNDLE")],
)
def test_an_arn_by_certificates_of_somebodys_choice_is_a_claim(
    aws_keys, others_certificates, monkeypatch, variable, source
):
    monkeypatch.setenv(variable, f"{others_certificates}")
    with mock_aws():
        told = (f"{source} says arn:aws:sts::123456789012:user/moto",)
        assert accounts_of(["s3://lake/log"]) == told


def test_only_addresses_of_sts_are_taken_for_it():
    for region in ("us-east-1", "cn-north-1", "us-gov-west-1", "eusc-de-east-1"):
        for fips, dual in product((False, True), repeat=2):
            config = Config(use_fips_endpoint=fips, use_dualstack_endpoint=dual)
            address = get_session().create_client("sts", region, config=config).meta.endpoint_url
            assert _is_at(AMAZON_STS, address), address
    for host in ("sts.amazonaws.com", "vpce-1-a.sts.us-east-1.vpce.amazonaws.com"):
        assert _is_at(AMAZON_STS, f"https://{host}/")
    for address in (  # all of them servers that anybody can run
        "https://a1.execute-api.us-east-1.amazonaws.com/sts",
        "https://a1.execute-api.us-east-1.api.aws",
        "https://sts.s3.amazonaws.com",
        "https://vpce-1-a.vpce-svc-2.us-east-1.vpce.amazonaws.com",
        "https://sts.us-east-1.amazonaws.com.example.org",
        "https://sts.us-east-1.amazonaws.com@example.org",
        "http://sts.us-east-1.amazonaws.com",
    ):
        assert not _is_at(AMAZON_STS, address), address


def test_another_server_in_place_of_amazons_is_a_claim(aws_keys, monkeypatch):
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    told = (f"{host}:{port} says arn:aws:sts::123456789012:user/moto",)
    assert accounts_of(["s3://lake/log"]) == told
    server.stop()


def test_keys_of_another_makers_store_are_not_shown_to_amazon(aws_keys, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://minio.example.org")
    with mock_aws():
        assert accounts_of(["s3://lake/log"]) == ()


def test_aws_without_keys_or_without_an_answer(aws_keys, monkeypatch):
    with closed_port() as port:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        assert accounts_of(["s3://lake/log"]) == ("AWS account unknown",)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    assert accounts_of(["s3://lake/log"]) == ()


def token(**claims: str) -> str:
    """A token that says this, without a signature."""
    body = base64.urlsafe_b64encode(json.dumps({"tid": "T", **claims}).encode()).decode()
    return f"e30.{body.rstrip('=')}.none"


@pytest.fixture
def identity(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    """A place of Azure's that gives tokens of a managed identity."""
    monkeypatch.setenv("IDENTITY_ENDPOINT", f"http://{cloud.address}/identity")
    monkeypatch.setenv("IDENTITY_HEADER", "secret")
    return cloud


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"upn": "ada@example.org", "oid": "O"}, "ada@example.org of tenant T"),
        ({"appid": "A", "oid": "O"}, "application A, object O of tenant T"),
    ],
)
def test_a_token_of_azure_says_whose_it_is(identity, claims, name):
    given = {"access_token": token(**claims), "expires_on": "4102444800", "token_type": "Bearer"}
    identity.answers["/identity"] = given
    assert accounts_of([CONTAINER]) == (f"a token for Azure says {name}",)


def test_azure_without_an_answer_or_with_a_key_of_the_store(identity, monkeypatch):
    assert accounts_of([CONTAINER]) == ("Azure account unknown",)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    assert accounts_of([CONTAINER]) == ()


def test_what_fails_or_takes_too_long_is_nothing():
    forever = threading.Event()
    assert within(60.0, lambda: "found") == "found"
    assert within(60.0, lambda: 1 // 0 * "") is None
    assert within(0.1, lambda: f"{forever.wait()}") is None
    forever.set()
