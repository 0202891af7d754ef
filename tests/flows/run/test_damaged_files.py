"""Files of a run that come back damaged: one sentence, what is paid, and what to restore."""

from __future__ import annotations

import contextlib
import json
import shutil

import numpy as np
import pytest

from hushrank.flows.assembly import MEMORY
from hushrank.flows.errors import HushrankError, PredictableBits
from hushrank.flows.run.confidential_folder import Exact
from hushrank.flows.run.context import ledger_of
from hushrank.flows.run.job import prepare_job, read_survey
from hushrank.flows.run.run import draw, reduce, reserve
from hushrank.privacy.units import Unit
from hushrank.transforms.storage.places import npz_arrays, npz_bytes
from tests.flows.conftest import InProcessReducer
from tests.flows.damages import DAMAGES, remove, replace_by_folder


@pytest.fixture
def drawn(survey):
    """A job whose noise is drawn and paid for, and not published."""
    job = prepare_job(read_survey(survey.config))
    reserve(job, MEMORY)
    reduce(job, InProcessReducer().run)
    draw(job, Exact(job.work))
    return job


def test_a_damaged_result_is_told_of_and_published_when_it_is_restored(survey, command, drawn):
    path = drawn.work / "drawn.npz"
    content = path.read_bytes()
    for name, damage in DAMAGES.items():
        damage(path)
        for asked in (("run", survey.config, "--direct"), ("resume", drawn.release_id)):
            code, printed = command(*asked, *([survey.config] if asked[0] == "resume" else []))
            told = " ".join(printed.split())
            assert code == 1, (name, printed)
            assert f"{path} is damaged, or is not what was drawn for this release." in told, name
            assert "The noise is paid for, and nothing was published. Put a copy of it back" in told
        assert survey.published() == []
        remove(path)
        path.write_bytes(content)
    assert command("run", survey.config, "--direct")[0] == 0
    assert ledger_of(drawn.config).balance().spent_epsilon == 2.0
    assert path.read_bytes() == content


def test_without_a_copy_a_damaged_result_is_deleted_and_paid_for_again(survey, command, drawn):
    (drawn.work / "drawn.npz").unlink()
    code, printed = command("run", survey.config, "--direct")
    assert (code, "hushrank run --again draws new noise, which costs" in printed) == (1, True)
    assert ledger_of(drawn.config).balance().spent_epsilon == 2.0
    assert command("run", survey.config, "--direct", "--again")[0] == 0
    assert ledger_of(drawn.config).balance().spent_epsilon == 4.0


def test_the_result_of_another_release_is_not_published(survey, command, drawn):
    """It is whole and of the same method: only the ledger tells them apart."""
    survey.set(privacy__epsilon=1.0, output="second")
    assert command("run", survey.config, "--direct")[0] == 0
    (other,) = (each for each in survey.work.glob("*/drawn.npz") if each.parent != drawn.work)
    shutil.copy(other, drawn.work / "drawn.npz")
    survey.set(privacy__epsilon=2.0, output="out")
    code, printed = command("run", survey.config, "--direct")
    assert (code, "is not what was drawn for this release" in printed) == (1, True), printed


@pytest.mark.parametrize("name", ["exact.npz", "bits.json"])
def test_damaged_counts_cost_nothing(survey, name):
    job = prepare_job(read_survey(survey.config))
    ledger, path = ledger_of(job.config), job.work / name
    reserve(job, MEMORY)
    reduce(job, InProcessReducer().run)
    whole = path.read_bytes()
    for damage in (lambda: path.write_bytes(whole[:20]), lambda: replace_by_folder(path)):
        damage()
        with pytest.raises(HushrankError, match="Nothing was drawn or spent; run again"):
            draw(job, Exact(job.work))
        assert ledger.state(job.release_id) == "reserved"
        remove(path)
        path.write_bytes(whole)
    draw(job, Exact(job.work))


@pytest.mark.parametrize(
    "content", [b"", b"[[", b"[]", b"7", b'{"noise":5}', b"\xff", b'{"noise":["?"]}', None]
)
def test_records_that_say_nothing_are_no_records(tmp_path, content):
    for name in ("bits.json", "diagnostics.json"):
        path = tmp_path / name
        if content is None:
            path.mkdir()
        else:
            path.write_bytes(content)
    with pytest.raises(PredictableBits, match="Nothing was drawn or spent; run again"):
        Exact(tmp_path).bits()
    with contextlib.suppress(PredictableBits):  # a tally may lack numbers
        Exact(tmp_path).votes(Unit.USER)


def test_any_flipped_bit_of_a_result_is_no_arrays_or_arrays():
    whole = npz_bytes(wins=np.arange(3), law=np.array(json.dumps({"a": 1})))
    for place in range(len(whole)):
        content = bytearray(whole)
        content[place] ^= 1 << (place % 8)
        for damaged in (bytes(content), whole[:place]):
            try:
                assert npz_arrays(damaged).keys() is not None
            except ValueError:
                continue


def test_a_damaged_checkpoint_may_be_a_folder(survey, command):
    assert command("run", survey.config, "--direct")[0] == 0
    replace_by_folder(survey.work / "ledgers.json")
    survey.set(privacy__epsilon=1.0, output="second")
    code, printed = command("run", survey.config, "--direct")
    assert (code, "It says how far the ledger was" in printed) == (2, True), printed


PUBLISHED = ("release.json", "ranking.csv", "report.html", "certificate.json", "SHA256SUMS")


def test_a_damaged_release_of_the_archive_is_one_sentence(survey, command):
    assert command("run", survey.config, "--direct")[0] == 0
    (kept,) = (survey.output / "releases").iterdir()
    spent = survey.ledger.read_bytes()
    kept.chmod(0o700)
    for name in PUBLISHED:
        path = kept / name
        content = path.read_bytes()
        path.chmod(0o600)
        for how, damage in DAMAGES.items():
            damage(path)
            for asked in ("run", "history"):
                words = ["--direct"] if asked == "run" else ["--verify"]
                code, printed = command(asked, survey.config, *words)
                told = " ".join(printed.split())
                assert code in (1, 2), (name, how, printed)
                assert f"Move {kept} away; running its job again publishes it again" in told, how
                assert "Traceback" not in printed
            remove(path)
            path.write_bytes(content)
    assert survey.ledger.read_bytes() == spent
    assert command("run", survey.config, "--direct")[0] == 0


def test_another_release_in_a_folder_of_the_archive_is_not_taken_for_its_own(survey, command):
    """All its files are as they were published: only the folder's name tells."""
    assert command("run", survey.config, "--direct")[0] == 0
    (kept,) = (survey.output / "releases").iterdir()
    survey.set(privacy__epsilon=1.0, output="second")
    assert command("run", survey.config, "--direct")[0] == 0
    (other,) = (survey.folder / "second" / "releases").iterdir()
    shutil.rmtree(kept)
    shutil.copytree(other, kept)
    survey.set(privacy__epsilon=2.0, output="out")
    for words in (("run", survey.config, "--direct"), ("export", survey.config, "--out", "a.csv")):
        code, printed = command(*words)
        told = " ".join(printed.split())
        assert (code, f"holds release {other.name}. Move {kept} away" in told) == (1, True), printed


@pytest.mark.parametrize("how", ["cut", "empty", "another's", "a folder"])
def test_a_damaged_copy_on_top_names_what_to_copy(survey, command, how):
    assert command("run", survey.config, "--direct")[0] == 0
    spent, path = survey.ledger.read_bytes(), survey.output / "release.json"
    DAMAGES[how](path)
    for epsilon in (2.0, 1.0):  # published already, and to be published beside it
        survey.set(privacy__epsilon=epsilon)
        code, printed = command("run", survey.config, "--direct")
        told = " ".join(printed.split())
        assert code == 2, printed
        assert f"Copy the files of its folder in {survey.output / 'releases'} over it" in told
        assert "What was paid for it stays paid; nothing was published now." in told
    assert survey.ledger.read_bytes() == spent
