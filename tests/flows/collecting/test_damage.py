"""Files of a spool that come back cut, flipped, empty, from elsewhere, or as something else."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace

import pytest

from hushrank.flows.collecting.contents import KEY_FILE, TokenKey
from hushrank.flows.collecting.server import Collector
from hushrank.flows.collecting.spool import Spool, seal_spools
from hushrank.flows.errors import ConfigError
from hushrank.privacy.randomness import system_bits
from tests.flows.collecting.surveys import survey
from tests.flows.collecting.test_spool import found, group


def as_folder(path):
    path.mkdir()


def as_pipe(path):
    os.mkfifo(path)


def as_text(path):
    path.write_text("hello")


def as_circle(path):
    path.symlink_to(path)


@pytest.mark.parametrize("ending", [".journal", ".sealed", ".tokens"])
@pytest.mark.parametrize("make", [as_folder, as_pipe, as_text, as_circle])
@pytest.mark.parametrize("name", ["hello", "2026-13-01.0123456789abcdef"])
def test_what_is_no_file_of_ours_is_named_and_left(tmp_path, terms, said, name, make, ending):
    spool = Spool(tmp_path / "spool", terms)
    spool.append(group(terms, 1))
    spool.close()
    strange = spool.folder / f"{name}{ending}"
    make(strange)
    if make is not as_text:
        make(spool.folder / f"2026-11-20.{16 * 'a'}{ending}")
    again = Spool(tmp_path / "spool", terms)
    assert len(said) == (1 if make is as_text else 2)
    assert f"{strange}: is not a file of this collector" in "".join(said)
    assert set(again.used_tokens()) == {(1).to_bytes(8, "big")}
    again.append(group(terms, 2))
    again.seal()
    assert again.write_parts() == 1
    assert found(tmp_path) == {"2026-11-20": [1, 2]}
    assert os.path.lexists(strange)


def flipped(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


DAMAGES = [lambda content: content[:-3], flipped, lambda content: b"", lambda content: b"hello"]


@pytest.mark.parametrize("damage", DAMAGES, ids=["cut", "flipped", "empty", "another's"])
@pytest.mark.parametrize("ending", [".journal", ".sealed"])
def test_a_damaged_journal_stops_nothing_and_is_said_once(tmp_path, terms, said, ending, damage):
    spool = Spool(tmp_path / "spool", terms)
    for number in (1, 2):
        spool.append(group(terms, number))
    (path,) = spool.folder.glob("*.journal")
    spool.close()
    path.write_bytes(damage(path.read_bytes()))
    path.rename(path.with_suffix(ending))
    again = Spool(tmp_path / "spool", terms)
    list(again.submissions())
    again.append(group(terms, 3))
    again.seal()
    again.write_parts()
    (numbers,) = found(tmp_path).values()
    assert numbers in ([3], [1, 3])
    told = [text for text in said if "left behind" not in text]
    assert len(told) == 1
    assert path.stem in told[0]
    for kept in again.folder.glob("*.damaged"):
        assert kept.stat().st_mode & 0o077 == 0


def test_a_whole_journal_whose_places_are_not_in_its_catalogue_is_set_apart(tmp_path, terms, said):
    short = replace(terms, form=replace(terms.form, items=("ants",)))
    spool = Spool(tmp_path / "spool", short)
    spool.append(group(short, 1))
    spool.seal()
    spool.append(replace(group(short, 2), rows=bytes(len(group(short, 2).rows))))
    spool.seal()
    assert spool.write_parts() == 1
    assert len(list(spool.folder.glob("*.damaged"))) == len(said) == 1


def test_answers_of_another_survey_do_not_become_ours(tmp_path, terms):
    other = replace(terms, form=replace(terms.form, survey="elsewhere"))
    spool = Spool(tmp_path / "spool", other)
    spool.append(group(other, 1))
    spool.close()
    with pytest.raises(ConfigError, match="holds answers of another survey, elsewhere"):
        seal_spools(tmp_path, terms)
    config = survey(tmp_path)
    shutil.move(tmp_path / "spool", tmp_path / "all" / "0")
    with pytest.raises(ConfigError, match="holds answers of another survey, elsewhere"):
        Collector(config, tmp_path / "all", print)
    assert not (tmp_path / "answers").exists()
    assert seal_spools(tmp_path / "all", other) == 1


def test_a_journal_of_an_older_version_is_ours(tmp_path, terms):
    """Its head names no survey."""
    old = replace(terms, form=replace(terms.form, survey=""))
    spool = Spool(tmp_path / "spool", old)
    spool.append(group(old, 1))
    spool.close()
    seal_spools(tmp_path, terms)
    assert found(tmp_path) == {"2026-11-20": [1]}


@pytest.mark.parametrize("damage", DAMAGES, ids=["cut", "flipped", "empty", "another's"])
def test_a_damaged_file_of_used_tokens_is_refused(tmp_path, terms, damage):
    """Or its tokens could be used again."""
    spool = Spool(tmp_path / "spool", terms)
    spool.append(group(terms, 1, 2, 3))
    spool.seal()
    spool.write_parts()
    (path,) = spool.folder.glob("*.tokens")
    assert len(set(spool.used_tokens())) == 3
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    with pytest.raises(ConfigError, match="used tokens is damaged"):
        list(spool.used_tokens())
    path.unlink()
    old = path.with_name(f"{path.name[:27]}.tokens")  # as older versions named it
    old.write_bytes(whole)
    assert len(set(spool.used_tokens())) == 3
    old.write_bytes(whole[:-3])
    with pytest.raises(ConfigError, match="used tokens is damaged"):
        list(spool.used_tokens())


def test_a_damaged_key_of_tokens_is_refused_and_an_older_one_is_not(tmp_path):
    key = TokenKey.of(tmp_path, system_bits())
    token, path = key.new(system_bits()), tmp_path / KEY_FILE
    whole = path.read_bytes()
    path.write_bytes(whole[:64])  # without the check
    assert TokenKey.of(tmp_path, system_bits()).mark(token) == key.mark(token)
    other = b"0" if whole[:1] != b"0" else b"1"
    for content in (whole[:-1], whole[:60], b"", b"hello", other + whole[1:], whole + b"00"):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match="this is no key of tokens"):
            TokenKey.of(tmp_path, system_bits())


def test_a_damaged_part_keeps_its_journal_until_it_is_deleted(tmp_path, terms):
    spool = Spool(tmp_path / "spool", terms)
    spool.append(group(terms, 1))
    spool.seal()
    (sealed,) = spool.folder.glob("*.sealed")
    part = tmp_path / "answers" / "2026-11-20" / f"part-{sealed.stem[11:]}.parquet"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"PAR1, and then the disk was full")
    with pytest.raises(OSError, match="is damaged; delete it, and it is written again"):
        spool.write_parts()
    assert sealed.exists()
    part.unlink()
    assert spool.write_parts() == 1
    assert found(tmp_path) == {"2026-11-20": [1]}


def test_one_part_that_cannot_be_written_does_not_hold_up_others(tmp_path, terms):
    spool = Spool(tmp_path / "spool", terms)
    for number in (1, 2):
        spool.append(group(terms, number))
        spool.seal()
    first, _ = sorted(spool.folder.glob("*.sealed"))
    part = tmp_path / "answers" / "2026-11-20" / f"part-{first.stem[11:]}.parquet"
    part.mkdir(parents=True)
    with pytest.raises(OSError, match="Is a directory"):
        spool.write_parts()
    assert spool.parts == 1
    assert list(spool.folder.glob("*.sealed")) == [first]
