"""How many people it takes to change the first place: in the release, on the page, verified."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from hushrank.flows.release.archive import load_release
from tests.flows.conftest import Survey, answers
from tests.flows.every_method import survey_of
from tests.flows.forgeries import Forger, published, run

BY = {"noisy-counts": "wins", "win-loss": "net-wins", "noisy-pairs": "majorities"}
LISTS = {"kemeny, user": "majorities", "borda, user": "borda", "footrule": "first-places"}


@pytest.fixture(params=BY)
def told(request: pytest.FixtureRequest, survey: Survey) -> tuple[Survey, str]:
    method = request.param
    survey.set(method=method, privacy__epsilon=5.0, input__design="balanced")
    run(survey)
    return survey, method


def test_a_release_says_how_many_people_its_first_place_takes(told, command):
    survey, method = told
    release = load_release(survey.output / "release.json")
    first = release.robustness[0]
    assert (first.by, first.first, first.kind) == (BY[method], "ants", "certificate")
    assert 2 <= first.replaced <= first.changed <= 200
    code, printed = command("run", survey.config, "--direct")
    assert code == 0
    words = f"at least {first.replaced} people would have to be replaced"
    assert words in " ".join(printed.split())
    assert words in " ".join((survey.output / "report.html").read_text().split())
    assert ("scores" in [each.by for each in release.robustness]) == (method == "noisy-pairs")


FORGED = [
    ("replaced", lambda n: n + 1),
    ("changed", lambda n: n + 2),
    ("noise_allowance", lambda q: q * 0.9),
    ("bound", lambda n: n - 1),
    ("first", "bees"),
    ("by", "borda"),
    ("kind", "estimate"),
]


def test_the_verifier_finds_a_first_place_that_is_less_certain(told):
    survey, _ = told
    honest = Forger.of(survey)
    assert not honest.wrong()
    for name, change in FORGED:
        forged = honest.copy().tell(f"robustness.0.{name}", change).with_digests()
        assert "robustness" in forged.wrong(), name
    twice = honest.copy().tell("robustness", lambda all_: [*all_, *all_]).with_digests()
    assert "robustness" in twice.wrong()


@pytest.mark.parametrize("name", LISTS)
def test_rankings_tell_it_too(name, tmp_path):
    found = published(name, tmp_path, privacy__epsilon=400.0, ledger__epsilon=900.0)
    first = found.document("release.json")["robustness"][0]
    assert (first["by"], first["kind"]) == (LISTS[name], "certificate")
    assert not found.wrong()
    more = found.tell("robustness.0.replaced", first["changed"] + 1).with_digests()
    assert "robustness" in more.wrong()


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        (
            "noisy-counts, gaussian",
            {"privacy__bounding": "weights", "privacy__distinct_pairs": True},
        ),
        ("debiased-rr", {}),
        ("perturbed-mle", {}),
        ("one-shot", {}),
    ],
)
def test_nothing_is_said_where_nobody_knows(name, changes, tmp_path):
    survey = survey_of(name, tmp_path)
    run(survey.set(privacy__epsilon=400.0, ledger__epsilon=900.0, **changes))
    assert load_release(survey.output / "release.json").robustness is None


def test_counts_of_all_groups_together_have_the_noise_of_each(survey):
    table = answers(200)
    teams = ["red", "blue", "grey"] * table.num_rows
    pq.write_table(
        table.append_column("team", [teams[: table.num_rows]]), survey.folder / "answers.parquet"
    )
    groups = {"column": "team", "values": ["red", "blue"]}
    for others, cells in (("set-aside", 2), ("whole", 3)):
        run(
            survey.set(
                method="noisy-counts",
                input__design="balanced",
                output=f"out-{cells}",
                groups={**groups, "others": others},
            )
        )
        release = load_release(survey.folder / f"out-{cells}" / "release.json")
        assert release.noise_variance == cells * release.privacy.noise_variance
        (_, of_group), *_ = release.boards()
        assert of_group.noise_variance == release.privacy.noise_variance
        assert not Forger.of(survey).wrong()
