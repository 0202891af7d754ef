"""Nobody but a browser of this page, with its secret address, is answered or reaches a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hushrank.flows.interfaces.app import folder as folder_module
from hushrank.flows.interfaces.app import server
from hushrank.flows.interfaces.app.guard import new_secret
from tests.flows.interfaces.app.conftest import HOST, ORIGIN, SECRET

FOLDER = f"/{SECRET}/api/folder"
RUN = f"/{SECRET}/api/run"


def test_the_page_answers_its_own_browser(asker):
    for path, word in (("", "<main>"), ("app.js", "EventSource"), ("app.css", "--accent")):
        found = asker.get(path)
        assert found.status_code == 200
        assert word in found.text
    assert asker.get("api/folder").json()["files"] == ["votes.csv"]
    assert asker.client.get(f"/{SECRET}").text == asker.get("").text


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        pytest.param("/api/folder", {}, id="no secret"),
        pytest.param(f"/{SECRET[:-1]}/api/folder", {}, id="part of the secret"),
        pytest.param("/5EC7E7/api/folder", {}, id="other letters"),
        pytest.param("//api/folder", {}, id="empty secret"),
        pytest.param(FOLDER, {"host": "evil.example:4711"}, id="name that points here"),
        pytest.param(FOLDER, {"host": "localhost:4711"}, id="another name of this machine"),
        pytest.param(FOLDER, {"host": "127.0.0.1:4712"}, id="another port"),
        pytest.param(FOLDER, {"origin": "https://evil.example"}, id="another site"),
        pytest.param(FOLDER, {"origin": "http://127.0.0.1:8000"}, id="another local page"),
        pytest.param(FOLDER, {"origin": "null"}, id="a page without origin"),
    ],
)
def test_others_are_refused_before_anything_is_looked_at(asker, path, headers):
    found = asker.client.get(path, headers=headers)
    assert found.status_code == 403
    assert "votes" not in found.text
    assert "access-control-allow-origin" not in found.headers


@pytest.mark.parametrize("headers", [{}, {"origin": "null"}, {"origin": "https://evil.example"}])
def test_a_change_needs_this_page_as_its_origin(asker, folder, headers):
    content = {"file": "votes.csv", "answers": {}}
    found = asker.client.post(f"/{SECRET}/api/survey", json=content, headers=headers)
    assert found.status_code == 403
    assert not (folder / "survey.yaml").exists()


def test_a_form_of_another_site_cannot_be_sent(asker):
    """A form may send text without asking first; only JSON is taken."""
    found = asker.client.post(RUN, content=b"{}", headers=ORIGIN | {"content-type": "text/plain"})
    assert found.status_code == 415


def test_two_hosts_are_refused(asker):
    headers = [("host", HOST), ("host", "evil.example")]
    assert asker.client.get(FOLDER, headers=headers).status_code == 403


def test_every_answer_forbids_sources_from_outside(asker):
    for path in ("", "app.js", "api/folder", "nothing"):
        headers = asker.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert "http" not in headers["content-security-policy"]
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"


def test_secrets_are_long_and_new():
    assert new_secret() != new_secret()
    assert len(new_secret()) == 48


OUTSIDE = ["../secret.csv", "/etc/passwd", "a/../../secret.csv", ".hushrank/ledger.jsonl", "..", ""]


@pytest.mark.parametrize(
    "name", [*OUTSIDE, "C:\\secret.csv", "link.csv", "linked/secret.csv", "sub", "sub/"]
)
def test_places_outside_the_folder_are_refused(asker, folder, name):
    secret = folder.parent / "secret.csv"
    secret.write_text("voter,left,right,winner\nzebra,a,b,a\n")
    (folder / "link.csv").symlink_to(secret)
    (folder / "linked").symlink_to(folder.parent)
    (folder / "sub" / "deep").mkdir(parents=True)
    (folder / "sub" / "deep" / "other.csv").symlink_to(secret)
    found = asker.post("api/head", {"file": name, "confidential": True})
    assert found.status_code == 422
    assert "zebra" not in found.text
    assert "link" not in asker.get("api/folder").text
    found = asker.get(f"api/budget?survey={name}")
    assert found.status_code == 422


def test_a_release_hands_out_its_own_files_alone(asker, folder):
    (folder / "survey.yaml").write_text("name: a\n")
    for path in ("released/survey.yaml/x/..%2Fsurvey.yaml", "released/survey.yaml/..%2F../a"):
        assert asker.get(path).status_code in (404, 422)
    assert asker.get("download/votes.csv?survey=survey.yaml").status_code == 404
    assert asker.get("download/votes.csv?survey=votes.csv").status_code == 422


def put(asker, name, content, **headers):
    return asker.client.put(
        f"/{SECRET}/api/files/{name}", content=content, headers={**ORIGIN, **headers}
    )


def test_a_file_is_copied_whole_and_never_over_another(asker, folder):
    assert put(asker, "new.csv", b"a,b\n1,2\n").json() == {"file": "new.csv"}
    assert (folder / "new.csv").read_bytes() == b"a,b\n1,2\n"
    refused = put(asker, "votes.csv", b"other")
    assert refused.status_code == 422
    assert "a file of this name is in the folder already" in refused.json()["error"]
    assert b"voter" in (folder / "votes.csv").read_bytes()
    assert [*(folder / ".hushrank/app").glob("*upload*")] == []


@pytest.mark.parametrize("name", ["../new.csv", "a%2Fnew.csv", ".new.csv", "new.py", "survey.yaml"])
def test_a_file_with_an_unfit_name_is_not_stored(asker, folder, name):
    before = sorted(os.listdir(folder.parent)), sorted(os.listdir(folder))
    assert put(asker, name, b"a").status_code in (404, 403, 422)
    after = sorted(os.listdir(folder.parent)), sorted(each for each in os.listdir(folder))
    assert (after[0], [each for each in after[1] if each != ".hushrank"]) == before


def test_a_file_that_is_too_large_leaves_nothing(asker, folder, monkeypatch):
    monkeypatch.setattr(folder_module, "MOST_UPLOAD", 10)

    def pieces():  # without a stated length
        yield from (b"12345", b"67890", b"1")

    for content in (b"12345678901", pieces()):
        refused = put(asker, "big.csv", content)
        assert refused.status_code == 422
        assert "larger than" in refused.json()["error"]
    assert not (folder / "big.csv").exists()
    assert [*(folder / ".hushrank/app").glob("*upload*")] == []


def test_a_request_with_choices_is_bounded(asker, monkeypatch):
    monkeypatch.setattr(server, "MOST_JSON", 50)
    assert asker.post("api/head", {"file": "a" * 100}).status_code == 413


def test_only_this_account_may_open_the_notes_and_the_address(page, monkeypatch):
    opened = []
    monkeypatch.setattr(server.webbrowser, "open", opened.append)
    server.open_browser(page.folder, "http://127.0.0.1:1/abc/")
    (place,) = opened
    assert "abc" not in place  # other accounts see the words with which a browser starts
    path = Path(place.removeprefix("file://"))
    assert "abc" in path.read_text()
    if os.name == "posix":
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
