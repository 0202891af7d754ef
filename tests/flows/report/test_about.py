"""What was asked, of whom and when: on the page, in release.json, and corrected at no cost."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

import hushrank as hr
from hushrank.flows.config.method import AboutConfig
from hushrank.flows.methods.registry import load_config
from hushrank.flows.planning.propose.names import about_lines
from hushrank.flows.release.release import Release
from hushrank.flows.report.page import NOT_THE_PUBLIC, SAMPLES, about_rows, made_rows, render_report
from hushrank.privacy.units import NoiseKind
from hushrank.verifier import verify_release
from tests.flows.conftest import ITEMS, SharedReducer, answers
from tests.flows.report.test_page import Page
from tests.releases import make_release, user_params

ABOUT = {
    "title": "Canteen <b>2026</b>",
    "question": "Which dish do you like better?",
    "who": "students & staff",
    "how_recruited": "by a link in the newsletter",
    "sample": "open",
    "dates": "4 to 18 May 2026",
    "contact": "survey@example.org",
}


def with_about(release: Release, **about: str) -> Release:
    return release.model_copy(update={"about": AboutConfig(**about)})


def test_the_page_says_all_that_is_stated_as_plain_text():
    html = render_report(with_about(make_release(), **ABOUT))
    words = Page(html).words()
    assert '<h1 translate="no">Canteen &lt;b&gt;2026&lt;/b&gt;</h1>' in html
    assert all(text in words for name, text in ABOUT.items() if name != "sample")
    assert NOT_THE_PUBLIC in words
    assert "campus-choice" in words
    assert "Not stated" not in words
    assert words.index("What epsilon means") < words.index("Epsilon 2"), "words come before codes"


@pytest.mark.parametrize("sample", [None, "drawn", "everybody", "open"])
def test_who_stands_for_whom_follows_from_the_sample(sample):
    said = dict(about_rows(with_about(make_release(), **({"sample": sample} if sample else {}))))
    assert (NOT_THE_PUBLIC in said["How they were chosen"]) == (sample in ("everybody", "open"))
    if sample is None:
        assert said["How they were chosen"] == SAMPLES[None]
        assert said["Not stated"] == "question, who was asked, how they were invited, when, contact"


def test_a_release_without_the_section_says_what_is_not_stated_and_keeps_its_file():
    release = make_release()
    assert "about" not in json.loads(release.to_json())
    assert SAMPLES[None] in Page(render_report(release)).words()


def test_words_for_epsilon_and_delta_are_true_numbers():
    release = make_release()
    said = dict(made_rows(release))
    sure = 100 * math.exp(release.privacy.epsilon) / (1 + math.exp(release.privacy.epsilon))
    assert f"at most {sure:.2f} % of the time" in said["What epsilon means"]
    assert "What delta means" not in said
    gaussian = make_release(params=user_params(noise=NoiseKind.GAUSSIAN, delta=1e-6))
    said = dict(made_rows(gaussian))
    assert said["What delta means"].endswith("exposed: 1 person in 1,000,000.")
    assert "random noise was added to the counts" in said["How it was made"]


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ({"titel": "x"}, "report.about.titel: unknown key. Did you mean title?"),
        ({"title": "x" * 201}, "report.about.title: must be at most 200 characters"),
        ({"who": " \n"}, "report.about.who: must not be empty"),
        ({"sample": "random"}, "report.about.sample: must be drawn, everybody or open"),
        ({"dates": 2026}, "report.about.dates: must be text"),
    ],
)
def test_a_mistake_in_the_section_is_explained(survey, command, about, said):
    survey.config.write_text(json.dumps({**survey.settings, "report": {"about": about}}))
    code, printed = command("validate", survey.config)
    assert code == 2
    assert said in " ".join(printed.split())


def test_texts_of_several_lines_become_one_line_and_hidden_characters_are_refused():
    assert AboutConfig(question="Which one?\nThis  or that?\n").question == (
        "Which one? This or that?"
    )
    with pytest.raises(ValueError, match="broken rules"):
        AboutConfig(who="a\x1b[1mb")


def test_a_correction_makes_no_new_job_spends_nothing_and_shows_on_a_page_drawn_again(
    survey, command
):
    survey.set(report={"about": ABOUT})
    assert command("run", survey.config, "--direct")[0] == 0
    release = json.loads((survey.output / "release.json").read_text())
    assert release["about"] == ABOUT
    folder = {path.name: path.read_bytes() for path in survey.output.iterdir() if path.is_file()}
    found = verify_release.verify(folder)
    assert found.good
    before, job = survey.ledger.read_bytes(), load_config(survey.config).job_hash()
    survey.set(report={"about": {**ABOUT, "who": "all students"}})
    assert load_config(survey.config).job_hash() == job
    code, said = command("run", survey.config, "--direct")
    assert code == 0
    assert "nothing was spent now" in said
    assert survey.ledger.read_bytes() == before
    page = survey.folder / "page.html"
    assert command("export", survey.config, "--out", page)[0] == 0
    assert "all students" in page.read_text()
    assert command("export", survey.output, "--out", page)[0] == 0
    assert "students &amp; staff" in page.read_text()
    assert json.loads((survey.output / "release.json").read_text()) == release


def test_the_verifier_wants_the_stated_texts_on_the_page(survey, command):
    survey.set(report={"about": ABOUT})
    assert command("run", survey.config, "--direct")[0] == 0
    files = {path.name: path.read_bytes() for path in survey.output.iterdir() if path.is_file()}
    release = json.loads(files["release.json"])
    for name, text in (("question", ABOUT["question"]), ("sample", SAMPLES["open"])):
        say = verify_release.Findings()
        page = files["report.html"].replace(text.encode(), b"something else")
        verify_release.check_report({**files, "report.html": page}, release, say)
        assert not say.good, name


def test_python_takes_the_section_as_a_keyword_and_documents_show_the_title(
    tmp_path: Path, monkeypatch
):
    monkeypatch.setattr("hushrank.flows.interfaces.python.run.Reducer", SharedReducer)
    job = {
        **{"left": "item_i", "right": "item_j", "outcome": "outcome", "user": "user"},
        **{"words": {"left": 1, "right": -1, "tie": 0}, "epsilon": 2.0, "max_contributions": 6},
        **{"items": {"names": ITEMS, "first_code": 0}, "design": "balanced"},
        **{"method": "noisy-counts", "ledger": tmp_path / "zoo.jsonl", "name": "zoo"},
    }
    first = hr.rank(answers(20), **job, about={"title": "Zoo", "sample": "drawn"})
    assert first.record.heading == "Zoo"
    again = hr.rank(answers(20), **job, about={"title": "The zoo"})
    assert (again.id, again.spent) == (first.id, None)


def test_init_writes_the_section_to_fill_in(survey):
    lines = [each.removeprefix("# ") for each in about_lines()][1:]
    assert all(each.startswith("#") for each in about_lines())
    settings = survey.config.read_text()
    survey.config.write_text(settings + "\n".join(lines) + "\n")
    about = load_config(survey.config).report.about
    assert about is not None
    assert about.sample == "open"
    assert None not in about.model_dump().values()
