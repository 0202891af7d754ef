"""A stream from its files to what is shown: crashes anywhere, nights in any order, noise once."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import shutil
import uuid
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from hushrank.pipelines.reduce import reduce, stream_nights
from hushrank.pipelines.reduce.reduction_job import (
    NightOfStream,
    ReduceComparisons,
    Statistic,
)
from hushrank.pipelines.reduce.stream_nights import count_empty_night, count_night, forget_night
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import BitSource, seeded_bits, system_bits
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.stream import Stream, stream_of
from hushrank.privacy.stream_encoder import Terms, Workload
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.storage import places
from hushrank.transforms.streams.people_files import carry_people
from hushrank.transforms.streams.released_files import draw_night, drawn_night, shown_of
from hushrank.transforms.streams.stream_folder import begin
from tests.pipelines.reduce.test_reduce_comparisons import N_ITEMS, a_job
from tests.pipelines.reduce.test_reduce_stream import ALL, a_night, expected_wins

TERMS = Terms(nights=4, participations=2, gap=2)
NAME, EMPTY = "s", 2  # the night without rows


def the_stream(rho: float | None = None, terms: Terms = TERMS) -> Stream:
    """Without noise unless `rho` says how much."""
    params = PrivacyParams(
        unit=Unit.USER, adjacency=Adjacency.REPLACE_ONE, epsilon=math.inf, rho=rho,
        delta=0.0 if rho else 1e-9, noise=NoiseKind.GAUSSIAN, max_contributions=ALL,
    )  # fmt: skip
    return stream_of(params, Sensitivity(ALL, ALL**2), terms, Workload(2))


def inputs(folder: Path) -> list[np.ndarray]:
    """Files of every night; the windows of two nights that are to be shown."""
    logs = [a_night(night)[: 0 if night == EMPTY else None] for night in range(TERMS.nights)]
    for night, log in enumerate(logs):
        (folder / f"in{night}").mkdir()
        pq.write_table(log, folder / f"in{night}" / "0.parquet")
    wins = [np.zeros(N_ITEMS, np.int64), *expected_wins(logs, TERMS)]
    return [sum(pair) for pair in itertools.pairwise(wins)]


def night_of(folder: Path, night: int, bits, terms: Terms = TERMS) -> NightOfStream:
    key, place = begin(str(folder / "s"), NAME, bits), str(folder / "s")
    before = drawn_night(place, NAME, night - 1, the_stream()) if night else None
    return NightOfStream(
        stream=NAME, folder=place, key=key, terms=terms, night=night,
        attempt=uuid.uuid4().hex, before=before.people if before else "0" * 64 if night else "",
    )  # fmt: skip


def run_night(folder: Path, night: int, stream: Stream, bits=None, empty=EMPTY) -> np.ndarray:
    """All steps of one night, as a run takes them."""
    bits = bits or seeded_bits(1)
    of_stream = night_of(folder, night, bits)
    if night == empty:
        count_empty_night(of_stream, (N_ITEMS,), stream)
    else:
        job = a_job(folder / f"in{night}", folder / f"w{night}", max_contributions=ALL)
        key = SecretKey(bytes([night]) * 32, BitSource.SEEDED)
        job = dataclasses.replace(job, stream=of_stream, key=key)
        count_night(job, stream, reduce.run)
    drawn = draw_night(of_stream.folder, NAME, night, stream, bits)
    shown = shown_of(of_stream.folder, NAME, night, stream, drawn, pairs=False)
    forget_night(of_stream.folder, NAME, night, stream, drawn)
    return shown.cells


def left(folder: Path) -> set[str]:
    return {str(path.relative_to(folder / "s")) for path in (folder / "s").rglob("*.*")}


def test_what_is_shown_is_the_window_of_those_who_count(tmp_path):
    expected, stream = inputs(tmp_path), the_stream()
    assert stream.encoder.bands == 2
    for night in range(TERMS.nights):
        assert run_night(tmp_path, night, stream) == pytest.approx(expected[night])
        if night < TERMS.nights - 1:
            assert {f"cells/{night:05d}.npz", f"shown/{night:05d}.npz", "key.json"} <= left(
                tmp_path
            )
            (manifest,) = (tmp_path / "s" / "people" / f"{night:05d}").glob("*.json")
            drawn = drawn_night(str(tmp_path / "s"), NAME, night, stream)
            assert manifest.stem == drawn.people
            assert not list((tmp_path / "s").glob("counting/*"))
            assert not any(f"/{night - 1:05d}" in name for name in left(tmp_path)
                           if not name.startswith("released"))  # fmt: skip
    assert left(tmp_path) == {f"released/{night:05d}.npz" for night in range(TERMS.nights)}


class Killed(BaseException):
    pass


class Fuse:
    """Ends the process, as far as a test can, at the n-th of the calls that it guards."""

    def __init__(self, calls: int) -> None:
        self.left = calls

    def guard(self, function):
        def call(*args, **kwargs):
            self.left -= 1
            if self.left == 0:
                raise Killed
            return function(*args, **kwargs)

        return call


def test_a_run_that_dies_at_any_write_or_delete_is_taken_up(tmp_path, monkeypatch):
    """On a night without rows after one with rows: the pipeline has tests of its own."""
    expected, stream = inputs(tmp_path), the_stream()
    run_night(tmp_path, 0, stream)
    for step in itertools.count(1):
        folder, fuse = tmp_path / f"crash{step}", Fuse(step)
        copy(tmp_path / "s", folder / "s")
        with monkeypatch.context() as killed:
            for place, name in ((Path, "replace"), (Path, "unlink"), (places.os, "link")):
                killed.setattr(place, name, fuse.guard(getattr(place, name)))
            with contextlib.suppress(Killed):
                run_night(folder, 1, stream, empty=1)
        assert run_night(folder, 1, stream, empty=1) == pytest.approx(expected[0])
        names = {name for name in left(folder) if not Path(name).name.startswith(".")}
        assert {name for name in names if not name.startswith("people")} == LEFT_AFTER_NIGHT_1
        manifest, shard = sorted(names - LEFT_AFTER_NIGHT_1, key=len)
        drawn = drawn_night(str(folder / "s"), NAME, 1, stream)
        assert manifest == f"people/00001/{drawn.people}.json"
        assert Path(shard).name.startswith("0-00000-")
        if fuse.left > 0:  # it came to its end
            break
    assert step > 8


def copy(source: Path, target: Path) -> None:
    for path in source.rglob("*"):
        if path.is_file():
            goal = target / path.relative_to(source)
            goal.parent.mkdir(parents=True, exist_ok=True)
            goal.write_bytes(path.read_bytes())


LEFT_AFTER_NIGHT_1 = {
    *("key.json", "cells/00001.npz", "released/00000.npz", "released/00001.npz"),
    "shown/00001.npz",
}


def test_a_night_is_drawn_once(tmp_path):
    inputs(tmp_path)
    stream = the_stream(rho=0.5)
    first = run_night(tmp_path, 0, stream, system_bits())
    again = run_night(tmp_path, 0, stream, system_bits())
    np.testing.assert_array_equal(first, again)
    place = str(tmp_path / "s")
    drawn = [draw_night(place, NAME, 0, stream, system_bits()).released for _ in range(3)]
    for each in drawn:
        np.testing.assert_array_equal(each, drawn[0])


def test_of_two_runs_that_draw_at_once_one_is_stored(tmp_path, monkeypatch):
    inputs(tmp_path)
    stream, place = the_stream(rho=0.5), str(tmp_path / "s")
    count_empty_night(night_of(tmp_path, 0, system_bits()), (N_ITEMS,), stream)
    first = draw_night(place, NAME, 0, stream, system_bits())
    module = "hushrank.transforms.streams.released_files"
    with monkeypatch.context() as both:  # the second looked before the first had stored
        both.setattr(f"{module}.drawn_night", lambda *_: None)
        second = draw_night(place, NAME, 0, stream, system_bits())
    np.testing.assert_array_equal(first.released, second.released)


def test_a_job_that_outlives_its_run_changes_nothing(tmp_path):
    """It read other rows, and all of its files come again while a later attempt is counted, before
    its noise is drawn, and after the night."""
    expected, stream, place = inputs(tmp_path), the_stream(), str(tmp_path / "s")
    run_night(tmp_path, 0, stream)

    def left_job(files: int) -> ReduceComparisons:
        of_stream = night_of(tmp_path, 1, seeded_bits(1))
        job = a_job(tmp_path / f"in{files}", tmp_path / "w1", max_contributions=ALL)
        return dataclasses.replace(job, stream=of_stream)

    late, job = left_job(3), left_job(1)
    count_night(late, stream, reduce.run)  # and its run died before the draw
    reduced = {path: path.read_bytes() for path in (tmp_path / "s").rglob("*")
               if path.is_file() and late.stream.attempt in str(path)}  # fmt: skip
    assert len(reduced) >= 4

    def writes_again() -> None:
        for path, content in reduced.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def meanwhile(job: ReduceComparisons) -> None:
        reduce.run(job)
        writes_again()

    count_night(job, stream, meanwhile)
    writes_again()
    drawn = draw_night(place, NAME, 1, stream, seeded_bits(1))
    shown = shown_of(place, NAME, 1, stream, drawn, pairs=False)
    forget_night(place, NAME, 1, stream, drawn)
    assert shown.cells == pytest.approx(expected[1])
    assert not list((tmp_path / "s").rglob(f"*{late.stream.attempt}*"))
    writes_again()  # after the night: the next one deletes it
    assert night_of(tmp_path, 2, seeded_bits(1)).before == drawn.people
    for night in (2, 3):
        assert run_night(tmp_path, night, stream) == pytest.approx(expected[night])
    assert left(tmp_path) == {f"released/{night:05d}.npz" for night in range(TERMS.nights)}


def test_counts_of_one_attempt_are_never_drawn_with_the_people_of_another(tmp_path):
    """Also where two runs take turns, as on a machine whose lease of the ledger has lapsed."""
    inputs(tmp_path)
    stream, place = the_stream(), str(tmp_path / "s")
    run_night(tmp_path, 0, stream)
    one, other = (night_of(tmp_path, 1, seeded_bits(1)) for _ in range(2))
    count_empty_night(one, (N_ITEMS,), stream)
    drawn = draw_night(place, NAME, 1, stream, seeded_bits(1))
    (tmp_path / "s/released/00001.npz").rename(tmp_path / "aside")
    count_empty_night(other, (N_ITEMS,), stream)  # its cells replace those that were drawn from
    (tmp_path / "aside").rename(tmp_path / "s/released/00001.npz")
    with pytest.raises(InputError, match="never finished, or whose files are lost"):
        count_empty_night(night_of(tmp_path, 2, seeded_bits(1)), (N_ITEMS,), stream)
    carry_people(place, NAME, 1, one.attempt, one.before)
    shutil.copytree(tmp_path / "s/people/00001", tmp_path / "kept")
    assert (tmp_path / "kept" / f"{drawn.people}.json").exists()  # the people that counted are back
    count_empty_night(night_of(tmp_path, 2, seeded_bits(1)), (N_ITEMS,), stream)
    with pytest.raises(InputError, match="is not what night 1 was drawn from"):
        draw_night(place, NAME, 2, stream, seeded_bits(1))


def test_halves_of_two_attempts_are_never_drawn(tmp_path, monkeypatch):
    """The second attempt at a night dies after its people and before its counts."""
    inputs(tmp_path)
    stream, place = the_stream(), str(tmp_path / "s")
    of_stream = night_of(tmp_path, 0, seeded_bits(1))
    count_empty_night(of_stream, (N_ITEMS,), stream)
    with monkeypatch.context() as killed:
        fuse = Fuse(1)
        killed.setattr(stream_nights, "keep_cells", fuse.guard(stream_nights.keep_cells))
        with pytest.raises(Killed):
            count_empty_night(of_stream, (N_ITEMS,), stream)
    with pytest.raises(InputError, match="its counts are part"):
        draw_night(place, NAME, 0, stream, seeded_bits(1))
    count_empty_night(of_stream, (N_ITEMS,), stream)
    draw_night(place, NAME, 0, stream, seeded_bits(1))


def test_nights_out_of_order_are_refused_and_nothing_is_lost(tmp_path):
    expected, stream = inputs(tmp_path), the_stream()
    with pytest.raises(InputError, match="never finished, or whose files are lost"):
        run_night(tmp_path, 1, stream)
    run_night(tmp_path, 0, stream)
    place = str(tmp_path / "s")
    with pytest.raises(InputError, match="cannot be drawn before night 2"):
        draw_night(place, NAME, 3, stream, seeded_bits(1))
    assert run_night(tmp_path, 1, stream) == pytest.approx(expected[1])
    assert run_night(tmp_path, 0, stream) == pytest.approx(expected[0])  # done: nothing is read
    with pytest.raises(ValueError, match="night must be between 0 and 3"):
        draw_night(place, NAME, 4, stream, seeded_bits(1))


def test_other_terms_and_missing_nights_are_refused(tmp_path):
    inputs(tmp_path)
    stream, place = the_stream(), str(tmp_path / "s")
    run_night(tmp_path, 0, stream)
    run_night(tmp_path, 1, stream)
    with pytest.raises(InputError, match="under other terms"):
        drawn_night(place, NAME, 0, the_stream(rho=1.0))
    with pytest.raises(InputError, match="another stream"):
        drawn_night(place, "other", 0, stream)
    drawn = drawn_night(place, NAME, 1, stream)
    (tmp_path / "s" / "released" / "00000.npz").unlink()
    shown_of(place, NAME, 1, stream, drawn, pairs=False)  # which is kept
    shutil.rmtree(tmp_path / "s" / "shown")
    with pytest.raises(InputError, match="what is shown on later nights is made of it too"):
        shown_of(place, NAME, 1, stream, drawn, pairs=False)


def test_a_job_that_is_no_night_is_refused(tmp_path):
    inputs(tmp_path)
    with pytest.raises(ValueError, match="no night of a stream"):
        count_night(a_job(tmp_path / "in0", tmp_path / "w"), the_stream(), reduce.run)
    night = night_of(tmp_path, 0, seeded_bits(1))
    job = a_job(tmp_path / "in0", tmp_path / "w", statistic=Statistic.PAIR_COUNTS)
    many = dataclasses.replace(job, stream=night, catalogue=Catalogue.of_count(5_000))
    with pytest.raises(ValueError, match="items, got 5000; count wins instead"):
        count_night(many, the_stream(), reduce.run)


def test_a_folder_from_an_earlier_time_is_refused_by_the_digest_that_was_noted(tmp_path):
    inputs(tmp_path)
    stream, place = the_stream(), str(tmp_path / "s")
    run_night(tmp_path, 0, stream)
    shutil.copytree(tmp_path / "s", tmp_path / "backup")
    run_night(tmp_path, 1, stream)
    noted = drawn_night(place, NAME, 1, stream).people
    shutil.rmtree(tmp_path / "s")
    shutil.copytree(tmp_path / "backup", tmp_path / "s")
    late = dataclasses.replace(night_of(tmp_path, 1, seeded_bits(1)), night=2, before=noted)
    with pytest.raises(InputError, match="never finished, or whose files are lost"):
        count_empty_night(late, (N_ITEMS,), stream)
    early = dataclasses.replace(late, night=1)
    with pytest.raises(InputError, match="older copy"):
        count_empty_night(early, (N_ITEMS,), stream)
