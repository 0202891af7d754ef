"""What `hushrank survey build` writes, and what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from hushrank.flows.collecting.survey.settings import (
    BUILT_IN,
    OF_ABOUT,
    build_site,
    built_in,
    digest,
    page_headers,
    page_policy,
    write_site,
)
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.registry import load_config
from hushrank.privacy.units import epsilon_levels

NAMES = ["a", "b", "<script>alert(1)</script>", "Zürich"]
VALUE = re.compile(r"\{(\w+)\}")


ABOUT = {"organisation": "University of Example", "contact": "survey@example.org"}


def survey(folder: Path, own: object = None, **collect: Any) -> Path:
    """A survey.yaml of pairs, with a file of texts if there are any."""
    if own is not None:
        (folder / "texts.yaml").write_text(yaml.safe_dump(own, allow_unicode=True), "utf-8")
        collect["texts"] = "texts.yaml"
    content = {
        "name": "campus",
        "input": {"kind": "comparisons", "paths": ["in/*"], "columns": {"epsilon": "epsilon"}},
        "items": {"names": NAMES},
        "privacy": {"unit": "local", "already_private": True, "epsilon_range": [2, 4]},
        "method": "debiased-rr",
        "output": "out",
        "confidential": "work",
        "ledger": {"path": "ledger.jsonl", "epsilon": 100},
        "collect": {"folder": "in", **collect},
    }
    path = folder / "survey.yaml"
    path.write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    return path


def build(folder: Path, own: object = None, **collect: Any) -> dict[str, bytes]:
    return build_site(load_config(survey(folder, own, **collect)))


def test_the_command_writes_a_folder_that_any_host_can_serve(tmp_path, command):
    code, printed = command("survey", "build", survey(tmp_path), "--out", tmp_path / "site")
    assert code == 0
    made = build(tmp_path)
    written = {path.name: path.read_bytes() for path in (tmp_path / "site").iterdir()}
    assert written == made  # the same files each time
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "site").iterdir()} == {0o644}
    assert digest(made["index.html"]) in printed
    code, _ = command("survey", "build", survey(tmp_path), "--out", tmp_path / "site")
    assert code == 0  # over an older build


def test_nothing_strange_is_overwritten_and_nothing_half_written(tmp_path, command):
    for name in ("site", "file"):
        (tmp_path / name).mkdir() if name == "site" else (tmp_path / name).write_text("mine")
    (tmp_path / "site" / "thesis.tex").write_text("mine")
    code, printed = command("survey", "build", survey(tmp_path), "--out", tmp_path / "site")
    assert code == 2
    assert "holds thesis.tex, which is not of a survey page" in printed
    assert [path.name for path in (tmp_path / "site").iterdir()] == ["thesis.tex"]
    code, printed = command("survey", "build", survey(tmp_path), "--out", tmp_path / "file")
    assert code == 2
    assert "cannot be written" in printed
    path = survey(tmp_path)
    content = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump(content | {"collect": None}))
    code, printed = command("survey", "build", path, "--out", tmp_path / "new")
    assert code == 2
    assert "collect: missing" in printed
    assert not (tmp_path / "new").exists()


def test_the_page_holds_no_script_or_style_of_its_own_and_names_all_digests(tmp_path):
    made = build(tmp_path, url="https://collect.example.org/a", about=ABOUT)
    page = made["index.html"].decode()
    assert re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL) == [""]
    assert "<style" not in page
    assert not re.search(r"\s(style|on\w+)=", page)
    assert "alert(1)" not in page
    for name in ("hushrank.js", "page.js", "survey.css", "survey.json"):
        assert digest(made[name]) in page
    addresses = set(re.findall(r"https?://[^\s;\"'&]+", page))
    assert addresses == {"https://collect.example.org"}  # in the policy
    policy = page_policy("https://collect.example.org/a").split("; ")
    assert "default-src 'none'" in policy
    assert "connect-src 'self' https://collect.example.org" in policy
    assert not [each for each in policy if "unsafe" in each or "*" in each]
    assert page_policy("answers").endswith("connect-src 'self'")
    assert "frame-ancestors 'none'" in page_headers("answers")["Content-Security-Policy"]
    assert f"  X-Content-Type-Options: {page_headers('answers')['X-Content-Type-Options']}" in (
        made["_headers"].decode().splitlines()
    )


def test_the_settings_say_who_asks_and_until_when(tmp_path):
    assert json.loads(build(tmp_path)["survey.json"])["about"] is None
    told = ABOUT | {"privacy_notice": "https://example.org/privacy", "closes": "2026-12-31"}
    assert json.loads(build(tmp_path, about=told)["survey.json"])["about"] == {
        "organisation": "University of Example",
        "contact": "survey@example.org",
        "privacyNotice": "https://example.org/privacy",
        "lastDay": "2026-12-31",
        "closing": "2027-01-01T00:00:00+00:00",
    }


def test_texts_of_another_language_need_those_about_the_asker_only_with_one(tmp_path):
    known = {key: f"it {text}" for key, text in built_in("en").items()}
    older = {key: text for key, text in known.items() if key not in OF_ABOUT}
    assert build(tmp_path, {"it": older}, languages=["it"])
    with pytest.raises(ConfigError, match="it: lacks asker, closed, closes, privacy_notice"):
        build(tmp_path, {"it": older}, languages=["it"], about=ABOUT)
    assert build(tmp_path, {"it": known}, languages=["it"], about=ABOUT)


def test_the_page_offers_the_levels_of_the_file_and_no_other(tmp_path):
    path = survey(tmp_path)
    text = path.read_text("utf-8")
    path.write_text(re.sub(r"epsilon_range:\n  - 2\n  - 4", "epsilon_levels: [0.5, 1, 3]", text))
    assert json.loads(build_site(load_config(path))["survey.json"])["epsilon"] == {
        "levels": [0.5, 1, 3],
        "start": 1,
    }


def test_the_settings_say_what_the_file_says(tmp_path):
    found = json.loads(build(tmp_path, questions=3)["survey.json"])
    levels = found["epsilon"]["levels"]
    assert (levels[0], levels[-1], len(levels)) == (2, 4, 4)  # of a range the page offers four
    assert set(levels) <= set(epsilon_levels(2.0, 4.0))
    assert found["epsilon"]["start"] == 2  # the nearest to 1
    assert [item["name"] for item in found["items"]] == NAMES
    assert (found["mode"], found["questions"], found["url"]) == ("pairs", 3, "answers")
    assert list(found["languages"]) == ["en"]


def test_texts_of_a_file_change_and_add_languages(tmp_path):
    texts = {
        "en": {"title": "Where to study?", "items": {"a": "Alpha"}},
        "fr": {"title": "Où étudier ?"},
    }
    found = json.loads(build(tmp_path, texts, languages=["fr", "en", "de"])["survey.json"])
    languages = found["languages"]
    assert list(languages) == ["fr", "en", "de"]
    assert languages["en"]["texts"]["title"] == "Where to study?"
    assert languages["en"]["texts"]["send"] == built_in("en")["send"]
    assert languages["en"]["items"] == {"a": "Alpha"}
    page = build(tmp_path, texts, languages=["fr"])["index.html"].decode()
    assert '<html lang="fr"' in page
    assert "<title>Où étudier ?</title>" in page


@pytest.mark.parametrize(
    ("texts", "languages", "refused"),
    [
        ({"en": {"titel": "A"}}, ["en"], "en.titel: unknown text. Did you mean title?"),
        ({"en": {"title": 3}}, ["en"], "en.title: must be text; put it in quotes"),
        ({"en": {"flipped": "{chance}"}}, ["en"], "en.flipped: {chance} stands for nothing here"),
        ({"en": {"items": {"x": "X"}}}, ["en"], "en.items.x: is not in the catalogue"),
        ({"en": "Hello"}, ["en"], "en: must hold lines"),
        ({"it": {"title": "Dove?"}}, ["it"], "it: lacks back, begin, broken"),
        ({"en": {"title": "a\u202eb"}}, ["en"], "line 2: holds the character \\u202e"),
    ],
)
def test_a_mistake_in_the_texts_is_told(tmp_path, texts, languages, refused):
    with pytest.raises(ConfigError) as caught:
        build(tmp_path, texts, languages=languages)
    assert refused in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_of_texts_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ConfigError, match=r"^collect.texts: .*no.yaml: no such file"):
        build(tmp_path, texts="no.yaml")


def test_a_language_without_texts_is_told(tmp_path):
    with pytest.raises(ConfigError, match="hushrank has texts in de, en, es, fr, pt"):
        build(tmp_path, languages=["en", "it"])


def test_every_language_is_complete_and_of_its_own(checkout):
    folder = checkout / "flows/collecting/survey/files"
    assert sorted(BUILT_IN) == sorted(path.stem[6:] for path in folder.glob("texts.*.yaml"))
    english = built_in("en")
    for language in set(BUILT_IN) - {"en"}:
        alike = [key for key, text in built_in(language).items() if text == english[key]]
        assert set(alike) <= {"no"}, language


def test_all_languages_have_the_same_texts_with_the_same_values(checkout):
    english, *others = (built_in(language) for language in ("en", *BUILT_IN))
    for other in others:
        assert list(other) == list(english)
        for key, text in english.items():
            assert sorted(VALUE.findall(other[key])) == sorted(VALUE.findall(text)), key
    sources = "".join(path.read_text() for path in (checkout / "clients/js/page").glob("*.ts"))
    said = set(re.findall(r'"([a-z_]+)"', sources))
    unused = english.keys() - said - {"no_script", "language"}
    assert unused == set()


def test_a_build_can_be_written_by_another_program(tmp_path):
    write_site(build(tmp_path), tmp_path / "deep" / "site")
    assert (tmp_path / "deep" / "site" / "index.html").is_file()


def test_the_page_of_the_documentation_is_true(checkout, tmp_path, command):
    """Its survey.yaml and texts are built as it says, and it says what is printed."""
    page = (checkout / "docs" / "survey_page.md").read_text(encoding="utf-8")
    settings, texts = re.findall(r"^```yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "texts.yaml").write_text(texts, encoding="utf-8")
    path = tmp_path / "survey.yaml"
    path.write_text(f"{settings}  texts: texts.yaml\n", encoding="utf-8")
    code, printed = command("survey", "build", path, "--out", tmp_path / "site")
    assert code == 0, printed
    shown = printed.replace(f"{tmp_path}/", "")
    assert re.sub(r"sha256-[\w+/=]+", "sha256-…", shown).strip() in page
    found = json.loads((tmp_path / "site" / "survey.json").read_text(encoding="utf-8"))
    assert found["languages"]["de"]["texts"]["title"] == "Wo möchten Sie studieren?"


PAIRS = f"left,right,share\na,b,0.7\n{NAMES[2]},a,0.2\nZürich,b,0.1\n"


def test_chosen_pairs_are_in_the_settings_and_all_alike_without(tmp_path):
    (tmp_path / "pairs.csv").write_text(PAIRS, encoding="utf-8")
    made = json.loads(build(tmp_path, pairs="pairs.csv", questions=3)["survey.json"])
    assert made["pairs"] == [[0, 1, 0.7], [0, 2, 0.2], [1, 3, 0.1]]
    assert "pairs" not in json.loads(build(tmp_path)["survey.json"])


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("left,right\na,b\n", "needs rows, under the header left,right,share"),
        ("left,right,share\na,c,0.5\n", "line 2: item 'c' is not in the catalogue"),
        (PAIRS + "b,a,0.1\n", "line 5: needs two different items, each pair once"),
        (PAIRS.replace("0.1", "nan"), "line 4: needs two different items"),
        (PAIRS, "has 3 pairs, and a respondent is asked about 4"),
    ],
)
def test_wrong_pairs_are_refused(tmp_path, text, refused):
    (tmp_path / "pairs.csv").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=re.escape(refused)):
        build(tmp_path, pairs="pairs.csv", questions=4)


def test_pairs_are_chosen_only_for_fits_that_condition_on_them(tmp_path):
    (tmp_path / "pairs.csv").write_text(PAIRS, encoding="utf-8")
    path = survey(tmp_path, pairs="pairs.csv")
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    for change in ({"method": "rr-counts"}, {"input": {**content["input"], "design": "balanced"}}):
        path.write_text(yaml.safe_dump({**content, **change}, allow_unicode=True), "utf-8")
        with pytest.raises(ConfigError, match=r"collect\.pairs: makes some pairs more frequent"):
            load_config(path)
