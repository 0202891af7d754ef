"""Signed ledgers: what a forger without the key cannot do, and what an operator can."""

from __future__ import annotations

import hashlib
import json
import re
import stat
import subprocess

import pytest

from hushrank.flows.errors import ConfigError, LedgerError
from hushrank.flows.ledger.entries import read_chain, write_lines
from hushrank.flows.ledger.guards import Guards
from hushrank.flows.ledger.inspection import guard_texts
from hushrank.flows.ledger.keys import load_public_key, load_signer, make_key, public_pem
from tests.ledgers import pure, release


def path_of(tmp_path):
    return tmp_path / "budget" / "ledger.jsonl"


def forge(tmp_path, change) -> None:
    """Change the fields of every line, and compute all hashes and the length anew."""
    path, previous, lines = path_of(tmp_path), "0" * 64, []
    for line in path.read_text().splitlines():
        fields = json.loads(line)
        del fields["hash"]
        change(fields)
        fields["previous"] = previous
        body = json.dumps(fields, separators=(",", ":"))
        previous = hashlib.sha256(body.encode()).hexdigest()
        lines.append(f'{body[:-1]},"hash":"{previous}"}}\n')
    path.write_text("".join(lines))
    path.with_name("ledger.jsonl.length").write_text(f"{path.stat().st_size}\n")
    read_chain(path.read_bytes(), "forged")  # the chain alone finds nothing


def cheaper(fields) -> None:
    if "spend" in fields:
        fields["spend"]["epsilon"] = 0.5


def without_signature(fields) -> None:
    cheaper(fields)
    fields.pop("signature", None)


def message(call, *arguments) -> str:
    with pytest.raises(LedgerError) as caught:
        call(*arguments)
    return str(caught.value)


@pytest.mark.parametrize("change", [cheaper, without_signature])
def test_a_forged_ledger_with_every_hash_computed_anew_is_caught(tmp_path, signing, opened, change):
    release(opened(signing), "a", 4)
    assert opened(signing).balance().spent_epsilon == 4
    forge(tmp_path, change)
    assert opened(Guards()).balance().spent_epsilon == 0.5  # without a key nothing shows it
    before = path_of(tmp_path).read_bytes()
    text = message(opened(signing).reserve, "b", pure(1))
    assert ("signature is false" if change is cheaper else "is not signed") in text
    assert path_of(tmp_path).read_bytes() == before


def test_an_unsigned_line_after_signed_ones_is_refused(tmp_path, signing, opened):
    release(opened(signing), "a", 1)
    ledger = opened(signing)
    book, path = ledger.book(), path_of(tmp_path)
    lines = write_lines(
        book.chain, ledger.terms_events(book) or [book.chain.entries[-1].what],
        population="campus-choice", operator="mallory", time=book.now,
    )  # fmt: skip
    path.write_bytes(path.read_bytes() + lines)
    for call in (opened(signing).balance, lambda: opened(signing).reserve("b", pure(1))):
        assert "its last line is not signed" in message(call)


def test_a_job_without_the_key_reads_a_signed_ledger_but_adds_nothing(tmp_path, signing, opened):
    release(opened(signing), "a", 1)
    before = path_of(tmp_path).read_bytes()
    assert opened(Guards()).balance().releases == 1
    for call in (
        lambda: opened(Guards()).reserve("b", pure(1)),
        lambda: opened(Guards()).check(pure(1)),
        lambda: opened(Guards()).record_unsafe("c", "why"),
    ):
        text = message(call)
        assert "this job names no key" in text
        assert signing.signer.key_id in text
    assert path_of(tmp_path).read_bytes() == before


def test_another_key_is_refused(tmp_path, signing, opened):
    release(opened(signing), "a", 1)
    make_key(tmp_path / "other.pem")
    other = load_signer(tmp_path / "other.pem")
    text = message(opened(Guards(other, other)).reserve, "b", pure(1))
    assert f"is signed with key {signing.signer.key_id}" in text
    assert f"key {other.key_id}" in text


def test_lines_from_before_the_key_stay_valid_once_they_are_accepted(tmp_path, signing, opened):
    release(opened(Guards()), "a", 1)
    old = path_of(tmp_path).read_bytes()
    assert "is not signed" in message(opened(signing).reserve, "b", pure(1))
    ledger = opened(signing)
    ledger.backend.accept_loss()
    release(ledger, "b", 1)
    assert path_of(tmp_path).read_bytes().startswith(old)
    assert opened(signing).balance().spent_epsilon == 2
    (text,) = guard_texts(opened(signing), signing)
    assert "3 lines. 4 others are not" in text


def test_the_key_is_a_file_for_its_owner_that_openssl_reads(tmp_path):
    path = tmp_path / "keys" / "ledger.pem"
    pem = make_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    read = subprocess.run(
        ["openssl", "pkey", "-in", path, "-pubout"], capture_output=True, text=True, check=True
    )
    assert read.stdout == pem == public_pem(load_signer(path).public)
    (tmp_path / "message").write_bytes(b"certificate")
    (tmp_path / "signature").write_bytes(load_signer(path).sign(b"certificate"))
    (tmp_path / "public.pem").write_text(pem)
    asked = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", tmp_path / "public.pem", "-rawin"]
    files = ["-in", tmp_path / "message", "-sigfile", tmp_path / "signature"]
    assert subprocess.run([*asked, *files], capture_output=True).returncode == 0
    public = load_public_key(tmp_path / "public.pem")
    assert public.key_id == load_signer(path).key_id
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="exists already"):
        make_key(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda path: path.unlink(), "cannot be read (No such file or directory)"),
        (lambda path: path.chmod(0o640), "can be read by other users"),
        (lambda path: path.write_text("no key"), "is not a private Ed25519 key"),
        (lambda path: path.write_text(path.read_text()[:60]), "is not a private Ed25519 key"),
    ],
)
def test_a_bad_key_is_refused_and_nothing_is_spent(survey, command, tmp_path, spoil, told):
    key = tmp_path / "keys" / "key.pem"
    make_key(key)
    survey.set(ledger__signing_key=str(key))
    spoil(key)
    code, printed = command("run", survey.config, "--direct")
    assert code == 2
    assert re.sub(r"\s+", " ", told) in re.sub(r"\s+", " ", printed)
    assert "Nothing was read or spent." in printed
    assert not survey.ledger.exists()


def test_a_signed_run_from_the_command_line(survey, command, tmp_path):
    key, public = tmp_path / "keys" / "key.pem", tmp_path / "public.pem"
    code, printed = command("ledger", "key", "--out", key)
    assert (code, printed.startswith("-----BEGIN PUBLIC KEY-----")) == (0, True)
    public.write_text(printed)
    assert command("ledger", "key", "--out", key)[0] == 2
    survey.set(ledger__signing_key=str(key))
    assert command("run", survey.config, "--direct")[0] == 0
    lines = survey.ledger.read_text().splitlines()
    assert all('"signature":"ed25519:' in line for line in lines)
    code, printed = command("ledger", "verify", survey.config)
    assert (code, f"all {len(lines)} lines" in printed) == (0, True)
    key.unlink()  # an auditor has the public half alone
    code, printed = command("ledger", "verify", survey.config, "--public-key", public)
    assert (code, f"all {len(lines)} lines" in printed) == (0, True)
    make_key(key)
    public.write_text(public_pem(load_signer(key).public))
    code, printed = command("ledger", "verify", survey.config, "--public-key", public)
    assert (code, "is signed with key" in printed) == (2, True)
    code, printed = command("ledger", "show", survey.config)
    assert code == 2
    code, printed = command("ledger", "recover", survey.config)  # the first key is lost
    assert (code, "Nothing was changed" in printed) == (0, True)
    assert command("ledger", "recover", survey.config, "--yes")[0] == 0
    code, printed = command("ledger", "show", survey.config)
    assert (code, "1 lines." in printed) == (0, True)
    assert (
        command("run", survey.set(privacy__epsilon=1.0, output="second").config, "--direct")[0] == 0
    )
