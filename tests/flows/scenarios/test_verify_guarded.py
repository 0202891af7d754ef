"""The one-file verifier, alone, on ledgers that the product signed and anchors that it wrote."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from hushrank.flows.ledger.git_anchor import FILE
from hushrank.flows.ledger.keys import Anchored, KeySigner, load_signer, make_key, sealed
from hushrank.verifier import verify_release as verifier
from tests.fake_cloud_storage import fake_cloud_storage
from tests.flows.conftest import Survey
from tests.flows.every_method import survey_of
from tests.flows.forgeries import Forger, night_log, run
from tests.flows.ledger.conftest import make_repository

YESTERDAY = timedelta(days=1)
FIRST = date(2026, 11, 1)
STREAM = {"nights": 4, "participations": 2, "gap": 2, "show": {"window": 2}, "first": str(FIRST)}


@dataclass
class Stranger:
    """Who has the files of a release, a ledger, a public key and an anchor; and Python alone."""

    release: Forger
    ledger: bytes
    public: bytes | None
    anchor: bytes | None
    folder: Path = field(repr=False)

    def asks(self) -> tuple[int, str]:
        """`python verify_release.py FOLDER ...`, with nothing installed: its code and words."""
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "release").mkdir(parents=True)
        for name, content in self.release.files.items():
            (self.folder / "release" / name).write_bytes(content)
        shutil.copy(verifier.__file__, self.folder / "verify_release.py")
        words = ["-I", "-S", "verify_release.py", "release"]
        given = {"--ledger": self.ledger, "--public-key": self.public, "--anchor": self.anchor}
        for option, content in given.items():
            if content is not None:
                (self.folder / option[2:]).write_bytes(content)
                words += [option, option[2:]]
        done = subprocess.run(
            [sys.executable, *words], cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert not done.stderr
        return done.returncode, done.stdout

    def wrong(self) -> list[str]:
        """What the same program finds wrong."""
        found = verifier.verify(self.release.files, self.ledger, self.public, self.anchor)
        return [text for kind, text in found.lines if kind == "WRONG"]

    def open(self) -> str:
        """What it leaves open."""
        found = verifier.verify(self.release.files, self.ledger, self.public, self.anchor)
        return "\n".join(text for kind, text in found.lines if kind == "open")


@dataclass
class Guarded:
    """A job with a key and an anchor, and what it left: releases, and the ledger after each."""

    survey: Survey
    signer: KeySigner
    releases: list[Forger]
    anchor: bytes
    folder: Path

    @property
    def ledger(self) -> bytes:
        return self.releases[-1].ledger

    def stranger(self, release: int = -1) -> Stranger:
        """Somebody who was given all of it."""
        return Stranger(
            self.releases[release],
            self.ledger,
            public_of(self.signer.key),
            self.anchor,
            self.folder,
        )


def public_of(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


class Then(datetime):
    """A day ago."""

    @classmethod
    def now(cls, tz: object = None) -> datetime:
        return datetime.now(UTC) - YESTERDAY


def guarded(folder: Path, name: str, anchor: str) -> Survey:
    """A job with a key and an anchor, and a new budget every day."""
    survey = survey_of(name, folder)
    make_key(folder / "key.pem")
    return survey.set(ledger__signing_key="key.pem", ledger__anchor=anchor, ledger__refresh="daily")


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Guarded:
    """Three releases in two periods, then two nights of a stream; the anchor is a file."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "far").mkdir()
    survey = guarded(folder / "job", "noisy-counts, rho", str(folder / "far" / "anchor.jsonl"))
    made = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hushrank.flows.ledger.ledger.datetime", Then)
        patch.setattr("hushrank.flows.run.run.datetime", Then)
        run(survey)
        made.append(Forger.of(survey))
    for output in ("second", "third"):
        run(survey.set(output=output, privacy__rho=0.2 if output == "second" else 0.1))
        made.append(Forger.of(survey))
    survey.set(output="nights", input__paths=["log-{date}.parquet"], schedule={"stream": STREAM})
    for number in range(2):
        day = str(FIRST + timedelta(days=number))
        night_log(folder / "job", day)
        run(survey, "--date", day)
        made.append(Forger.of(survey))
    anchor = (folder / "far" / "anchor.jsonl").read_bytes()
    return Guarded(survey, load_signer(folder / "job" / "key.pem"), made, anchor, folder / "alone")


def test_a_stranger_finds_nothing_wrong_with_honest_releases(nights):
    starts = set()
    for number, release in enumerate(nights.releases):
        code, said = nights.stranger(number).asks()
        assert (code, said.splitlines()[-1]) == (0, "Nothing is wrong."), said
        lines = len(nights.ledger.splitlines())
        assert f"holds  the key {nights.signer.key_id} has signed the certificate" in said
        assert f"holds  the key has signed line {lines} of the ledger" in said
        assert f"holds  the ledger goes on from line {lines}, the last one that the anchor" in said
        assert "nobody signed this" not in said
        starts.add(release.document("certificate.json")["ledger"]["period_start"])
    assert len(starts) == 2


def lines_of(ledger: bytes) -> list[bytes]:
    return ledger.splitlines(keepends=True)


def rechained(lines: list[bytes], signer: KeySigner | None = None) -> bytes:
    """Lines with numbers and hashes computed anew: with old signatures, or with those of a key."""
    forger = Forger({}, b"".join(lines)).with_hashes()
    if signer is None:
        return forger.ledger
    previous, made = "0" * 64, []
    for line in forger.ledger.splitlines():
        fields = json.loads(line) | {"previous": previous}
        body = {name: each for name, each in fields.items() if name not in ("hash", "signature")}
        signed = Forger({}, sealed(json.dumps(body, separators=(",", ":")).encode(), signer))
        (chained,) = signed.ledger.splitlines()
        previous = sha256(chained).hexdigest()
        made.append(chained[:-1] + f',"hash":"{previous}"}}\n'.encode())
    return b"".join(made)


OTHER = KeySigner(Ed25519PrivateKey.generate())


def one_line_by_another_key(ledger: bytes) -> bytes:
    lines = lines_of(ledger)
    return b"".join(lines[:-1]) + lines_of(rechained(lines, OTHER))[-1]


def cheaper(ledger: bytes) -> list[bytes]:
    """The first release costs a tenth of what it did."""
    lines = lines_of(ledger)
    changed = lines[1].replace(b'"rho":0.3', b'"rho":0.03')
    assert changed != lines[1]
    return [lines[0], changed, *lines[2:]]


def swapped(ledger: bytes) -> list[bytes]:
    """Commits of the first two releases change places with the lines below."""
    lines = lines_of(ledger)
    return [*lines[:3], lines[4], lines[3], *lines[5:]]


LEDGERS: list[tuple[str, Callable[[bytes], bytes], str]] = [
    (
        "written anew without the key",
        lambda ledger: rechained(cheaper(ledger)),
        "line 2 of the ledger was changed after the key signed it: its signature is false",
    ),
    (
        "written anew by another key",
        lambda ledger: rechained(cheaper(ledger), OTHER),
        "somebody without the key wrote it",
    ),
    (
        "two lines swapped and chained anew",
        lambda ledger: rechained(swapped(ledger)),
        "was changed after the key signed it: its signature is false",
    ),
    (
        "the last line signed with another key",
        one_line_by_another_key,
        "the last of the ledger: somebody without the key wrote it",
    ),
    (
        "unsigned lines added",
        lambda ledger: ledger + lines_of(unsigned(ledger))[-1],
        "the last of the ledger: somebody without the key wrote it",
    ),
]


def unsigned(ledger: bytes) -> bytes:
    """One line more, which anybody can add."""
    lines = lines_of(ledger)
    more = re.sub(rb',"signature":"[^"]*"', b"", lines[-1])
    whole = lines_of(rechained([*lines, more]))[-1]
    fields = json.loads(whole) | {"previous": json.loads(lines[-1])["hash"]}
    del fields["hash"]
    body = json.dumps(fields, separators=(",", ":")).encode()
    return ledger + body[:-1] + f',"hash":"{sha256(body).hexdigest()}"}}\n'.encode()


@pytest.mark.parametrize(
    ("change", "told"), [row[1:] for row in LEDGERS], ids=[r[0] for r in LEDGERS]
)
def test_a_ledger_by_somebody_without_the_key_is_found(nights, change, told):
    """Also where the forger makes a certificate that fits, which only another key can sign."""
    stranger = replace(nights.stranger(), ledger=change(nights.ledger), anchor=None)
    assert told in "\n".join(stranger.wrong())
    assert not [text for text in stranger.wrong() if "hash does not match" in text]


def test_an_older_copy_with_true_signatures_needs_the_anchor(nights):
    """The first release with the ledger of its own day: every line is signed."""
    stranger = replace(nights.stranger(0), ledger=nights.releases[0].ledger)
    assert len(stranger.wrong()) == 1
    assert re.search(
        r"anchor: it knows line \d+ of the ledger, which ends at line 4", stranger.wrong()[0]
    )
    assert "an older copy was put back" in stranger.wrong()[0]
    code, said = stranger.asks()
    assert (code, said.count("WRONG")) == (1, 1)
    assert replace(stranger, anchor=None).wrong() == []


def flipped(signature: bytes) -> bytes:
    """With another last byte, which is 0 in every sixteenth signature."""
    return signature[:-1] + bytes([signature[-1] ^ 1])


def test_a_certificate_by_another_key_is_found(nights):
    for change in (
        lambda files: files | {"certificate.sig": OTHER.sign(files["certificate.json"])},
        lambda files: files | {"certificate.json": files["certificate.json"] + b" "},
        lambda files: files | {"certificate.sig": flipped(files["certificate.sig"])},
        lambda files: files | {"certificate.sig": b""},
    ):
        stranger = nights.stranger()
        files = change({n: c for n, c in stranger.release.files.items() if n != "SHA256SUMS"})
        stranger = replace(stranger, release=Forger(files, b""))
        (told,) = stranger.wrong()
        assert "has not signed certificate.json: it was changed, or another key signed it" in told
    del files["certificate.sig"]
    (told,) = stranger.wrong()
    assert "certificate.sig is missing" in told


def heads(anchor: bytes, change: Callable[[list[bytes]], list[bytes]]) -> bytes:
    return b"".join(change(anchor.splitlines(keepends=True)))


def test_anchors_that_do_not_fit_are_found_with_a_sentence(nights, tmp_path):
    stranger, last = nights.stranger(), len(nights.ledger.splitlines())
    own = stranger.release.document("certificate.json")["ledger"]["entry"]["line"]
    forged = json.dumps({"hushrank_anchor": 1, "epoch": 0, "position": last + 1, "hash": "1" * 64})
    other = Anchored.of(nights.anchor.splitlines()[-1]).head.model_copy(update={"hash": "2" * 64})
    for anchor, told in (
        (heads(nights.anchor, lambda lines: lines[:4]), f"before line {own}, which reserved this"),
        (other.record(nights.signer), f"it knows line {last} of the ledger, which has another one"),
        (forged.encode() + b"\n", "the key has not signed its last head"),
        (heads(nights.anchor, lambda lines: lines[::-1]), "its heads are out of order"),
        (nights.anchor[:30], "it holds no head of a ledger"),
        (b"", "it holds no head of a ledger"),
        (b"no head\n", "it holds no head of a ledger"),
        (b"{}\n", "anchor: cannot be read"),
    ):
        (wrong,) = replace(stranger, anchor=anchor).wrong()
        assert told in wrong
    newer = replace(stranger, ledger=b"".join(lines_of(nights.ledger)[:-1]))
    assert any(
        f"it knows line {last} of the ledger, which ends at" in text for text in newer.wrong()
    )
    older = heads(nights.anchor, lambda lines: lines[:-1])
    assert replace(stranger, anchor=older).wrong() == []
    assert "they are newer than the anchor" in replace(stranger, anchor=older).open()
    interrupted = nights.anchor + b'{"hushrank_anchor":1,"ep'
    assert replace(stranger, anchor=interrupted).wrong() == []


def test_lines_from_before_the_key_are_vouched_for_and_an_epoch_is_told(tmp_path, command):
    """A ledger that got key and anchor later: an operator accepts it, and old releases stay."""
    survey = survey_of("noisy-counts, rho", tmp_path / "job")
    run(survey)
    first = Forger.of(survey)
    make_key(tmp_path / "job" / "key.pem")
    repository = make_repository(tmp_path / "anchor")
    survey.set(ledger__signing_key="key.pem", ledger__anchor=f"git:{repository}", output="second")
    assert command("ledger", "recover", survey.config, "--yes")[0] == 0
    run(survey.set(privacy__rho=0.2))
    subprocess.run(["git", "clone", "--quiet", repository, tmp_path / "clone"], check=True)
    anchor = (tmp_path / "clone" / FILE).read_bytes()
    public = public_of(load_signer(tmp_path / "job" / "key.pem").key)
    second = Forger.of(survey)
    stranger = Stranger(second, second.ledger, public, anchor, tmp_path / "alone")
    code, said = stranger.asks()
    assert code == 0, said
    assert "the anchor: 1 times an operator went on without its older heads" in said
    first.ledger = second.ledger
    (wrong,) = replace(stranger, release=first).wrong()
    assert "certificate.sig is missing" in wrong
    assert replace(stranger, release=first, public=None).wrong() == []
    assert "signatures not checked" in replace(stranger, release=first, public=None).open()
    shutil.copytree(tmp_path / "clone", tmp_path / "given")
    assert verifier.read_anchor(tmp_path / "given") == anchor
    for place in (f"git:{tmp_path / 'clone'}", tmp_path / "clone" / FILE):
        (tmp_path / "public.pem").write_bytes(public)
        words = ("--anchor", place, "--public-key", tmp_path / "public.pem")
        code, printed = command("verify", survey.config, *words)
        assert code == 0, printed
        assert "the ledger goes on from line" in printed


def test_an_anchor_in_cloud_storage_is_downloaded_and_compared(tmp_path, command, monkeypatch):
    with fake_cloud_storage("far") as store:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.url)
        survey = guarded(tmp_path / "job", "noisy-counts", "gs://far/campus")
        run(survey)
        copy = tmp_path / "campus"
        copy.mkdir()
        for name in store.names("far"):
            (copy / name.rpartition("/")[2]).write_bytes(store.content("far", name))
        made = Forger.of(survey)
        public = public_of(load_signer(tmp_path / "job" / "key.pem").key)
        anchor = verifier.read_anchor(copy)
        assert verifier.verify(made.files, made.ledger, public, anchor).good
        older = verifier.verify(made.files, made.ledger, public, anchor.split(b"\n")[0] + b"\n")
        assert not older.good
        code, printed = command("verify", survey.config, "--anchor", "gs://far/campus")
        assert (code, "the ledger goes on from line 4" in printed) == (0, True), printed


# RFC 8032, 7.1: public key, message and signature.
VECTORS = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b4"
        "6bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d"
        "8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6"
        "594a7c15e9716ed28dc027beceea1ec40a",
    ),
]


@pytest.mark.parametrize(("key", "message", "signature"), VECTORS)
def test_ed25519_of_the_vectors_of_rfc_8032(key, message, signature):
    public, text, signed = (bytes.fromhex(each) for each in (key, message, signature))
    assert verifier.signed_by(public, text, signed)
    assert not verifier.signed_by(public, text + b"\0", signed)
    assert not verifier.signed_by(public[:-1] + bytes([public[-1] ^ 0x80]), text, signed)
    for place in (0, 31, 32, 63):
        spoiled = bytes(b ^ (i == place) for i, b in enumerate(signed))
        assert not verifier.signed_by(public, text, spoiled)
    more = (
        int.from_bytes(signed[32:], "little") + verifier.ORDER
    )  # the same, but for the rule S < L
    assert not verifier.signed_by(public, text, signed[:32] + more.to_bytes(32, "little"))
    for short in (b"", signed[:63], signed + b"\0"):
        assert not verifier.signed_by(public, text, short)


def test_ed25519_agrees_with_another_program_on_random_messages():
    for length in (0, 1, 63, 64, 65, 1000):
        key, message = Ed25519PrivateKey.generate(), bytes(range(256)) * 4
        pem, message = public_of(key), message[:length]
        ((name, raw),) = verifier.keys_of(pem).items()
        assert name == KeySigner(key).key_id
        assert verifier.signed_by(raw, message, key.sign(message))
        assert not verifier.signed_by(raw, message, OTHER.sign(message))


@pytest.mark.parametrize(
    "spoil", [b"", b"no key", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"]
)
def test_what_is_no_key_is_refused(nights, spoil):
    assert any(
        "holds none, or one that is not Ed25519" in text
        for text in replace(nights.stranger(), public=spoil).wrong()
    )


def test_two_keys_in_one_file_are_both_known(nights):
    both = public_of(OTHER.key) + nights.stranger().public
    assert replace(nights.stranger(), public=both).wrong() == []
    stranger = nights.stranger()
    said = verifier.verify(stranger.release.files, stranger.ledger, both).lines
    assert ("holds", f"the key {nights.signer.key_id} has signed the certificate") in said
    assert replace(nights.stranger(), public=public_of(OTHER.key)).wrong()


def test_a_key_of_small_order_is_refused():
    """With the point of order 1 every message has the signature (B, 1)."""
    identity, base = (1).to_bytes(32, "little"), bytes.fromhex("58" + 31 * "66")
    assert verifier.signed_by(identity, b"any", base + (1).to_bytes(32, "little"))
    order_2, order_4 = (verifier.P - 1).to_bytes(32, "little"), bytes(32)
    for raw in (identity, order_2, order_4):
        coded = base64.b64encode(verifier.ED25519 + raw)
        pem = b"-----BEGIN PUBLIC KEY-----\n" + coded + b"\n-----END PUBLIC KEY-----\n"
        with pytest.raises(verifier.Wrong, match="of small order"):
            verifier.keys_of(pem)
