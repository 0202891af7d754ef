"""Reports in other languages: every sentence translated or marked, names and digits untouched."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from importlib.resources import files
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po
from babel.numbers import parse_decimal

from hushrank.flows.config.language import Language
from hushrank.flows.config.method import AboutConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.registry import load_config
from hushrank.flows.release.release import Release, load_release
from hushrank.flows.report.languages import Translator, catalogue_of
from hushrank.flows.report.page import render_report
from hushrank.flows.run.job import check_places
from hushrank.transforms.common import extras
from hushrank.verifier import verify_release
from tests.flows.conftest import Survey
from tests.flows.forgeries import run
from tests.flows.honest_releases import honest

OTHERS = [each for each in Language if each is not Language.ENGLISH]
# Kinds of releases whose page is translated in full: what a survey page collects, and counts of
# comparisons and rankings that an operator holds.
FULL = [
    "noisy-counts",
    "counts, ties split",
    "counts, look, items",
    "debiased-rr",
    "debiased-rr, per user",
    "answers of many",
    "answers, levels",
    "borda",
    "borda, user",
    "kemeny",
    "kemeny, random-pairs",
    "rankings, levels",
]
_RAW = re.compile(
    r"<(style|script)\b.*?</\1>|<[^>]*(?:lang|translate)=\"(?:en|no)\".*?</[a-z0-9]+>", re.DOTALL
)
ENGLISH_WORDS = re.compile(r"\b(the|of|with|which|are|answers|rankings)\b", re.IGNORECASE)


def words_of(page: str) -> str:
    """The text of a page, but for its script, names and what is marked as English."""
    return html.unescape(re.sub(r"<[^>]*>", "\n", _RAW.sub("", page)))


def released(folder: Path) -> Release:
    return load_release(folder / "out" / "release.json")


def translator(language: Language, names: Sequence[str]) -> Translator:
    return Translator(catalogue_of(language), frozenset(names))


def read_catalogue(language: Language) -> Catalog:
    place = files("hushrank.flows.report").joinpath(f"texts.{language}.po")
    with place.open("rb") as file:
        return read_po(file, locale=str(language), abort_invalid=True)


@pytest.mark.parametrize("kind", FULL)
def test_every_sentence_of_a_survey_s_page_is_translated(kind: str, tmp_path: Path):
    honest(kind, tmp_path)
    release = released(tmp_path)
    for language in OTHERS:
        page = render_report(release, language=language)
        assert f'<html lang="{language}"' in page
        assert re.findall(r'<span lang="en">(.*?)</span>', page) == [], language
        assert ENGLISH_WORDS.findall(words_of(page)) == [], language


@pytest.mark.parametrize("kind", FULL)
def test_the_verifier_reads_the_numbers_of_a_translated_page(kind: str, tmp_path: Path):
    """And it says that it does not judge the sentences of a translation."""
    honest(kind, tmp_path)
    files = {path.name: path.read_bytes() for path in (tmp_path / "out").glob("*.*")}
    release, document = released(tmp_path), json.loads(files["release.json"])
    labels = [f"GPT-{number}.5" for number in range(len(release.ranking))]
    lines = [replace(line, label=each) for line, each in zip(release.ranking, labels, strict=True)]
    release = release.model_copy(update={"ranking": tuple(lines)})
    for line, label in zip(document["ranking"], labels, strict=True):
        line["label"] = label
    del files["ranking.csv"], files["release.json"]  # which have no labels
    for language in Language:
        page = render_report(release, language=language)
        number = '<td class="number">'
        assert number in page
        for forged in (False, True):
            shown = page.replace(number, f"{number}9") if forged else page
            say = verify_release.Findings()
            documents = {**files, "report.html": shown.encode()}
            verify_release.check_report(documents, document, say)
            assert say.good is not forged, (language, say.lines)
            told = any("is a translation" in text for state, text in say.lines if state == "open")
            assert told is (language is not Language.ENGLISH)


@pytest.mark.parametrize("language", OTHERS)
def test_the_catalogues_have_the_same_texts_slots_and_plurals(language: Language):
    mine, german = read_catalogue(language), read_catalogue(Language.GERMAN)
    assert {message.id for message in mine} == {message.id for message in german}
    for message in mine:
        if not message.id:
            continue
        assert not message.fuzzy
        english = (message.id,) if isinstance(message.id, str) else message.id
        said = (message.string,) if isinstance(message.string, str) else message.string
        assert all(said), message.id
        for each in said:
            assert set(re.findall(r"{\w+}", each)) == set(re.findall(r"{\w+}", english[-1]))


def test_what_the_catalogue_lacks_is_marked_and_counted(tmp_path: Path):
    honest("noisy-counts", tmp_path)
    release = released(tmp_path)
    sentence = "A new sentence that nobody translated."
    changed = release.model_copy(update={"warnings": (*release.warnings, sentence)})
    page = render_report(changed, language=Language.GERMAN)
    assert f'<span lang="en">{sentence}</span>' in page
    assert "1 Text dieser Seite gibt es nur auf Englisch." in page
    twice = changed.model_copy(update={"warnings": (sentence, "Another one.")})
    assert "2 Texte dieser Seite" in render_report(twice, language=Language.GERMAN)
    assert "nur auf Englisch" not in render_report(release, language=Language.GERMAN)


def test_names_stay_as_they_are_even_if_they_look_like_texts(tmp_path: Path):
    honest("borda, user", tmp_path)
    release = released(tmp_path)
    names = ["Rank", "Score and Place", "1,234.5", "open to unbounded."]
    lines = zip(release.ranking, names, strict=True)
    ranking = tuple(replace(line, label=name) for line, name in lines)
    about = AboutConfig(title="Rank", question="Which of the answers?")
    changed = release.model_copy(update={"ranking": ranking, "about": about})
    page = render_report(changed, language=Language.FRENCH)
    for name in names:
        assert re.search(rf'<th scope="row" translate="no"[^>]*>{re.escape(name)}</th>', page)
    assert '<h1 translate="no">Rank</h1>' in page
    assert "<dd>Which of the answers?</dd>" in page


VERDICTS = [
    "No item can be told apart from any other.",
    "A leads.",
    "A leads. B and C may also belong in the leading group.",
    "A and B lead and cannot be told apart. Most likely the best: A (34 %) and C (>99 %).",
    "A very likely leads B, but not reliably.",
    "A very likely leads B, C and D; not certain when all items are judged at once.",
    "A, B, C and 12 more lead and cannot be told apart. D is behind them. E comes last.",
    "A leads. B and C are behind it, in no sure order. black and white, or grey comes last.",
    "A and B lead and cannot be told apart. C is behind both.",
    "Nothing was learned about most items. black and white, or grey leads. A is behind it.",
]


@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize("verdict", VERDICTS)
def test_every_verdict_is_translated(verdict: str, language: Language):
    said = translator(language, [*"ABCDE", "black and white, or grey"]).translate(verdict)
    assert said is not None
    assert ENGLISH_WORDS.search(said) is None
    for name in ("black and white, or grey", *(f" {each} " for each in "ABCDE")):
        assert (name in f" {said} ") == (name in f" {verdict} ") or name.strip() in said


def test_a_sentence_about_an_unknown_name_is_not_translated():
    assert translator(Language.GERMAN, ["A"]).translate("B leads.") is None


@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize("english", ["0.50", "-1,234.50", "1,234,567", "12", "−3.5", "0.000001"])
def test_numbers_keep_every_digit(english: str, language: Language):
    said = translator(language, []).translate(english)
    assert said is not None
    plain = english.replace("−", "-")
    assert parse_decimal(said.replace("−", "-"), locale=str(language)) == Decimal(
        plain.replace(",", "")
    )
    decimals = plain.partition(".")[2]
    assert said.endswith(decimals)


@pytest.mark.parametrize(
    ("language", "said"),
    [
        (Language.GERMAN, "28. November 2026, 12:49 UTC"),
        (Language.FRENCH, "28 novembre 2026, 12:49 UTC"),
        (Language.SPANISH, "28 de noviembre de 2026, 12:49 UTC"),
        (Language.PORTUGUESE, "28 de novembro de 2026, 12:49 UTC"),
    ],
)
def test_days_are_written_as_the_language_does(language: Language, said: str):
    assert translator(language, []).translate("28 November 2026, 12:49 UTC") == said


def test_a_run_writes_its_report_in_the_language_of_the_file(survey: Survey):
    run(survey.set(report={"language": "es"}))
    release = load_release(survey.folder / "out" / "release.json")
    page = (survey.folder / "out" / "report.html").read_text(encoding="utf-8")
    assert '<html lang="es"' in page
    assert '<span lang="en">' not in page  # the budget too
    assert any("protected" in sentence for sentence in release.privacy.statement)  # English


def test_an_english_report_loads_no_catalogue():
    code = (
        "import sys, hushrank.flows.report.page, hushrank.flows.interfaces.cli.history_commands;"
        "assert not {'babel', 'hushrank.flows.report.languages'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_job_without_babel_is_refused_before_anything_is_spent(
    survey: Survey, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(extras, "is_installed", lambda extra: extra != "languages")
    survey.set(report={"language": "de"})
    rule = r"report.language: de.*pip install 'hushrank\[languages\]'"
    with pytest.raises(ConfigError, match=rule):
        check_places(load_config(survey.config))
    assert not survey.ledger.exists()


@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize("ends", [("up", "down"), ("harder than it was", "easier than it was")])
def test_what_changed_since_a_release_is_translated(language: Language, ends: tuple[str, str]):
    say = Translator(catalogue_of(language), frozenset({"Tea", "Ale", "Rum"}))
    for sentence in (
        f"Tea is clearly {ends[0]}. Every other change can be noise.",
        f"Tea and Ale are clearly {ends[0]}. Rum is clearly {ends[1]}.",
        "No change is larger than noise and chance explain.",
    ):
        said = say.translate(sentence)
        assert said is not None, sentence
        assert not ENGLISH_WORDS.search(said)
