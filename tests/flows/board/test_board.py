"""A board shows what releases say, escapes names, and is written whole or not at all."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hushrank as hr
from hushrank.flows.board import write
from hushrank.flows.board.site import item_file
from hushrank.flows.config.language import Language
from hushrank.flows.methods.registry import load_config
from hushrank.flows.release.archive import RELEASES
from hushrank.flows.release.history import release_files
from hushrank.verifier.verify_release import verify
from tests.flows.board.boards import ITEMS, archive_of, nights
from tests.flows.every_method import survey_of
from tests.flows.forgeries import run

ATOM = "{http://www.w3.org/2005/Atom}"


class Parsed(HTMLParser):
    """Tags, addresses and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags, self.links, self.words = set[str](), list[str](), list[str]()
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.links += [value for name, value in attributes if name in ("href", "src")]

    def handle_data(self, text):
        self.words.append(text)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("board")
    output = archive_of(folder / "out", nights(5))
    return folder / "site", hr.board(output, out=folder / "site"), output


def test_every_page_has_its_words_and_asks_nobody(site):
    folder, told, output = site
    pages = sorted(folder.glob("*.html"))
    assert told.releases == 5
    assert len(pages) == 2 + len(ITEMS)
    for page in pages:
        parsed = Parsed(page.read_text(encoding="utf-8"))
        assert not parsed.tags & {"script", "b", "img", "iframe", "form", "object"}, page
        for link in parsed.links:
            assert link == "data:," or (folder / link).exists(), link
    words = " ".join(Parsed((folder / "index.html").read_text(encoding="utf-8")).words)
    assert all(item in words for item in ITEMS)
    assert "on average up to one release in twenty has a rank outside its band" in words
    newest = sorted((output / RELEASES).iterdir())[-1]
    for file in newest.iterdir():
        if file.name != "SHA256SUMS":
            assert (folder / "release" / file.name).read_bytes() == file.read_bytes()


OTHERS = [each.value for each in Language if each is not Language.ENGLISH]


@pytest.mark.parametrize("language", OTHERS)
def test_every_sentence_of_a_board_is_translated_and_no_name(language, site, tmp_path):
    """Every text of every page; names even where they are words of the page; the same numbers."""
    english, _, output = site
    hr.board(output, out=tmp_path / "site", language=language)
    pages = sorted(each.name for each in english.glob("*.html"))
    assert sorted(each.name for each in (tmp_path / "site").glob("*.html")) == pages
    for name in pages:
        page = (tmp_path / "site" / name).read_text(encoding="utf-8")
        assert f'<html lang="{language}"' in page
        assert 'lang="en"' not in page, re.findall(r'<span lang="en">([^<]*)', page)
        digits = [
            sorted(re.findall(r"\d+", " ".join(Parsed(each).words)))
            for each in ((english / name).read_text(encoding="utf-8"), page)
        ]
        assert set(digits[0]) <= set(digits[1])
    words = " ".join(Parsed((tmp_path / "site" / "index.html").read_text("utf-8")).words)
    assert all(item in words for item in ITEMS)
    for feed in ("feed.json", "feed.xml", "data.json"):
        assert (tmp_path / "site" / feed).read_bytes() == (english / feed).read_bytes()


def test_items_that_are_named_like_words_of_a_board_keep_their_names(tmp_path):
    items = ["Rank", "Score", "Day", *ITEMS[3:]]
    hr.board(archive_of(tmp_path / "out", nights(2, items)), out=tmp_path / "site", language="de")
    page = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    words = Parsed(page).words
    for item in items:
        assert re.search(rf'"{item_file(item)}" translate="no">([^<]*)</a>', page), item
        assert item in words
    assert '<th scope="col">Rang</th>' in page


def test_numbers_are_those_of_the_releases(site):
    folder, _, output = site
    data = json.loads((folder / "data.json").read_bytes())
    names = [each["item"] for each in data["items"]]
    found = {each["release_id"]: each for each in data["releases"]}
    releases = hr.history(output)
    assert len(found) == len(releases) == 5
    for release in releases:
        for line in release.record.ranking:
            at = names.index(line.item)
            kept = found[release.record.release_id]
            assert kept["rank"][at] == line.rank
            assert (kept["low"][at], kept["high"][at]) == line.sure_ranks
            assert kept["score"][at] == pytest.approx(line.score, rel=1e-5)


def test_feeds_are_read_by_programs_and_name_their_site(site, tmp_path):
    folder, _, output = site
    feed = ET.parse(folder / "feed.xml").getroot()
    entries = feed.findall(f"{ATOM}entry")
    assert len(entries) == 5
    updated = [entry.find(f"{ATOM}updated").text for entry in entries]
    assert updated == sorted(updated, reverse=True)
    assert json.loads((folder / "feed.json").read_text())["items"][0]["title"] == "5 January 2026"
    hr.board(output, out=tmp_path / "site", url="https://board.example.org/x")
    addressed = json.loads((tmp_path / "site" / "feed.json").read_text())
    assert addressed["feed_url"] == "https://board.example.org/x/feed.json"
    assert "https://board.example.org/x/widget.html" in (tmp_path / "site/index.html").read_text()
    with pytest.raises(hr.ConfigError, match="url: must be an https"):
        hr.board(output, out=tmp_path / "site", url='https://x/"><script>')


def test_a_release_that_was_changed_or_protects_nobody_is_left_out_and_named(tmp_path, command):
    from tests.releases import SEEDED

    releases = nights(3)
    unsafe = nights(4, bits=SEEDED)[3]
    output = archive_of(tmp_path / "out", [*releases, unsafe])
    changed = sorted((output / RELEASES).iterdir())[1]
    file = changed / "release.json"
    file.chmod(0o600)
    file.write_bytes(file.read_bytes().replace(b'"rank": 1,', b'"rank": 2,'))
    code, printed = command("board", str(output), "--out", str(tmp_path / "site"))
    assert code == 0, printed
    said = " ".join(printed.split())
    assert f"does not verify: {changed.name}" in said
    assert "protects nobody" in said
    assert "of 2 releases" in said
    words = " ".join((tmp_path / "site" / "index.html").read_text().split())
    assert changed.name in words
    assert len(json.loads((tmp_path / "site" / "data.json").read_bytes())["releases"]) == 2


def test_a_build_that_fails_leaves_the_old_site_whole(site, monkeypatch, tmp_path):
    _, _, output = site
    out = tmp_path / "site"
    hr.board(output, out=out)
    before = {path.name: path.read_bytes() for path in out.glob("*.*")}
    real, calls = write.write_file, []

    def full(path, content):
        calls.append(path)
        if len(calls) == 4:
            raise OSError(28, "No space left on device")
        real(path, content)

    monkeypatch.setattr(write, "write_file", full)
    with pytest.raises(hr.ConfigError, match="No space left"):
        hr.board(output, out=out)
    assert {path.name: path.read_bytes() for path in out.glob("*.*")} == before
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_a_folder_with_other_files_is_not_replaced(site, tmp_path):
    _, _, output = site
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(hr.ConfigError, match=r"holds notes\.txt, which is not of a board"):
        hr.board(output, out=tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    with pytest.raises(hr.ConfigError, match="holds no release that can be shown"):
        hr.board(tmp_path, out=tmp_path / "site")


def test_a_wide_interval_is_provisional_and_a_lost_item_keeps_its_page(tmp_path):
    items = [f"model {at}" for at in range(6)]
    one, two = nights(1, [*items, "retired"])[0], nights(2, items)[1]
    *others, last = two.ranking
    wide = replace(last, low=last.low - 60, high=last.high + 60)
    two = two.model_copy(update={"ranking": (*others, wide)})
    hr.board(archive_of(tmp_path / "out", [one, two]), out=tmp_path / "site")
    page = (tmp_path / "site" / "index.html").read_text()
    marked = re.findall(r'<a href="([^"]+)"[^>]*>[^<]+</a><span class="mark">provisional', page)
    assert marked == [item_file(last.item)]
    gone = (tmp_path / "site" / item_file("retired")).read_text()
    assert "It is not in the last release." in gone
    assert item_file("retired") not in page


def test_a_survey_with_groups_has_a_tab_for_each_and_its_budget(tmp_path):
    """A real run, with certificate and ledger."""
    survey = survey_of("noisy-counts", tmp_path / "survey")
    rows = pq.read_table(survey.folder / "rows.parquet")
    regions = pa.array(["north", "south"] * rows.num_rows).slice(0, rows.num_rows)
    pq.write_table(rows.append_column("region", regions), survey.folder / "rows.parquet")
    run(survey.set(groups={"column": "region", "values": ["north", "south"]}))
    hr.board(survey.config, out=tmp_path / "site")
    page = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    words = " ".join(" ".join(Parsed(page).words).split())
    release = hr.read_release(survey.output).record
    spent = 100 - release.privacy.epsilon
    assert f"After this release epsilon {spent:.4g} of 100 was left" in words
    assert page.count('aria-current="page"') == 1
    for number, group in enumerate(release.groups, start=1):
        assert f'<a href="group-{number}.html" translate="no">{group.name}</a>' in page
        tab = (tmp_path / "site" / f"group-{number}.html").read_text(encoding="utf-8")
        here = f'<a href="group-{number}.html" aria-current="page" translate="no">'
        assert f"{here}{group.name}</a>" in tab
    assert (tmp_path / "site" / "release" / "certificate.json").exists()
    files, _ = release_files(str(tmp_path / "site" / "release"), load_config)
    assert verify(files).good
