"""A night shows the row of A C^-1 y, and reads few files for it, however long the stream is."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import numpy as np
import pytest

from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.stream import Stream, shown_night, stream_of
from hushrank.privacy.stream_encoder import Terms, Workload
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.streams import released_files
from hushrank.transforms.streams.people_files import carry_people
from hushrank.transforms.streams.released_files import (
    Drawn,
    draw_night,
    forget_shown,
    keep_cells,
    shown_of,
)
from hushrank.transforms.streams.stream_folder import SHOWN, nights_of
from tests.flows.damages import replace_by_folder

NAME, NIGHTS = "a stream", 24
SETTINGS = [  # window, gap, noise: bands are as many as these allow
    (7, 5, NoiseKind.GAUSSIAN),
    (4, 9, NoiseKind.GAUSSIAN),
    (None, 10, NoiseKind.GAUSSIAN),
    (1, 3, NoiseKind.GAUSSIAN),
    (6, 3, NoiseKind.LAPLACE),
    (None, 3, NoiseKind.LAPLACE),
    (60, 12, NoiseKind.GAUSSIAN),
]


def a_stream(window: int | None, gap: int, noise: NoiseKind, nights: int = NIGHTS) -> Stream:
    laplace = noise is NoiseKind.LAPLACE
    params = PrivacyParams(
        unit=Unit.USER, adjacency=Adjacency.ADD_REMOVE, epsilon=1.0 if laplace else math.inf,
        rho=None if laplace else 1.0, delta=0.0, noise=noise, max_contributions=3,
    )  # fmt: skip
    terms = Terms(nights=nights, participations=3, gap=gap)
    return stream_of(params, Sensitivity(3, 9), terms, Workload(window))


def draw(folder: Path, stream: Stream, night: int, before: str) -> Drawn:
    """A night of seeded counts."""
    people = carry_people(str(folder), NAME, night, f"attempt {night}", before).digest
    counts = np.random.default_rng(night).integers(0, 50, (3, 3))
    keep_cells(str(folder), NAME, night, counts, people)
    return draw_night(str(folder), NAME, night, stream, seeded_bits(night))


def nights_drawn(folder: Path, stream: Stream, nights: int) -> list[Drawn]:
    """Drawn one after the other, each shown and tidied."""
    place, found = str(folder), []
    for night in range(nights):
        found.append(draw(folder, stream, night, found[-1].people if found else ""))
        shown = shown_of(place, NAME, night, stream, found[-1], pairs=True)
        released = np.stack([each.released for each in found])
        expected = shown_night(stream, released)
        assert shown.cells == pytest.approx(expected, rel=1e-9, abs=1e-9)
        nothing = np.trace(released, axis1=1, axis2=2)
        np.testing.assert_array_equal(shown.sums, released.sum(axis=(1, 2)) - nothing)
        forget_shown(place, night, stream.encoder.bands)
    return found


@pytest.mark.parametrize(("window", "gap", "noise"), SETTINGS)
def test_what_is_shown_is_the_row_of_the_matrix(tmp_path, window, gap, noise):
    stream = a_stream(window, gap, noise)
    nights_drawn(tmp_path, stream, NIGHTS)
    kept = [night for night, _ in nights_of(str(tmp_path), SHOWN)]
    needed = max(stream.encoder.bands - 1, 1)
    assert kept == list(range(NIGHTS - needed, NIGHTS - 1))  # the last has no night after it


def test_the_recursion_is_as_exact_as_the_sum_over_a_long_stream():
    """Of 3 000 nights, where the numbers are as large as counts of 10^6 make them."""
    stream = a_stream(28, 28, NoiseKind.GAUSSIAN, 3_000)
    y = np.random.default_rng(2).integers(0, 1 << 40, 3_000)
    window, shown = 0, []
    for night in range(3_000):
        window += int(y[night]) - (int(y[night - 28]) if night >= 28 else 0)
        recent = shown[:-28:-1]
        earlier = sum(c * s for c, s in zip(stream.encoder.coefficients[1:], recent, strict=False))
        shown.append((window - earlier) / stream.encoder.coefficients[0])
    assert shown[-1] == pytest.approx(float(stream.kernel[::-1] @ y), rel=1e-10)


@pytest.mark.parametrize("window", [7, None])
def test_a_night_reads_as_many_files_as_its_window_has_nights_each_once(
    tmp_path, window, monkeypatch
):
    stream = a_stream(window, 5, NoiseKind.GAUSSIAN)
    drawn = draw(tmp_path, stream, 19, nights_drawn(tmp_path, stream, 19)[-1].people)
    read: list[str] = []
    whole = released_files.read_kept
    monkeypatch.setattr(released_files, "read_kept", lambda path: read.append(path) or whole(path))
    shown_of(str(tmp_path), NAME, 19, stream, drawn, pairs=True)
    assert len(read) == len(set(read))
    names = sorted(str(Path(path).relative_to(tmp_path)) for path in read)
    leaving = [] if window is None else ["released/00012.npz"]
    assert names == leaving + [f"shown/{night:05d}.npz" for night in range(15, 20)]


@pytest.mark.parametrize("lost", ["all", "one", "of another night's people"])
def test_lost_files_are_made_again(tmp_path, lost):
    stream, place = a_stream(7, 5, NoiseKind.GAUSSIAN), str(tmp_path)
    drawn = nights_drawn(tmp_path, stream, 20)
    expected = shown_of(place, NAME, 19, stream, drawn[19], pairs=True)
    if lost == "all":
        shutil.rmtree(tmp_path / SHOWN)
    else:
        (tmp_path / SHOWN / "00019.npz").unlink()
        (tmp_path / SHOWN / "00018.npz").unlink()
    if lost == "of another night's people":
        other = Drawn(drawn[18].released, ("another", *drawn[17].lineage), 1.0, drawn[18].bits)
        shown_of(place, NAME, 18, stream, other, pairs=True)
    again = shown_of(place, NAME, 19, stream, drawn[19], pairs=True)
    assert again.cells == pytest.approx(expected.cells, rel=1e-12)
    np.testing.assert_array_equal(again.window, expected.window)
    np.testing.assert_array_equal(again.sums, expected.sums)
    (tmp_path / "released" / "00003.npz").unlink()
    shown_of(place, NAME, 19, stream, drawn[19], pairs=True)
    shutil.rmtree(tmp_path / SHOWN)
    with pytest.raises(InputError, match=r"made of it too\. Restore it"):
        shown_of(place, NAME, 19, stream, drawn[19], pairs=True)


def test_damaged_files_are_made_again_and_another_stream_is_refused(tmp_path):
    stream, place = a_stream(7, 5, NoiseKind.GAUSSIAN), str(tmp_path)
    drawn = nights_drawn(tmp_path, stream, 3)
    path = tmp_path / SHOWN / "00002.npz"
    expected = shown_of(place, NAME, 2, stream, drawn[2], pairs=True)
    with pytest.raises(InputError, match="another stream"):
        shown_of(place, "another", 2, stream, drawn[2], pairs=True)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    for damage in (lambda: path.write_bytes(content), lambda: replace_by_folder(path)):
        damage()
        again = shown_of(place, NAME, 2, stream, drawn[2], pairs=True)
        assert again.cells == pytest.approx(expected.cells, rel=1e-12)
        assert path.is_file()
