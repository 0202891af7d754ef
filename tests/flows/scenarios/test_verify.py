"""`hushrank verify`: honest releases pass, and every planted falsification is named."""

from __future__ import annotations

import gzip
import html
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from hushrank.transforms.storage.places import CloudPath
from hushrank.verifier import verify_release as verifier
from tests.fake_cloud_storage import fake_cloud_storage
from tests.flows.conftest import Survey
from tests.flows.every_method import survey_of
from tests.flows.forgeries import Edit, Forger, night_log, part, published, run

FIRST = date(2026, 11, 1)
STREAM = {
    "nights": 6,
    "participations": 2,
    "gap": 2,
    "show": {"window": 3},
    "first": str(FIRST),
}
COUNTS, RHO, LOOK = "noisy-counts", "noisy-counts, rho", "noisy-counts, look"
SCORES, EFFECTS = "perturbed-mle, exposures", "perturbed-mle, covariates"
GAUSSIAN, FLIPS, BALLOTS = "noisy-objective", "spectral-rr", "kemeny"
PAIRS, NIGHT, LAPLACE = "kemeny, random-pairs", "stream", "laplace-rr"
ZOO = [COUNTS, RHO, LOOK, SCORES, EFFECTS, GAUSSIAN, FLIPS, BALLOTS, PAIRS, LAPLACE]


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Forger]:
    """An honest release of each kind; that of counts is the second of its ledger."""
    made = {}
    for name in ZOO:
        folder = tmp_path_factory.mktemp("zoo") / "job"
        if name == COUNTS:
            made["earlier"] = published(name, folder, privacy__epsilon=16.0)
            made[name] = published(name, folder, privacy__epsilon=8.0, output="again")
        else:
            made[name] = published(name, folder)
    folder = tmp_path_factory.mktemp("zoo") / "job"
    survey = survey_of(RHO, folder).set(
        input__paths=["log-{date}.parquet"], schedule={"stream": STREAM}
    )
    for number in range(2):
        day = str(FIRST + timedelta(days=number))
        night_log(folder, day)
        run(survey, "--date", day)
    made[NIGHT] = Forger.of(survey)
    return made


@pytest.mark.parametrize("name", [*ZOO, "earlier", NIGHT])
def test_an_honest_release_passes(zoo, name):
    found = zoo[name].copy().found()
    assert found.good, zoo[name].wrong()
    told = "\n".join(text for kind, text in found.lines if kind == "open")
    assert "That the random bits came from the operating system" in told
    assert zoo[name].copy().with_digests().found().good  # the forger's tools spoil nothing


def swap_items(forger: Forger) -> None:
    first, second = (forger.document("release.json")["ranking"][i]["item"] for i in (0, 1))
    forger.tell("ranking.0.item", second).tell("ranking.1.item", first)


def without(index: int) -> Edit:
    """Hide a draw."""
    return lambda f: f.certify("draws", lambda draws: draws[:index] + draws[index + 1 :])


def set_both(path: str, told: str, claimed: object, said: object | None = None) -> Edit:
    """Change the certificate and release.json alike."""
    return lambda f: f.certify(path, claimed).tell(told, claimed if said is None else said)


def edit_a_line(forger: Forger) -> None:
    forger.lines(
        lambda lines: [lines[0].replace(b'"epsilon":100.0', b'"epsilon":900.0'), *lines[1:]]
    )


D = "draws.0."
# Name, release, what the forger does, and what the verifier has to say of it.
FORGERIES: list[tuple[str, str, Edit, str]] = [
    ("scale halved", COUNTS, lambda f: f.certify(D + "law.scale", part("1/2")), "it is too small"),
    (
        "scale halved everywhere",
        COUNTS,
        lambda f: f.certify(D + "law.scale", part("1/2")).tell("privacy.noise_scale", 0.5),
        "the noise costs epsilon 16, more than 8",
    ),
    (
        "scale halved of gaussian noise",
        RHO,
        lambda f: f.certify(D + "law.scale", part("1/2")),
        "the noise costs rho 1.2, more than 0.3",
    ),
    (
        "epsilon in the certificate",
        COUNTS,
        lambda f: f.certify("guarantee.epsilon", "1/2"),
        "epsilon",
    ),
    (
        "epsilon in release.json",
        COUNTS,
        lambda f: f.tell("privacy.epsilon", 0.5),
        "epsilon: the cert",
    ),
    (
        "epsilon everywhere",
        COUNTS,
        set_both("guarantee.epsilon", "privacy.epsilon", "1/2", 0.5),
        "the draws cost more than epsilon",
    ),
    (
        "epsilon and its cost everywhere",
        COUNTS,
        lambda f: set_both("guarantee.epsilon", "privacy.epsilon", "1/2", 0.5)(
            f.certify(D + "cost.epsilon", "1/2").certify("guarantee.charged.epsilon", "1/2")
        ),
        "the noise costs epsilon 8, more than 0.5",
    ),
    (
        "delta in release.json",
        RHO,
        lambda f: f.tell("privacy.delta", 1e-9),
        "delta: the certificate",
    ),
    (
        "delta everywhere",
        RHO,
        set_both("guarantee.delta", "privacy.delta", "1/1000000000", 1e-9),
        "the draws cost more than epsilon, delta",
    ),
    (
        "rho everywhere",
        RHO,
        set_both("guarantee.rho", "privacy.rho", "1/5", 0.2),
        "the noise gives rho",
    ),
    (
        "adjacency in the certificate",
        COUNTS,
        lambda f: f.certify("guarantee.adjacency", "add-remove"),
        "adjacency: the certificate says add-remove, release.json replace-one",
    ),
    (
        "adjacency everywhere",
        COUNTS,
        set_both("guarantee.adjacency", "privacy.adjacency", "add-remove"),
        "the ledger counts by another adjacency",
    ),
    (
        "adjacency and sensitivity everywhere",
        COUNTS,
        lambda f: set_both("guarantee.adjacency", "privacy.adjacency", "replace-one")(
            f.certify(D + "inputs.sides", 1)
        ),
        "starts from sides = 1",
    ),
    ("unit", COUNTS, lambda f: f.certify("guarantee.unit", "comparison"), "unit: the certificate"),
    (
        "unit everywhere",
        COUNTS,
        lambda f: set_both("guarantee.unit", "privacy.unit", "comparison")(
            f.certify("ledger.unit", "comparison")
        ),
        "sensitivity of wins of each item",
    ),
    (
        "L in the certificate",
        COUNTS,
        lambda f: f.certify("domain.bounds.max_contributions", 2),
        "max_contributions: the certificate says 2, release.json 4",
    ),
    (
        "L everywhere but in the draw",
        COUNTS,
        set_both("domain.bounds.max_contributions", "privacy.max_contributions", 3),
        "starts from L = 4, and the bounds of the certificate and what is published say 3",
    ),
    (
        "L everywhere",
        COUNTS,
        lambda f: set_both("domain.bounds.max_contributions", "privacy.max_contributions", 8)(
            f.certify(D + "inputs.L", 8).certify(D + "inputs.c", 8)
        ),
        "l1 = 16, l2^2 = 128, and the certificate says 8 and 32",
    ),
    (
        "a cap that was not enforced",
        COUNTS,
        lambda f: f.certify("domain.bounds.per_item_cap", 1),
        "per_item_cap",
    ),
    (
        "distinct pairs, everywhere",
        COUNTS,
        lambda f: set_both("domain.bounds.distinct_pairs", "privacy.distinct_pairs", True)(
            f.certify(D + "inputs.distinct", 1)
        ),
        "the certificate says 8 and 32",
    ),
    (
        "sensitivity and scale halved everywhere",
        COUNTS,
        lambda f: (
            f.certify(D + "sensitivity.l1", 4)
            .certify(D + "law.scale", part("1/2"))
            .tell("privacy.sensitivity_l1", 4)
            .tell("privacy.noise_scale", 0.5)
        ),
        "l1 = 8, l2^2 = 32, and the certificate says 4",
    ),
    (
        "derivation swapped",
        COUNTS,
        lambda f: f.certify(D + "derivation", "hushrank.privacy.pilot_query.votes_sensitivity"),
        "the certificate has votes_sensitivity",
    ),
    (
        "derivation of other counts",
        COUNTS,
        lambda f: f.certify(
            D + "derivation", "hushrank.privacy.sensitivity.tie_counts_sensitivity"
        ),
        "win-counts are drawn by win_counts_sensitivity",
    ),
    ("score in release.json", COUNTS, lambda f: f.tell("ranking.0.score", 55.5), "do not follow"),
    (
        "score of a fit",
        SCORES,
        lambda f: f.tell("ranking.0.score", -99.0),
        "lines are not in the order of their scores",
    ),
    (
        "score in ranking.csv",
        COUNTS,
        lambda f: f.replace(
            "ranking.csv", f"{f.document('release.json')['ranking'][0]['score']:.6f}", "12.345678"
        ),
        "ranking.csv differs from release.json: score of",
    ),
    (
        "interval in ranking.csv",
        COUNTS,
        lambda f: f.replace(
            "ranking.csv", f"{f.document('release.json')['ranking'][0]['low']:.6f}", "12.345678"
        ),
        "ranking.csv differs from release.json: low of",
    ),
    (
        "score in the report",
        COUNTS,
        lambda f: f.replace("report.html", 'class="number"><b>', 'class="number"><b>9'),
        "report.html shows other numbers",
    ),
    (
        "epsilon in the report",
        COUNTS,
        lambda f: f.replace("report.html", "<dd>8</dd>", "<dd>0.1</dd>"),
        "report.html does not say: Epsilon 8",
    ),
    (
        "noise scale in the report",
        COUNTS,
        lambda f: f.replace(
            "report.html", '">Noise scale</th><td>1</td>', '">Noise scale</th><td>80</td>'
        ),
        "Noise scale 80",
    ),
    ("items swapped", COUNTS, swap_items, "do not follow from what was drawn"),
    (
        "an item renamed",
        COUNTS,
        lambda f: f.tell("ranking.0.item", "eels"),
        "has not one number for each item",
    ),
    (
        "a promise that was not made",
        COUNTS,
        lambda f: f.tell("privacy.statement.0", "Nobody can learn anything at all."),
        "statement: the certificate says",
    ),
    (
        "a promise that was not made, everywhere",
        COUNTS,
        set_both("guarantee.statement", "privacy.statement", ["Nobody learns anything at all."]),
        "report.html does not say: Nobody learns",
    ),
    ("random bits", COUNTS, lambda f: f.certify("bits.noise", ["system"]), "random bits"),
    ("called safe", COUNTS, lambda f: f.tell("safe", False), "safe: the certificate says True"),
    ("a look is hidden", LOOK, without(0), "drawn by votes_sensitivity (2), win_counts"),
    (
        "the noise of exposures is hidden",
        SCORES,
        without(1),
        "drawn by exposures_sensitivity (4), gradient",
    ),
    ("what effects cost is hidden", EFFECTS, without(2), "calibrate_covariate_mle"),
    (
        "the noise in the optimisation halved",
        SCORES,
        lambda f: f.certify(D + "scale", part("1/2")).certify(D + "laws.0.scale", part("1/2")),
        "it is too small",
    ),
    (
        "gaussian noise in the optimisation a tenth less",
        GAUSSIAN,
        lambda f: f.certify(D + "scale", part("9/10")).certify(D + "laws.0.scale", part("9/10")),
        "too small for its epsilon and delta",
    ),
    (
        "noise drawn at another scale than claimed",
        SCORES,
        lambda f: f.certify(D + "laws.0.scale", part("1/2")),
        "drawn at a smaller scale",
    ),
    (
        "the loss is flatter than it is",
        SCORES,
        lambda f: f.certify(D + "loss.slope", "1/2"),
        "has other bounds than the certificate says",
    ),
    (
        "the penalty is larger than it was",
        SCORES,
        lambda f: f.certify(D + "ridge", part("100/1")),
        "gamma: the certificate",
    ),
    (
        "minimisers nearer than rounding leaves them",
        SCORES,
        lambda f: f.certify(D + "cover.apart", 5),
        "further apart than the certificate says",
    ),
    (
        "the cover of the last digits a tenth less",
        EFFECTS,
        lambda f: f.certify(D + "cover.law.scale", part("9/10")),
        "it is too small",
    ),
    (
        "thresholds of another epsilon",
        FLIPS,
        lambda f: f.certify(D + "thresholds.1.threshold", lambda t: t - t // 50),
        "costs",
    ),
    (
        "threshold of an answer left out",
        FLIPS,
        lambda f: f.certify(D + "thresholds", lambda all_: all_[:-1]),
        "the thresholds are not those of 1, 2",
    ),
    (
        "a Mallows weight",
        BALLOTS,
        lambda f: f.certify(D + "tables.0.weights.3", lambda weight: weight - weight // 100),
        "differ by more than epsilon / (m - 1)",
    ),
    (
        "Mallows weights that rise",
        BALLOTS,
        lambda f: f.certify(D + "tables.0.weights.1", lambda weight: weight * 9),
        "the weights of an insertion must fall",
    ),
    (
        "fewer rankings of a person than count",
        BALLOTS,
        lambda f: f.certify(D + "most_rankings", 3),
        "more than",
    ),
    (
        "the threshold of an answer about a pair",
        PAIRS,
        lambda f: f.certify(D + "threshold", lambda t: t // 2),
        "costs more than epsilon / pairs",
    ),
    (
        "local noise under another name",
        PAIRS,
        lambda f: f.tell("privacy.mechanism", "mallows"),
        "are drawn by mallows, and the certificate has random-pairs",
    ),
    (
        "fewer nights of a person",
        NIGHT,
        set_both("domain.stream.participations", "stream.participations", 1),
        "starts from participations = 2, and the bounds of the certificate and what is published",
    ),
    (
        "nights further apart",
        NIGHT,
        lambda f: f.certify("domain.stream.gap", 5),
        "gap of the stream: the certificate says 5, release.json 2",
    ),
    (
        "the encoder of a stream",
        NIGHT,
        lambda f: f.certify(D + "inputs.coefficients.1", 1).tell("stream.coefficients.1", 1),
        "other coefficients than the square root",
    ),
    (
        "another stream pays",
        NIGHT,
        set_both("domain.stream.stream", "stream.stream", "0123456789abcdef"),
        "pays for this release is another one",
    ),
    (
        "the total of the period",
        COUNTS,
        lambda f: f.certify("ledger.period.epsilon", "20/1"),
        "the period costs more than the stated total of epsilon 20",
    ),
    (
        "the sum of the period",
        COUNTS,
        lambda f: f.certify("ledger.period.sum.epsilon", "1/1"),
        "the costs of the period add up to",
    ),
    (
        "costs of the period left out",
        COUNTS,
        lambda f: (
            f.certify("ledger.period.spends", lambda spends: spends[1:])
            .certify("ledger.period.sum.epsilon", "1/1")
            .certify("ledger.period.epsilon", "1/1")
        ),
        "the total of the period counts other costs than the ledger has",
    ),
    (
        "costs of earlier periods left out",
        COUNTS,
        lambda f: f.certify("ledger.lifetime.spends.0.times", 7),
        "the total of all periods counts other costs",
    ),
    (
        "another budget",
        COUNTS,
        lambda f: f.certify("ledger.budget.epsilon", "1000/1"),
        "the ledger had another budget",
    ),
    (
        "another period",
        COUNTS,
        lambda f: f.certify("ledger.period_start", "2026-01-01T00:00:00Z"),
        "the period of the release is another one",
    ),
    (
        "another place in the ledger",
        COUNTS,
        lambda f: f.certify("ledger.entry.line", 2),
        "is not the reservation of this release",
    ),
    (
        "charged with less",
        COUNTS,
        lambda f: f.certify("guarantee.charged.epsilon", "1/100"),
        "charged with another cost",
    ),
    ("a line of the ledger edited", COUNTS, edit_a_line, "line"),
    (
        "a line of the ledger removed",
        COUNTS,
        lambda f: f.lines(lambda lines: lines[:1] + lines[2:]),
        "line",
    ),
    (
        "lines of the ledger moved",
        COUNTS,
        lambda f: f.lines(lambda lines: [lines[0], lines[2], lines[1], *lines[3:]]),
        "line",
    ),
    (
        "an older copy of the ledger put back",
        COUNTS,
        lambda f: f.lines(lambda lines: lines[:4]),
        "an older copy was put back",
    ),
    (
        "the ledger of before the draw put back",
        COUNTS,
        lambda f: f.lines(lambda lines: lines[:5]),
        "does not record that this release was drawn",
    ),
    (
        "drawn twice for one reservation",
        COUNTS,
        lambda f: f.lines(lambda lines: [*lines, lines[5]]).with_hashes(),
        "cannot follow the lines above it",
    ),
]


@pytest.mark.parametrize("careful", [False, True], ids=["careless", "with digests"])
@pytest.mark.parametrize(
    ("release", "edit", "words"), [row[1:] for row in FORGERIES], ids=[row[0] for row in FORGERIES]
)
def test_a_forged_release_is_found(zoo, release, edit, words, careful):
    honest = zoo[release]
    forged = honest.copy()
    edit(forged)
    assert forged != honest
    if careful:
        forged.with_digests()
        if forged.ledger != honest.ledger:
            forged.with_hashes()
    wrong = forged.wrong()
    assert words in wrong
    edited = [
        n
        for n in ("release.json", "ranking.csv", "report.html")
        if forged.files[n] != honest.files[n]
    ]
    for name in () if careful else edited:
        assert f"{name} is not the file of the certificate" in wrong
    if careful:
        assert "SHA-256" not in wrong


def say_otherwise(forger: Forger, sentence: int, old: str, new: str) -> None:
    """Change a sentence of the guarantee wherever it stands."""
    before = forger.document("release.json")["privacy"]["statement"][sentence]
    after = before.replace(old, new)
    forger.replace("report.html", html.escape(before, quote=False), after)
    set_both(f"guarantee.statement.{sentence}", f"privacy.statement.{sentence}", after)(forger)


def table(change: Callable[[list[str]], list[str]]) -> Edit:
    """Change the lines of ranking.csv."""

    def edit(forger: Forger) -> None:
        lines = change(forger.files["ranking.csv"].decode().splitlines())
        forger.files["ranking.csv"] = "".join(f"{line}\n" for line in lines).encode()

    return edit


def recode(name: str, coded: Callable[[bytes], bytes]) -> Edit:
    """Write a file in another way."""
    return lambda f: f.files.update({name: coded(f.files[name])})


def smaller_steps(forger: Forger) -> None:
    """Noise of 1 is called noise of 1000 in steps of 1/1000: a thousandth of the cost."""
    forger.certify(D + "law.scale", part("1000")).certify(D + "law.step", "1/1000")


def no_bound(forger: Forger) -> None:
    """Nothing bounds a person's rows, and the sensitivity is that of one."""
    set_both("domain.bounds.max_contributions", "privacy.max_contributions", None)(forger)
    forger.certify(D + "inputs.L", 1).certify(D + "inputs.c", 1)
    for norm in ("l1", "l2_squared"):
        forger.certify(D + f"sensitivity.{norm}", 2).tell(f"privacy.sensitivity_{norm}", 2)


def another_unit(forger: Forger) -> None:
    """A unit that nobody knows, of which one row counts."""
    no_bound(forger)
    set_both("guarantee.unit", "privacy.unit", "person")(forger)
    forger.certify("ledger.unit", "person")


def cheaper_total(forger: Forger) -> None:
    """The total at a delta of one half: Gaussian noise costs little there."""
    for total in ("ledger.period", "ledger.lifetime"):
        forger.certify(f"{total}.delta", "1/2").certify(f"{total}.epsilon", "1/10")


def one_answer_less(forger: Forger) -> None:
    forger.certify(D + "most_answers", 3).certify(D + "thresholds", lambda all_: all_[:3])


# Name, release, edit, what has to be said. All digests are computed anew: these passed once.
ATTACKS: list[tuple[str, str, Edit, str]] = [
    ("steps that are smaller", COUNTS, smaller_steps, "is in steps of 1/1000, and its counts not"),
    ("answers on a finer grid", LAPLACE, lambda f: f.certify(D + "grid", 1), "in 1024 steps"),
    ("no bound on a person", COUNTS, no_bound, "nothing bounds the rows of a person"),
    ("a unit that nobody knows", COUNTS, another_unit, "unit is person, of which nobody knows"),
    ("a bound of zero", COUNTS, lambda f: f.certify("domain.bounds.max_contributions", 0), "is 0"),
    ("fewer answers than count", FLIPS, one_answer_less, "3 of a person count in the draw, and 4"),
    ("negative answers", FLIPS, lambda f: f.certify(D + "most_answers", -4), "most_answers is -4"),
    ("shorter rankings", BALLOTS, lambda f: f.certify(D + "longest", 3), "has 4 items, and in"),
    (
        "pairs that were not counted",
        PAIRS,
        lambda f: f.tell("privacy.parameters.pairs_answered", 2),
        "2 pairs of a ranking are answered, and 1 in the draw",
    ),
    (
        "a cover of fewer values",
        EFFECTS,
        lambda f: f.certify(D + "cover.values", 1),
        "of another number of values than are released",
    ),
    ("another noise law", RHO, lambda f: f.certify(D + "law.kind", "laplace"), "of another law"),
    (
        "a noise law renamed",
        RHO,
        lambda f: f.certify(D + "law.kind", "laplace").certify(D + "mechanism", "discrete-laplace"),
        "mechanism: the certificate says discrete-laplace, release.json discrete-gaussian",
    ),
    (
        "delta 0 of gaussian noise",
        RHO,
        set_both("guarantee.delta", "privacy.delta", "0/1", 0.0),
        "the draws cost more",
    ),
    (
        "epsilon in the words alone",
        COUNTS,
        lambda f: say_otherwise(f, 1, "epsilon = 8", "epsilon = 0.1"),
        "(e^epsilon, epsilon = 8).'",
    ),
    (
        "seeded, and called safe",
        COUNTS,
        set_both("bits.noise", "privacy.bits.noise", ["seeded"]),
        "called safe, and its random bits",
    ),
    ("public facts left out", COUNTS, lambda f: f.certify("public_facts", []), "how many people"),
    (
        "errata left out",
        COUNTS,
        lambda f: f.certify("errata", []),
        "errata: the certificate says []",
    ),
    (
        "a part that is no part",
        COUNTS,
        lambda f: f.set("certificate.json", "approved_by", "us"),
        "certificate.json.approved_by: format 1 has no such field",
    ),
    ("the total at another delta", RHO, cheaper_total, "or at another delta"),
    (
        "no ledger",
        COUNTS,
        lambda f: f.certify("ledger", None),
        "the certificate names no line of a ledger",
    ),
    (
        "another day",
        COUNTS,
        set_both("release.created", "created", "2025-01-01T00:00:00Z"),
        "by the ledger the release was drawn until",
    ),
    (
        "another job",
        COUNTS,
        set_both("release.job", "job", "0" * 64),
        "is not the reservation of this",
    ),
    (
        "another population",
        COUNTS,
        set_both("release.population", "name", "others"),
        "is not the reservation",
    ),
    ("another mechanism", COUNTS, lambda f: f.tell("privacy.mechanism", "exact"), "mechanism: the"),
    (
        "a column twice",
        COUNTS,
        table(
            lambda lines: [f"{'score' if i == 0 else 99},{line}" for i, line in enumerate(lines)]
        ),
        "a column stands twice",
    ),
    (
        "a column more",
        COUNTS,
        table(
            lambda lines: [f"{line},{'truth' if i == 0 else 99}" for i, line in enumerate(lines)]
        ),
        "column truth",
    ),
    ("columns left out", COUNTS, table(lambda lines: ["item", "bees"]), "no column score"),
    (
        "cells without a column",
        COUNTS,
        table(lambda lines: [lines[0], *(f"{line},9" for line in lines[1:])]),
        "another number of cells",
    ),
    (
        "an effect in its table",
        EFFECTS,
        lambda f: f.replace("effects.csv", "\nplace,", "\nPlace,"),
        "effects.csv differs from release.json: effect of",
    ),
    ("an effect left out", EFFECTS, lambda f: f.tell("effects", lambda all_: all_[:1]), "effects"),
    (
        "items that were not drawn",
        COUNTS,
        lambda f: f.tell("released.wins.eels", 3),
        "released.wins has not one number for each item",
    ),
    (
        "a number that is none",
        COUNTS,
        lambda f: f.replace("release.json", '"delta": 0.0', '"delta": NaN'),
        "NaN is no number",
    ),
    (
        "a number beyond all",
        COUNTS,
        lambda f: f.replace("release.json", '"delta": 0.0', '"delta": 1e999'),
        "1e999 is no number",
    ),
    (
        "a number over zero",
        COUNTS,
        lambda f: f.certify(D + "law.scale", "1/0"),
        "ZeroDivisionError",
    ),
    (
        "an infinite scale",
        COUNTS,
        lambda f: f.certify(D + "law.scale", "inf"),
        "'inf' is not a whole number",
    ),
    (
        "a negative scale",
        LAPLACE,
        lambda f: f.certify(D + "laws.0.scale", "-512/1"),
        "'-512/1' is not a whole number",
    ),
    (
        "a float",
        COUNTS,
        lambda f: f.certify(D + "sensitivity.l1", 8.0),
        "l1 is 8.0: numbers are whole",
    ),
    (
        "a thousand million items",
        COUNTS,
        lambda f: f.certify("domain.items", 10**9),
        "number of items: 1000000000, and release.json ranks 4",
    ),
    (
        "costs without end",
        COUNTS,
        lambda f: f.certify("ledger.period.spends.0.times", 10**12),
        "more than anybody has",
    ),
    (
        "a scale of a milliard digits",
        COUNTS,
        lambda f: f.tell("privacy.noise_scale", "1e9999999999"),
        "noise_scale is not of the form number",
    ),
    (
        "a scale of exposures of a milliard digits",
        SCORES,
        lambda f: f.tell("privacy.parameters.exposures_noise_scale", "1e9999999999"),
        "noise_scale is not of the form number",
    ),
    (
        "bands without end",
        NIGHT,
        lambda f: f.certify(D + "inputs.coefficients", [1] * 10**5),
        "more bands than nights lie between",
    ),
    ("a packed release.json", COUNTS, recode("release.json", gzip.compress), "is no JSON object"),
    (
        "release.json in UTF-16",
        COUNTS,
        recode("release.json", lambda text: text.decode().encode("utf-16")),
        "is no JSON object",
    ),
    (
        "ranking.csv in latin-1",
        COUNTS,
        recode("ranking.csv", lambda text: text + "\xe9".encode("latin-1")),
        "ranking.csv: cannot be read",
    ),
    (
        "a file outside of the folder",
        COUNTS,
        lambda f: f.certify(
            "files", {**f.document("certificate.json")["files"], "../../etc/passwd": "0" * 64}
        ),
        "../../etc/passwd is missing",
    ),
]


@pytest.mark.parametrize(
    ("release", "edit", "words"), [row[1:] for row in ATTACKS], ids=[row[0] for row in ATTACKS]
)
def test_an_attack_with_all_digests_computed_anew_is_found(zoo, release, edit, words):
    forged = zoo[release].copy()
    edit(forged)
    assert forged.files != zoo[release].files
    with suppress(ValueError, KeyError):  # of files that no longer are what they were
        forged.with_digests()
    assert words in forged.wrong()


def test_a_draw_is_charged_by_the_law_that_its_derivation_needs(zoo):
    """Noise in an optimisation, charged for one night, in the place of a stream's counts."""
    night, scores = zoo[NIGHT], zoo[SCORES]
    own, other = (each.document("certificate.json")["draws"][0] for each in (night, scores))
    told = [night.document(name) for name in ("certificate.json", "release.json")]
    draw = other | {"derivation": own["derivation"]}
    forged = night.copy().certify("draws", [draw]).with_digests()
    assert "scores: objective-perturbation-laplace has another derivation" in forged.wrong()
    with pytest.raises(verifier.Wrong, match="has another derivation than it says"):
        verifier.loss_of(draw, *told)
    with pytest.raises(verifier.Wrong, match="has another derivation than it says"):
        verifier.loss_of(own | {"derivation": "x.gradient_sensitivity"}, *told)


def test_local_kinds_are_drawn_by_local_laws_alone(zoo):
    """By name: no derivation of counts is a law of answers."""
    forged = zoo[PAIRS].copy().tell("privacy.mechanism", "one_shot_sensitivity")
    forged.certify(D + "mechanism", "discrete-laplace").certify(
        D + "derivation", "x.one_shot_sensitivity"
    )
    documents = (forged.document(f"{name}.json") for name in ("certificate", "release"))
    say = verifier.Findings()
    verifier.check_paid_for(*documents, say)
    assert any("private-pairs are drawn by one_shot_sensitivity, and" in x for _, x in say.lines)
    assert "draws.0.hide: format 1 has no such field" in forged.wrong()


def narrower(forger: Forger) -> None:
    """An interval ends elsewhere, in every file."""
    low = forger.document("release.json")["ranking"][0]["low"]
    forger.tell("ranking.0.low", low + 0.001)
    for name in ("ranking.csv", "report.html"):
        forger.replace(name, f"{low:.6f}", f"{low + 0.001:.6f}")


# What no file can show, and what the verifier says of it each time.
UNPROVABLE: list[tuple[str, Edit, str]] = [
    ("intervals", narrower, "intervals, ranks and chances follow from what was drawn"),
    (
        "words of the page",
        lambda f: f.replace("report.html", "</body>", "<p>ISO certified</p></body>"),
        "its other words",
    ),
    (
        "a file",
        lambda f: f.files.update({"truth.csv": b"ants"}),
        "truth.csv: it lies beside the release",
    ),
    (
        "what is not proved",
        lambda f: f.certify("not_proved", []),
        "That exact counts and rows were seen by nobody",
    ),
]


@pytest.mark.parametrize(
    ("edit", "words"), [row[1:] for row in UNPROVABLE], ids=[row[0] for row in UNPROVABLE]
)
def test_what_cannot_be_proved_is_said_each_time(zoo, edit, words):
    """The forger makes everything anew, which only a signature or an anchor could show."""
    forged = zoo[COUNTS].copy()
    edit(forged)
    found = forged.with_digests().found()
    assert found.good, forged.wrong()
    told = "\n".join(text for kind, text in found.lines if kind == "open")
    assert words in told
    assert "nobody signed this: whoever can write the files" in told


def test_other_populations_on_the_same_input_are_counted(tmp_path):
    """Left out of the certificate, or with costs that the ledger does not have."""
    survey = survey_of(COUNTS, tmp_path / "job")
    run(survey)
    run(survey.set(name="others", output="second", ledger__other_people=["zoo"]))
    honest = Forger.of(survey)
    assert honest.found().good, honest.wrong()
    ((own,),) = (honest.document("certificate.json")["ledger"]["same_input"],)
    assert own["population"] == "zoo"
    for path, value, words in (
        (
            "ledger.same_input",
            [],
            "1 other populations had read the same input, and the certificate",
        ),
        ("ledger.same_input.0.population", "zoos", "had read the same input"),
        ("ledger.same_input.0.period.spends.0.times", 2, "the total of zoo counts other costs"),
        ("ledger.same_input.0.stated_by", "nobody", "another statement that the people of zoo"),
        ("ledger.same_input.0.stated_at", "2026-01-01T00:00:00Z", "another statement that"),
        ("ledger.same_input.0.stated_other_people", False, "another statement that the people"),
        ("ledger.together.spends.0.times", 1, "read the input add up to 2, 0, 0"),
        ("ledger.together.delta", "1/2", "read the input is not that of their totals"),
    ):
        assert words in honest.copy().certify(path, value).with_digests().wrong()


def test_a_statement_that_people_are_others_is_told_and_what_they_lost_if_it_is_false(tmp_path):
    """With a ledger and without, and of a certificate of before such a statement was in it."""
    survey = survey_of(COUNTS, tmp_path / "job")
    run(survey)
    run(survey.set(name="others", output="second", ledger__other_people=["zoo"]))
    new = Forger.of(survey)
    part = new.document("certificate.json")["ledger"]
    who, day = part["same_input"][0]["stated_by"], part["same_input"][0]["stated_at"][:10]
    fields = ("stated_by", "stated_at", "together")
    (other,) = ({k: v for k, v in each.items() if k not in fields} for each in part["same_input"])
    before = {k: v for k, v in part.items() if k not in fields} | {"same_input": [other]}
    old = new.copy().certify("ledger", before).with_digests()
    told = "{} stated{} that the people of zoo are others than those of others; if that is false,"
    told += " they have lost epsilon 4 at delta {} together"
    for release, ledger, line in (
        (new, new.ledger, told.format(who, f" on {day}", "1e-05")),
        (new, None, told.format(who, f" on {day}", "1e-05")),
        (old, old.ledger, told.format(who, f" on {day}", "2e-05")),  # the ledger has it
        (old, None, told.format("the operator", "", "2e-05")),  # two totals, at 1e-05 each
    ):
        found = verifier.verify(release.files, ledger)
        assert found.good, found.lines
        assert line in [text for kind, text in found.lines if kind == "open"]


def test_a_link_in_a_release_is_refused(zoo, tmp_path):
    for name, content in zoo[COUNTS].files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "ranking.csv").rename(tmp_path.parent / "elsewhere.csv")
    (tmp_path / "ranking.csv").symlink_to(tmp_path.parent / "elsewhere.csv")
    words = [sys.executable, "-I", "-S", verifier.__file__, tmp_path]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "ranking.csv: is a link; put the file itself there" in done.stderr


@pytest.mark.parametrize("careful", [False, True])
def test_the_certificate_of_another_release_is_found(zoo, careful):
    forged, other = zoo[COUNTS].copy(), zoo["earlier"]
    forged.files["certificate.json"] = other.files["certificate.json"]
    if careful:
        forged.with_digests()
    wrong = forged.wrong()
    assert "release_id: the certificate says" in wrong
    assert "epsilon: the certificate says 16, release.json 8" in wrong


@pytest.mark.parametrize("name", ["report.html", "ranking.csv", "release.json", "certificate.json"])
def test_a_missing_file_is_named(zoo, name):
    forged = zoo[COUNTS].copy()
    del forged.files[name]
    assert f"{name} is missing" in forged.wrong()


def test_the_smallest_threshold_passes_and_one_less_fails(zoo):
    """Off by one: thresholds are rounded up by far more than that, so its limit is looked up."""
    forged = zoo[FLIPS].copy()
    threshold = forged.document("certificate.json")["draws"][0]["thresholds"][0]
    asked = verifier.fraction(threshold["epsilon"])
    low, high = 1, threshold["threshold"]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if verifier.answer_loss(middle) <= asked else (middle, high)
    assert forged.certify(D + "thresholds.0.threshold", high).with_digests().found().good
    assert "more than the" in forged.certify(D + "thresholds.0.threshold", high - 1).wrong()


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"hushrank_certificate": 0}', b"null"])
def test_what_is_no_certificate_is_refused_in_a_sentence(zoo, content):
    forged = zoo[COUNTS].copy()
    forged.files["certificate.json"] = content
    assert forged.wrong()


def test_a_release_of_a_newer_format_is_not_judged(zoo, tmp_path, command):
    """Neither right nor wrong, whatever else is in it: this program cannot know."""
    newer = zoo[COUNTS].copy().certify("hushrank_certificate", 2).tell("sealed", [1, 2])
    newer.certify("draws", []).with_digests()
    found = newer.found()
    assert (found.good, found.judged, found.code) == (False, False, 5)
    ((kind, text),) = found.lines
    assert (kind, "get a newer verifier" in text) == ("newer", True)
    for name, content in newer.files.items():
        (tmp_path / name).write_bytes(content)
    for options in ([], ["--json"]):
        words = [sys.executable, "-I", "-S", verifier.__file__, tmp_path, *options]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (5, "")
        assert ("NOT JUDGED" in done.stdout) == (not options)
        code, printed = command("verify", tmp_path, *options)
        assert code == 5
        assert "newer" in printed
        assert "is wrong" not in printed.lower()
    for other in (0, -1, "2", 1.5, True, None):
        assert not zoo[COUNTS].copy().certify("hushrank_certificate", other).found().good
        assert zoo[COUNTS].copy().certify("hushrank_certificate", other).found().judged


def test_an_anchor_finds_an_older_ledger_that_is_whole(zoo):
    """The ledger of before the second release, with the first one's files: all of it is true."""
    earlier, whole = zoo["earlier"], zoo[COUNTS].ledger
    assert verifier.verify(earlier.files, earlier.ledger).good
    head = json.dumps(
        {"hushrank_anchor": 1, "position": 7, "hash": json.loads(whole.splitlines()[6])["hash"]}
    ).encode()
    assert verifier.verify(earlier.files, whole, anchor=head).good
    found = verifier.verify(earlier.files, earlier.ledger, anchor=head)
    assert not found.good
    assert any("an older copy was put back" in text for _, text in found.lines)


def test_signatures_are_checked_by_the_public_key(zoo):
    key, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    forged = zoo[COUNTS].copy()
    forged.files["certificate.sig"] = key.sign(forged.files["certificate.json"])
    public, wrong = (
        each.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        for each in (key, other)
    )
    told = verifier.verify(forged.files).lines
    assert ("open", "signatures not checked: no public key was given (--public-key FILE)") in told
    assert verifier.verify(forged.files, key=public).good
    for files, by in ((forged.files, wrong), (zoo[COUNTS].files, public)):
        assert not verifier.verify(files, key=by).good
    found = verifier.verify(forged.files, forged.ledger, key=public)  # whose lines have none
    assert any("has not signed line 7, the last of the ledger" in text for _, text in found.lines)


def test_a_key_that_stands_twice_is_refused(zoo):
    forged = (
        zoo[COUNTS].copy().replace("release.json", '"delta": 0.0', '"delta": 0.0, "delta": 0.0')
    )
    assert "a key stands twice" in forged.with_digests().wrong()


def test_no_part_of_a_certificate_may_be_missing(zoo):
    """And there is no traceback, whatever a forger leaves out."""
    for name in (COUNTS, SCORES):
        document = zoo[name].document("certificate.json")
        for key in document:
            forged = zoo[name].copy()
            del forged.files["SHA256SUMS"]
            left = {other: part for other, part in document.items() if other != key}
            forged.files["certificate.json"] = json.dumps(left).encode()
            assert key in forged.wrong()


def test_the_one_file_runs_alone(zoo, tmp_path):
    """With the standard library, isolated from all that is installed."""
    for name, content in zoo[COUNTS].files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "ledger").write_bytes(zoo[COUNTS].ledger)
    words = [
        sys.executable,
        "-I",
        "-S",
        verifier.__file__,
        tmp_path,
        "--ledger",
        tmp_path / "ledger",
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("Nothing is wrong.\n")
    (tmp_path / "ranking.csv").write_text("rank,item\n")
    done = subprocess.run([*words, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert json.loads(done.stdout)["good"] is False


@pytest.mark.parametrize(
    ("name", "more"), [("ranking.csv", "x" * 140_000), ("report.html", "<![x y]>")]
)
def test_what_no_reader_can_parse_is_wrong_without_a_traceback(zoo, tmp_path, name, more):
    for each, content in zoo[COUNTS].files.items():
        (tmp_path / each).write_bytes(content + more.encode() * (each == name))
    for options in ([], ["--json"]):
        words = [sys.executable, "-I", "-S", verifier.__file__, tmp_path, *options]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (1, "")
        assert f"{name}: cannot be read as a certificate means it" in done.stdout


def test_what_lies_hidden_in_a_folder_is_named(zoo, tmp_path):
    for name, content in zoo[COUNTS].files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / ".truth.csv").write_bytes(b"ants")
    (tmp_path / "more").mkdir()
    os.mkfifo(tmp_path / "pipe")
    words = [sys.executable, "-I", "-S", verifier.__file__, tmp_path]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "open   not looked at, for they are hidden or no files: .truth.csv, more, pipe" in (
        done.stdout
    )


def test_a_list_without_items_of_groups_or_by_gaussian_noise_is_refused(zoo):
    """A list of no items would have a sensitivity of 0; the proof is of one list, for Laplace."""
    certificate, release = (
        zoo[COUNTS].document(name) for name in ("certificate.json", "release.json")
    )
    law, domain = {"kind": "laplace"}, certificate["domain"]
    draw = {"derivation": "x.one_shot_sensitivity", "inputs": {}, "law": law}
    released = release["released"] = {"kind": "top-list", "items": ["bees"]}
    assert verifier.count_norms(draw, certificate, release) == (8, 64)
    for where, key, value in (
        (released, "items", []),
        (law, "kind", "gaussian"),
        (domain, "groups", ["north", "south"]),
    ):
        before = where[key]
        where[key] = value
        with pytest.raises(verifier.Wrong, match="names items of one ranking"):
            verifier.count_norms(draw, certificate, release)
        where[key] = before


def test_the_command_finds_the_release_and_its_ledger(survey: Survey, command):
    code, printed = command("run", survey.config, "--direct")
    assert code == 0, printed
    for place in (survey.config, survey.output, survey.output / "release.json"):
        code, printed = command("verify", place)
        assert code == 0, printed
        assert "Nothing is wrong." in printed
        assert ("form a chain" in printed) == (place == survey.config)
    (kept,) = survey.archived()
    code, printed = command("verify", kept, "--ledger", survey.ledger, "--json")
    assert code == 0
    assert json.loads(printed)["good"]
    report = survey.output / "report.html"
    report.write_text(report.read_text().replace("2", "1"))
    code, printed = command("verify", survey.output)
    assert code == 1
    assert "WRONG    report.html is not the file of the certificate" in printed


def test_releases_in_cloud_storage_are_read_from_there(zoo, command, monkeypatch):
    with fake_cloud_storage("shown") as store:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.url)
        place = CloudPath.parse("gs://shown/out/releases/2026-11-20-0123456789abcdef")
        for name, content in zoo[COUNTS].files.items():
            (place / name).create(content)
        (place.parent.parent / "ledger.jsonl").create(zoo[COUNTS].ledger)
        for source in ("gs://shown/out", place, place / "release.json"):
            code, printed = command("verify", source, "--ledger", "gs://shown/out/ledger.jsonl")
            assert code == 0, printed
            assert "form a chain" in printed


def test_the_command_says_what_is_missing(command, tmp_path: Path):
    code, printed = command("verify", tmp_path)
    assert code == 2
    assert "holds no release.json" in printed
    (tmp_path / "release.json").write_text("{}")
    code, printed = command("verify", tmp_path)
    assert code == 1
    assert "certificate.json is missing" in printed
    code, printed = command("verify", tmp_path, "--ledger", tmp_path / "none")
    assert code == 2
    assert "--ledger" in printed
