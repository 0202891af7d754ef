"""What a ballot says of candidates that it does not list: from the file to the page."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import yaml

from hushrank.flows.run.job import prepare_job, read_survey
from hushrank.privacy.sensitivity import Sensitivity

METHODS = ("borda", "kemeny", "bradley-terry", "footrule")
BELOW = "Items that a ranking does not list count as below those it lists."
UNKNOWN = "Items that a ranking does not list are taken as unknown: it says nothing of them."
NAMES = ("Ada", "Bo", "Cy", "Di")
# Most voters rank one or two of four candidates; nobody lists Di, and Cy is last where listed.
BALLOTS = {"1,2,,": 120, "2,1,3,": 60, "1,,,": 60, ",1,2,": 40}


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs of this file are written, and write, beside the survey."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def ward():
    """Write a job on the ballots of a wide table; returns its file."""

    def write(ballots: dict[str, int] = BALLOTS, *, layout: str = "wide", **rows: object) -> Path:
        lines = [ballot for ballot, times in ballots.items() for _ in range(times)]
        Path("ward.csv").write_text("\n".join([",".join(NAMES), *lines]) + "\n")
        return write_job(Path("ward.csv"), list(NAMES), layout=layout, **rows)

    return write


def write_job(source: Path, items: object, method: str = "borda", **rows: object) -> Path:
    job = {
        "name": "ward",
        "input": {"kind": "rankings", "paths": [str(source)], **rows},
        "items": items if isinstance(items, dict) else {"names": items},
        "privacy": {
            "unit": "user",
            "epsilon": 20.0,
            "delta": 1e-6,
            "noise": "gaussian",
            "max_contributions": 1,
        },
        "method": method,
        "output": "out",
        "confidential": "work",
        "ledger": {"path": "ledger.jsonl", "epsilon": 500, "delta": 1e-5},
        "runner": "local",
    }
    path = Path(f"{method}.yaml")
    path.write_text(yaml.safe_dump(job))
    return path


def released(command, job: Path) -> dict:
    code, printed = command("run", job, "--direct")
    assert code == 0, printed
    return json.loads(Path("out/release.json").read_text())


def order(release: dict) -> list[str]:
    return [line["item"] for line in release["ranking"]]


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ({}, "the ranking is set aside"),
        ({"overvotes": "exhaust"}, "the ranking ends before them"),
        ({"ties": "random"}, "a secret coin puts them in order"),
    ],
)
def test_the_page_says_what_becomes_of_items_at_one_rank(command, ward, rule, told):
    """The verifier knows the rule of the settings, so that no other can stand there."""
    release = released(command, ward(unlisted="below", **rule))
    assert release["privacy"]["parameters"]["items_at_one_rank"] == told
    assert re.search(rf"Items at one rank\W.*?{told}", Path("out/report.html").read_text(), re.S)
    code, printed = command("verify", "out")
    assert code == 0, printed
    release["privacy"]["parameters"]["items_at_one_rank"] = "half a place each"
    Path("out/release.json").write_text(json.dumps(release))
    assert "parameters.items_at_one_rank is" in " ".join(command("verify", "out")[1].split())


@pytest.mark.parametrize("method", METHODS)
def test_candidates_whom_nobody_lists_are_below_and_the_page_says_so(command, ward, method):
    job = ward(unlisted="below")
    content = yaml.safe_load(job.read_text()) | {"method": method}
    job.write_text(yaml.safe_dump(content))
    release = released(command, job)
    assert order(release) == ["Ada", "Bo", "Cy", "Di"]
    assert BELOW in release["privacy"]["statement"]
    assert BELOW in Path("out/report.html").read_text()
    (draw,) = json.loads(Path("out/certificate.json").read_text())["draws"]
    assert draw["derivation"].endswith(".ranking_below_sensitivity")


def test_noise_is_calibrated_to_what_a_ballot_tells(ward):
    """Two of four items listed: five of six pairs are told; of two ballots four differ by 2."""
    job = ward(unlisted="below", max_length=2)
    job.write_text(yaml.safe_dump(yaml.safe_load(job.read_text()) | {"method": "kemeny"}))
    calibration = prepare_job(read_survey(job)).mechanism.calibration
    assert calibration.derivation == "ranking_below_sensitivity"
    assert calibration.sensitivity == Sensitivity(10, 18)
    job.write_text(job.read_text().replace("below", "unknown"))
    assert prepare_job(read_survey(job)).mechanism.calibration.sensitivity == Sensitivity(2, 2)


def test_scores_of_borda_are_those_of_completed_ballots(command, ward):
    release = released(command, ward(unlisted="below"))
    found = {line["item"]: line["score"] for line in release["ranking"]}
    # Half of the items below less those above; of ties the mean. By hand from BALLOTS.
    nets = {"Ada": 120 * 3 + 60 * 1 + 60 * 3 - 40 * 2, "Bo": 120 * 1 + 60 * 3 - 60 * 1 + 40 * 3}
    nets |= {"Cy": -120 * 2 - 60 * 1 - 60 * 1 + 40 * 1, "Di": -120 * 2 - 60 * 3 - 60 * 1 - 40 * 2}
    assert sum(nets.values()) == 0
    for name, net in nets.items():
        assert found[name] == pytest.approx(net / 2 / 280, abs=0.08)


def test_without_the_key_they_are_unknown_as_before_and_the_page_says_so(command, ward):
    release = released(command, ward())
    assert order(release).index("Di") < order(release).index("Cy")  # in the middle of a ballot
    assert UNKNOWN in release["privacy"]["statement"]
    assert UNKNOWN in Path("out/report.html").read_text()
    assert "below" not in json.dumps(release["privacy"]["parameters"])


@pytest.mark.parametrize(
    ("rows", "ballots", "best"),
    [
        ({"not_ranked": ["0", 99, "-"]}, {"1,2,0,0": 50, "1,2,99.0,-": 50, "2,1,3,4": 20}, "Ada"),
        ({"overvotes": "exhaust"}, {"2,1,3,3": 50, "1,2,2,": 120}, "Ada"),
        ({"skipped": "exhaust"}, {"1,2,,": 60, "3,1,,": 40, "2,4,1,": 10}, "Bo"),  # closed: Ada
    ],
)
def test_ballots_that_break_the_rules_count_as_the_keys_say(command, ward, rows, ballots, best):
    release = released(command, ward(ballots, unlisted="below", **rows))
    assert order(release)[0] == best
    assert order(release)[-1] in ("Cy", "Di")


PLACES = {"layout": "places", "columns": {"places": ["Rank 1", "Rank 2", "Rank 3"]}}
RECORD = {  # a cast vote record: what stands in it, and how often
    "Ada,Bo,": 60,
    "Bo,overvote,Cy": 30,  # ends before the overvote
    "Bo,Bo,Ada": 30,  # Bo, then Ada
    "undervote,Mickey,Minnie": 20,  # one write-in, at the first place
    ",,": 10,  # counts nowhere
}


def test_a_column_a_place_goes_from_the_file_to_a_verified_page(command, ward):
    """The scores are those of the same ballots in a column an item, written by hand."""
    rules = {
        **{"not_ranked": ["undervote"], "overvoted": ["overvote"], "overvotes": "exhaust"},
        **{"repeated": "first", "write_ins": "Di"},
    }
    job = ward({}, unlisted="below", **PLACES, **rules)
    lines = [line for line, times in RECORD.items() for _ in range(times)]
    Path("ward.csv").write_text("\n".join(["Rank 1,Rank 2,Rank 3", *lines]) + "\n")
    code, printed = command("validate", job)
    assert code == 0, printed
    assert "Rank 1 is the first place. Cells that name nobody: empty, NA, undervote; several:" in (
        " ".join(printed.split())
    )
    found = {line["item"]: line["score"] for line in released(command, job)["ranking"]}
    assert command("verify", "out")[0] == 0
    Path("out").rename("places")
    by_hand = {"1,2,,": 60, ",1,,": 30, "2,1,,": 30, ",,,1": 20}
    whole = {
        each["item"]: each["score"]
        for each in released(command, ward(by_hand, unlisted="below"))["ranking"]
    }
    assert found == pytest.approx(whole, abs=0.08)


@pytest.mark.parametrize(
    ("rows", "privacy", "said"),
    [
        ({"layout": "places"}, {}, "input.columns.places: missing; add for example"),
        ({"overvoted": ["overvote"]}, {}, "input.overvoted: is for layout: places"),
        (PLACES | {"overvotes": "exhaust"}, {}, "input.overvotes: no cell says so; add"),
        (PLACES | {"write_ins": "Eve"}, {}, "input.write_ins: Eve is not one of items"),
        (PLACES | {"not_ranked": ["Ada"]}, {}, "the word Ada also names item Ada"),
        (PLACES | {"not_ranked": [" ada"]}, {}, "ada also names item Ada"),  # cells in lower case
        (PLACES | {"not_ranked": ["00"]}, {}, "the word 00 also names item Ada"),  # as a number
        (PLACES | {"overvoted": ["2.0"]}, {}, "the word 2.0 also names item Cy"),
        (PLACES | {"names": ["Ada", "NA"]}, {}, "items: an item is named NA, which means an empty"),
        (PLACES | {"not_ranked": "x", "overvoted": " X"}, {}, "is one of not_ranked already"),
        (PLACES | {"ties": "random"}, {}, "nothing says which items are tied"),
        (
            PLACES | {"repeated": "first"},
            {"unit": "local", "mechanism": "mallows", "noise": 0, "delta": 0},
            "input.repeated: is for unit: user",
        ),
    ],
)
def test_places_that_do_not_fit_are_refused(command, ward, rows, privacy, said):
    names = rows.get("names", list(NAMES))
    job = ward(**{"layout": "long", **{key: rows[key] for key in rows.keys() - {"names"}}})
    content = yaml.safe_load(job.read_text()) | {"items": {"names": names}}
    content["privacy"] = {k: v for k, v in (content["privacy"] | privacy).items() if v}
    if privacy:
        content["method"] = "kemeny"
    job.write_text(yaml.safe_dump(content))
    code, printed = command("validate", job)
    assert code == 2
    assert said in " ".join(printed.split())


def test_the_keys_leave_the_job_of_a_file_without_them_as_it_was(command, ward):
    def of(job: Path) -> str:
        code, printed = command("validate", job)
        assert code == 0, printed
        return prepare_job(read_survey(job)).config.job_hash()

    before = of(ward())
    assert before == of(ward(unlisted="unknown", not_ranked=[], skipped="close"))
    for rows in ({"unlisted": "below"}, {"not_ranked": ["0"]}, {"overvotes": "exhaust"}):
        assert of(ward(**rows)) != before


@pytest.mark.parametrize(
    ("rows", "privacy", "said"),
    [
        ({"ties": "random", "overvotes": "exhaust"}, {}, "input.overvotes: decides nothing beside"),
        ({"layout": "list", "skipped": "exhaust"}, {}, "input.skipped: layout: list has no ranks"),
        ({"unlisted": "last"}, {}, "input.unlisted: "),
        (
            {"unlisted": "below"},
            {"unit": "local", "mechanism": "mallows", "noise": 0, "delta": 0},
            "input.unlisted: below is for unit: user; where nobody may see a ballot",
        ),
    ],
)
def test_keys_that_do_not_fit_are_refused_before_anything_is_read(
    command, ward, rows, privacy, said
):
    job = ward()
    content = yaml.safe_load(job.read_text())
    content["input"] |= rows
    content["privacy"] |= privacy
    content["privacy"] = {key: value for key, value in content["privacy"].items() if value}
    job.write_text(yaml.safe_dump(content))
    code, printed = command("run", job, "--direct")
    assert code == 2
    assert said in printed
    assert not Path("ledger.jsonl").exists()


def margins_of(path: Path) -> tuple[list[str], np.ndarray]:
    """Names, and how many ballots more put a above b, of a PrefLib file; unlisted below."""
    text = path.read_text()
    names = [name for _, name in re.findall(r"# ALTERNATIVE NAME (\d+): (.*)", text)]
    margins = np.zeros((len(names), len(names)), np.int64)
    for line in (line for line in text.splitlines() if line and line[0] != "#"):
        count, _, ballot = line.partition(":")
        place = np.full(len(names), len(names))
        listed = [int(item) - 1 for item in ballot.split(",")]
        place[listed] = np.arange(len(listed))
        margins += int(count) * np.sign(place - place[:, np.newaxis])
    return names, margins


@pytest.mark.parametrize(("case", "file"), [("09", "city.toi"), ("09c", "ward.soi")])
@pytest.mark.parametrize("method", ["borda", "kemeny"])
def test_real_elections_are_ranked_as_majorities_have_them(command, real_data, case, file, method):
    """Burlington 2009 and a ward of Glasgow: most ballots list three of six or eleven names."""
    source = real_data / "cases" / case / file
    if not source.is_file():
        pytest.skip(f"needs {source}, which is not part of the project")
    ballots = source.read_text().replace("{", "").replace("}", "")  # the few ties in order
    Path(file).write_text(ballots)
    names, margins = margins_of(Path(file))
    ties = "random" if file.endswith(".toi") else "refuse"
    job = write_job(Path(file), {"file": file}, method, ties=ties, unlisted="below")
    release = released(command, job)
    found = np.array([names.index(name) for name in order(release)])
    assert (margins[found[0]] >= -100).all()  # but for near ties, of some 9,000 ballots
    tau = np.mean([np.sign(margins[a, b]) for a, b in combinations(found, 2)])
    assert tau >= (0.95 if method == "kemeny" else 0.86)  # one pair of six names is .13


def test_rows_that_rank_nothing_vote_on_neither_side_of_a_pilot_query(command, tmp_path):
    """Beside a row that is rejected, and in batches without one."""
    rows = [(voter, name, place) for voter in range(200) for place, name in enumerate(NAMES[:3])]
    lines = [f"{voter},{name},{place}" for voter, name, place in rows]
    for broken in ([], ["200,Nobody,1"]):
        folder = tmp_path / f"{len(broken)}"
        folder.mkdir()
        Path(folder / "ward.csv").write_text("\n".join(["u,i,r", *lines, *broken]) + "\n")
        settings = yaml.safe_load(
            write_job(
                folder / "ward.csv",
                list(NAMES),
                layout="long",
                columns={"user": "u", "item": "i", "rank": "r"},
                not_ranked=["0"],
            ).read_text()
        )
        settings["privacy"]["look"] = {"share": 0.05, "people": 200}
        job = folder / "survey.yaml"
        job.write_text(yaml.safe_dump(settings))
        code, printed = command("run", job, "--direct")
        assert code == 0, printed
