"""The verifier starts from what is published: nothing that no draw pays for passes, of any kind.

Each kind of release is made once, and then changed in every place: a field that the format does
not have in each object, a number more in each list, each draw removed and doubled, each sentence
dropped and changed. So a new field of a release is covered by its line in the tables of the
verifier and in `honest_releases`.
"""

from __future__ import annotations

import copy
import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from hushrank.verifier import verify_release as verifier
from tests.flows.forgeries import Edit, Forger
from tests.flows.honest_releases import ALL, honest

EXACT = [52, 31, 44, 17]
Place = Any  # an object or a list inside of a document


Check = Callable[[Any, Any, verifier.Findings], object]
WORDS: tuple[Check, ...] = (verifier.check_claim, verifier.check_words)
NUMBERS: tuple[Check, ...] = (
    *(verifier.check_form, verifier.check_draws, verifier.check_claim, verifier.check_public),
    *(verifier.check_numbers, verifier.check_words),
    lambda certificate, _, say: verifier.check_texts(certificate, say),
    lambda certificate, release, say: verifier.check_scores(
        release, say, verifier.bundle_of(certificate).groups
    ),
    lambda _, release, say: verifier.check_errors(release, say),
)


def wrong_in(certificate: Any, release: Any, checks: tuple[Check, ...] = NUMBERS) -> str:
    """What the first check of both documents that fails finds; others need files."""
    for check in checks:
        say = verifier.Findings()
        try:
            check(certificate, release, say)
        except (verifier.Wrong, *verifier.UNREADABLE) as error:
            say.check(False, wrong=str(error) or repr(error))
        if not say.good:
            return "\n".join(text for kind, text in say.lines if kind == "WRONG")
    return ""


def places(document: Place, path: str = "") -> Iterator[tuple[str, Place]]:
    """Every object and list of a document, from the top."""
    yield path, document
    pairs = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in list(pairs):
        if isinstance(value, (dict, list)):
            yield from places(value, f"{path}.{key}")


OPEN_LISTS = re.compile(  # of which the numbers' own rules say how long they are
    r".*\.(formula|warnings|statement|not_protected|rules|post_processing|not_proved|errata)"
    r"|.*\.(partitions|features|sets|shown|left|right|tie|bits\..*|public_facts|audit|same_input|weights|terms)"
    r"|.*\.(spends|top_k|groups|booklets\..*)"
)


@pytest.fixture(scope="module")
def schema(checkout: Path) -> jsonschema.Draft202012Validator:
    text = (checkout / "docs" / "release.schema.json").read_text()
    return jsonschema.Draft202012Validator(json.loads(text))


@pytest.mark.parametrize("name", ALL)
def test_an_honest_release_passes_and_none_with_more_or_less_in_it(name, tmp_path, schema):
    made = honest(name, tmp_path / "job")
    found = made.found()
    assert found.good, made.wrong()
    assert made.copy().with_digests().found().good  # the forger's tools spoil nothing
    certificate, release = (made.document(f"{each}.json") for each in ("certificate", "release"))
    assert wrong_in(certificate, release) == ""
    schema.validate(release)
    no_field_more(certificate, release)
    no_number_more(certificate, release)
    draws_as_published(certificate, release)
    no_other_kind(certificate, release)
    no_other_words(certificate, release)
    no_column_more(made)


def no_field_more(certificate: Any, release: Any) -> None:
    """In each object of both documents, exact numbers under a name of their own."""
    for document in (certificate, release):
        for path, place in list(places(document)):
            if not isinstance(place, dict):
                continue
            place["exact"] = EXACT
            found = wrong_in(certificate, release)
            del place["exact"]
            assert found or path == ".files", f"{path}: exact numbers pass"
            del found


def no_number_more(certificate: Any, release: Any) -> None:
    """In each list of numbers, one more at its end."""
    for document in (certificate, release):
        for path, place in list(places(document)):
            if isinstance(place, list) and not OPEN_LISTS.fullmatch(path) and place:
                place.append(copy.deepcopy(place[-1]))
                found = wrong_in(certificate, release)
                place.pop()
                assert found, f"{path}: one entry more passes"


def draws_as_published(certificate: Any, release: Any) -> None:
    """Each draw removed, doubled, and with another number of entries."""
    draws, safe = certificate["draws"], certificate["guarantee"]["epsilon"] != "inf"
    for place, draw in enumerate(list(draws)):
        if not safe:
            break
        for changed in (draws[:place] + draws[place + 1 :], [*draws, draw]):
            certificate["draws"] = changed
            assert wrong_in(certificate, release), f"draw {place}"
        certificate["draws"] = draws
        for more in (-1, 1) if draw.get("entries") else ():
            draw["entries"] += more
            assert wrong_in(certificate, release), f"draw {place}: entries"
            draw["entries"] -= more
    bits = certificate["bits"]
    for none in ({}, None):
        certificate["bits"] = release["privacy"]["bits"] = none
        at_source = any(draw.get("at_source") for draw in draws)
        assert (not safe or at_source) or "no source of the random bits" in wrong_in(
            certificate, release
        )
    certificate["bits"] = release["privacy"]["bits"] = bits


def no_other_kind(certificate: Any, release: Any) -> None:
    """Each other name of a kind."""
    own = release["released"]["kind"]
    for kind in verifier.TAGGED["<released>"][1] - {own}:
        release["released"]["kind"] = kind
        assert wrong_in(certificate, release), f"{own} passes for {kind}"
    release["released"]["kind"] = own


def no_other_words(certificate: Any, release: Any) -> None:
    """Each sentence dropped, doubled, and with another number in it; in both documents alike."""
    for name in ("statement", "not_protected", "theorem", "erratum"):
        told = release["privacy"][name]
        sentences = told if isinstance(told, list) else [told] if told else []
        for changed in falsified(sentences):
            if changed[:1] == sentences and not isinstance(told, list):
                continue  # doubled, which one text cannot be
            value = changed if isinstance(told, list) else changed[0] if changed else None
            release["privacy"][name] = value
            if name == "erratum":
                certificate["errata"] = [value] if value else []
            else:
                certificate["guarantee"][name] = value
            assert wrong_in(certificate, release, WORDS), f"{name}: {changed} passes"
        release["privacy"][name] = told
        if name == "erratum":
            certificate["errata"] = sentences
        else:
            certificate["guarantee"][name] = told


def falsified(sentences: list[str]) -> Iterator[list[str]]:
    """Other sentences than these."""
    for place, text in enumerate(sentences):
        before, after = sentences[:place], sentences[place + 1 :]
        yield before + after
        yield [*before, text, text, *after]
        for number in re.finditer(r"\d+(\.\d+)?", text):
            other = f"{text[: number.start()]}{float(number[0]) / 2:g}{text[number.end() :]}"
            yield [*before, other, *after] if other != text else []
    yield [*sentences, "Nobody can learn anything."]


def no_column_more(made: Forger) -> None:
    """In ranking.csv, exact numbers in a column, with all digests."""
    for column in ("exact", "noisy_wins", "noise_share"):
        rows = list(csv.reader(io.StringIO(made.files["ranking.csv"].decode())))
        if column in rows[0]:
            continue
        text = io.StringIO()
        lines = [[*rows[0], column], *([*row, str(7 * at)] for at, row in enumerate(rows[1:]))]
        csv.writer(text, lineterminator="\n").writerows(lines)
        forged = made.copy()
        forged.files["ranking.csv"] = text.getvalue().encode()
        assert column in forged.with_digests().wrong()


BORDA, WEIGHTS, GRAPH = "borda, user", "counts, weights", "spectral, even"
COUNTS, PAIRS, LOSSES, NIGHT = "noisy-counts", "noisy-pairs", "win-loss", "stream"
FOUND = "noisy-pairs, found names"
SCORES, BARE, EFFECTS = "perturbed-mle, exposures", "perturbed-mle", "perturbed-mle, covariates"
ZOO = (BORDA, WEIGHTS, GRAPH, COUNTS, PAIRS, LOSSES, NIGHT, SCORES, BARE, EFFECTS)
D, P, R = "draws.0.", "privacy.parameters.", "released."


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Forger]:
    """An honest release of a kind, made when it is first asked for."""
    made: dict[str, Forger] = {}

    def of(name: str) -> Forger:
        if name not in made:
            made[name] = honest(name, tmp_path_factory.mktemp("zoo") / "job")
        return made[name].copy()

    return of


def without_draws(*places: int) -> Edit:
    """Draws removed, with the parameters that told of them."""

    def edit(forger: Forger) -> None:
        gone = [forger.document("certificate.json")["draws"][each] for each in places]
        forger.certify("draws", lambda draws: [each for each in draws if each not in gone])
        for start in ("exposures_", "information_"):
            forger.tell(
                "privacy.parameters",
                lambda told, start=start: {
                    name: value for name, value in told.items() if not name.startswith(start)
                },
            )

    return edit


def by_item(forger: Forger) -> dict[str, int]:
    """Exact numbers of the items."""
    lines = forger.document("release.json")["ranking"]
    return {line["item"]: 7 * at for at, line in enumerate(lines)}


def exact_lines(forger: Forger) -> None:
    forger.tell("ranking", lambda lines: [{**line, "won": 7} for line in lines])


def no_bits(forger: Forger) -> None:
    forger.certify("bits", {}).tell("privacy.bits", {})


def fewer_pairs(forger: Forger) -> None:
    """A pair is removed from the graph, and its counts stay."""
    rows = forger.document("release.json")["released"]["pairs"]
    place = next(at for at, row in enumerate(rows) if row)
    forger.tell(f"released.pairs.{place}", lambda row: row[:-1])
    edges = sum(map(len, rows)) - 1
    forger.tell(P + "pairs", edges).certify(D + "entries", 2 * edges)


def another_night(forger: Forger) -> None:
    forger.tell("stream.number", 3).certify("domain.stream.night", 3)
    forger.tell("stream.answers", lambda shown: [*shown, shown[-1]])


def half_the_sensitivity(forger: Forger) -> None:
    """Pairs are called outcomes of a public graph, and nobody states that there is one."""
    released = forger.document("release.json")["released"]
    n, wins = len(released["items"]), released["wins"]
    rows = [list(range(i + 1, n)) for i in range(n)]
    forger.tell(
        "released",
        {
            "kind": "outcome-counts",
            "row_weight": 1,
            "items": released["items"],
            "pairs": rows,
            "compared": [[abs(wins[i][j] + wins[j][i]) for j in rows[i]] for i in range(n)],
            "wins": [[wins[i][j] for j in rows[i]] for i in range(n)],
        },
    )
    forger.tell(
        "privacy.parameters",
        {
            "link": "logistic",
            "public_graph": True,
            "public_graph_statement": "all",
            "pairs_compared": 6,
        },
    )
    name = "hushrank.privacy.sensitivity.outcomes_sensitivity"
    forger.certify(D + "derivation", name).certify(D + "entries", None)
    matching_sensitivity(forger)


def otherwise(old: str, new: str) -> Edit:
    """Words of the guarantee changed, in both documents and on the page."""

    def edit(forger: Forger) -> None:
        for name in ("release.json", "certificate.json"):
            forger.replace(name, old, new)
        unbroken = [text.replace(" %", "\N{NO-BREAK SPACE}%") for text in (old, new)]
        forger.replace("report.html", *unbroken)

    return edit


def no_bounds_told(forger: Forger) -> None:
    for change in (forger.tell, forger.certify):
        place = "privacy" if change == forger.tell else "guarantee"
        change(f"{place}.statement", lambda told: told[:-1])


def nothing_unprotected(forger: Forger) -> None:
    forger.tell("privacy.not_protected", []).certify("guarantee.not_protected", [])


def without_part(forger: Forger) -> None:
    """The number of rankings is published, and no noise is paid for it."""
    forger.certify(D + "inputs.rankings", 0).tell(
        "released.weights", lambda told: {k: v for k, v in told.items() if k != "rankings"}
    )
    matching_sensitivity(forger)


def matching_sensitivity(forger: Forger) -> None:
    """What the first draw's sensitivity comes to, by what the documents say now."""
    certificate, release = (forger.document(f"{each}.json") for each in ("certificate", "release"))
    l1, l2_squared = verifier.count_norms(certificate["draws"][0], certificate, release)
    forger.certify(D + "sensitivity", {"l1": l1, "l2_squared": l2_squared})
    forger.tell("privacy.sensitivity_l1", l1).tell("privacy.sensitivity", l1)
    forger.tell("privacy.sensitivity_l2_squared", l2_squared)


def groups_of_exact_numbers(forger: Forger) -> None:
    """Another set of tables, called that of a group, for which nothing is drawn."""
    release = forger.document("release.json")
    copied = {name: release[name] for name in ("informative", "ranking", "released")}
    forger.tell("groups", [{"name": "red", "own": 0.5, **copied}])
    forger.certify("domain.groups", ["red"]).certify("domain.other_rows", True)


def more_groups_of_an_answer(forger: Forger) -> None:
    """An answer counted in two groups, all documents agree on it, and the noise is for one."""
    forger.certify("domain.bounds.groups_per_answer", 2).tell("privacy.groups_per_answer", 2)
    forger.certify(D + "inputs.overlap", 2)
    matching_sensitivity(forger)


def groups_called_disjoint(forger: Forger) -> None:
    """The counts of the whole stand beside those of groups, and nobody pays for them."""
    forger.certify("domain.bounds", lambda told: without_key(told, "groups_per_answer"))
    forger.tell("privacy", lambda told: without_key(told, "groups_per_answer"))
    forger.certify(D + "inputs", lambda told: without_key(told, "overlap"))
    forger.certify(D + "formula", lambda told: told[:-2])
    matching_sensitivity(forger)


def without_key(told: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in told.items() if name != key}


def a_source_twice(forger: Forger) -> None:
    forger.tell("privacy.bits.noise", lambda told: [*told, *told])
    forger.certify("bits.noise", lambda told: [*told, *told])


SHARED = "win-loss, groups that overlap"  # an answer counts in one of them, and in the whole
SHARED_NIGHTS = "stream of metered rows, groups that overlap, names"  # likewise
TIES = {
    "model": "davidson",
    "parameter": 0.5,
    "low": 0.4,
    "high": 0.6,
    "equals": 0.523144,
    "equals_low": 31,
    "equals_high": 44,
}
EFFECT = {"name": "exact", "scale": 52.0, "estimate": 31.0, "low": 30.0, "high": 44.0}
FACT = {"fact": "the covariate 52 31 44 17, and its scale", "value": None, "sha256": None}


# Name, kind of the honest release, edit, what has to be said. All digests are computed anew.
FALSIFIED: list[tuple[str, str, Edit, str]] = [
    ("exposures without their draw", SCORES, without_draws(1), "exposures_sensitivity (4), grad"),
    ("one sum of information without", EFFECTS, without_draws(2), "covariate_mle between (8)"),
    ("no draw of information", EFFECTS, without_draws(1, 2, 3), "covariate_mle of_scores (4)"),
    (
        "one sum of information for another",
        EFFECTS,
        lambda f: f.certify("draws", lambda all_: [*all_[:2], all_[1], all_[3]]),
        "covariate_mle between (8)",
    ),
    ("a part without noise", BORDA, without_part, "net-sums are drawn by ranking_sensitivity"),
    (
        "a part of no weight in the draw",
        BORDA,
        lambda f: f.certify(D + "inputs.rankings", 0),
        "starts from rankings = 0",
    ),
    (
        "no noise for the squared weights",
        WEIGHTS,
        lambda f: f.certify(D + "entries", 4),
        "weighted_sensitivity (5), and the certificate has weighted_sensitivity (4)",
    ),
    ("no random bits", COUNTS, no_bits, "no source of the random bits of the noise"),
    (
        "other booklets",
        "responses, booklets",
        lambda f: f.certify("rows.settings.booklets.B", lambda items: items[:2]),
        "counts are of other pairs than share a booklet",
    ),
    ("groups of exact numbers", BORDA, groups_of_exact_numbers, "starts from groups = 1"),
    ("more groups of an answer", SHARED, more_groups_of_an_answer, "epsilon 3, more than 2"),
    ("groups called disjoint", SHARED, groups_called_disjoint, "win_loss_sensitivity (16), and"),
    (
        "more groups of an answer of nights",
        SHARED_NIGHTS,
        more_groups_of_an_answer,
        "the sensitivity of the matrix",
    ),
    (
        "groups of nights called disjoint",
        SHARED_NIGHTS,
        groups_called_disjoint,
        "noisy is no list of",
    ),
    ("ties of wins", COUNTS, lambda f: f.tell("ties", TIES), "win-counts have no ties"),
    (
        "effects of wins",
        COUNTS,
        lambda f: f.tell("effects", [EFFECT]),
        "win-counts have no effects",
    ),
    (
        "fractions of wins",
        COUNTS,
        lambda f: f.tell(R + "wins", lambda wins: {k: v + 52e-6 for k, v in wins.items()}),
        "released.wins has a fraction",
    ),
    (
        "a fact of covariates",
        COUNTS,
        lambda f: f.certify("public_facts", lambda told: [*told, FACT]),
        "has no public fact the covariate 52 31 44 17",
    ),
    (
        "a fact twice",
        COUNTS,
        lambda f: f.certify("public_facts", lambda told: [*told, told[-1]]),
        "states a fact twice",
    ),
    (
        "an input of no value",
        COUNTS,
        lambda f: f.certify(D + "inputs", lambda told: {**told, "52 31": None}),
        "starts from 52 31 = None",
    ),
    ("a source of bits twice", COUNTS, a_source_twice, "bits names a source twice"),
    (
        "numbers in a path",
        COUNTS,
        lambda f: f.certify(D + "derivation", "5231.win_counts_sensitivity"),
        "derivation",
    ),
    ("exact counts", COUNTS, lambda f: f.tell(R + "exact", EXACT), "released.exact: format 1 has"),
    (
        "exposures of wins",
        COUNTS,
        lambda f: f.tell(R + "exposures", by_item(f)),
        "released.exposures: format 1 has no such field",
    ),
    (
        "losses of wins",
        COUNTS,
        lambda f: f.tell(R + "losses", by_item(f)),
        "released.losses: format 1 has no such field",
    ),
    (
        "exposures where none are drawn",
        BARE,
        lambda f: f.tell(R + "exposures", by_item(f)),
        "scores are drawn by exposures_sensitivity (4), gradient_sensitivity, and",
    ),
    (
        "exposures that are called public",
        BARE,
        lambda f: f.tell(R + "exposures", by_item(f)).tell(P + "stated_exposures", "items"),
        "exposures are published without noise, and are not the public numbers",
    ),
    (
        "a parameter",
        COUNTS,
        lambda f: f.tell(P + "exact", "52 31 44 17"),
        "parameters.exact: format 1 has no such field",
    ),
    ("numbers in lines", COUNTS, exact_lines, "ranking.0.won: format 1 has no such field"),
    (
        "numbers among the rows",
        COUNTS,
        lambda f: f.certify("rows.exact", EXACT),
        "rows.exact: format 1 has no such field",
    ),
    (
        "numbers among the settings",
        COUNTS,
        lambda f: f.certify("rows.settings.exact", EXACT),
        "rows.settings.exact: format 1 has no such field",
    ),
    (
        "numbers among the rules",
        COUNTS,
        lambda f: f.certify("rows.rules", lambda told: [*told, "52, 31, 44, 17"]),
        "rows.rules: format 1 has no sentence",
    ),
    (
        "numbers of the software",
        COUNTS,
        lambda f: f.certify("software.exact", EXACT),
        "software.exact: format 1 has no such field",
    ),
    (
        "a library of numbers",
        COUNTS,
        lambda f: f.certify("software.libraries.exact", "52.31.44.17"),
        "libraries.exact: format 1 has no such field",
    ),
    (
        "a file of numbers",
        COUNTS,
        lambda f: (
            f.files.update({"exact.csv": b"52,31"})
            or f.certify("files", lambda told: {**told, "exact.csv": "0" * 64})
        ),
        "a release of format 1 has no file exact.csv",
    ),
    ("a pair that is missing", GRAPH, fewer_pairs, "right_wrong has a number where nothing is"),
    (
        "fewer pairs",
        PAIRS,
        lambda f: f.tell(P + "pairs", 5),
        "parameters.pairs is 5, and 6 follows",
    ),
    (
        "fewer pairs of a graph",
        GRAPH,
        lambda f: f.tell(P + "pairs", 1),
        "parameters.pairs is 1, and",
    ),
    ("another night", NIGHT, another_night, "night is 2026-11-02, and 2026-11-03 follows"),
    (
        "outcomes of no public graph",
        PAIRS,
        half_the_sensitivity,
        "nobody states that who compared what is public",
    ),
    (
        "another factor",
        COUNTS,
        otherwise("7.39 times", "2.72 times"),
        "follows 'would become more than 7.39 times",
    ),
    (
        "another chance",
        COUNTS,
        otherwise("88.08 %", "60 %"),
        "follows 'a chance of at most 88.08 %",
    ),
    ("no bounds told", COUNTS, no_bounds_told, "'At most 4 answers of each person count"),
    ("nothing unprotected", COUNTS, nothing_unprotected, "not_protected: 'nothing' is said"),
    (
        "a wrong share of the look's kind",
        NIGHT,
        lambda f: f.tell("stream.shown_variance", lambda told: told / 2),
        "stream.shown_variance is",
    ),
    (
        "noise that is called larger",
        COUNTS,
        lambda f: f.tell("privacy.noise_variance", lambda told: told * 4),
        "noise_variance is",
    ),
    (
        "votes that do not add up",
        "precincts, elsewhere, districts",
        lambda f: f.tell("precincts.votes_of_all", lambda told: [told[0] + 1, *told[1:]]),
        "precincts: votes do not add up",
    ),
    (
        "votes of a district in another one",
        "precincts, elsewhere, districts",
        lambda f: f.tell("precincts.votes_of_districts", lambda told: told[::-1]),
        "precincts: votes do not add up",
    ),
    (
        "votes of a precinct in another one",
        "precincts, laplace, of nobody",
        lambda f: f.tell("precincts.votes", lambda told: told[::-1]),
        "precincts: votes of a precinct or district do not follow",
    ),
    (
        "a reach below that of the noise",
        "precincts, laplace, of nobody",
        lambda f: f.tell("precincts.reach", lambda told: told / 2),
        "precincts: errors are not those of the noise",
    ),
    (
        "a precinct that was not counted",
        "precinct-table",
        lambda f: f.tell("precincts.precincts", lambda told: [*told[:-1], "west"]),
        "groups: the certificate says",
    ),
    (
        "a threshold that one person alone reaches",
        FOUND,
        lambda f: f.certify("draws.0.threshold", 2**20).tell("found.threshold", 1.0),
        "the noise costs rho",
    ),
    (
        "less noise in the weights of names",
        FOUND,
        lambda f: f.certify("draws.0.law.scale", "100/1").tell("found.noise_scale", 100 / 2**20),
        "the noise costs rho",
    ),
    (
        "a name of too little weight",
        FOUND,
        lambda f: f.tell("found.weights", lambda told: dict.fromkeys(told, 0.1)),
        "names reach their threshold",
    ),
    (
        "more names of a person",
        FOUND,
        lambda f: f.tell(P + "names_of_a_person", 100),
        "starts from c = ",
    ),
    (
        "a method that does not publish such numbers",
        LOSSES,
        lambda f: f.tell("method", "noisy-counts").certify("release.method", "noisy-counts"),
        "method noisy-counts does not publish win-loss-counts",
    ),
]


@pytest.mark.parametrize(
    ("kind", "edit", "words"), [row[1:] for row in FALSIFIED], ids=[row[0] for row in FALSIFIED]
)
def test_a_falsified_release_is_wrong_although_all_digests_are_computed_anew(
    zoo, kind, edit, words
):
    forged = zoo(kind)
    edit(forged)
    wrong = forged.with_digests().wrong()
    assert words in wrong
    assert "is not the file of" not in wrong


def test_a_release_that_is_silent_on_names_that_the_ledger_says_were_drawn_is_wrong(zoo):
    def without_names(lines: list[bytes]) -> list[bytes]:
        return [line for line in lines if b'"names":true' not in line]

    forged = zoo(FOUND)
    assert "differ on names of items" in forged.lines(without_names).with_hashes().wrong()


def test_texts_of_a_release_cannot_write_on_the_terminal(zoo):
    forged = zoo(COUNTS).certify(D + "what", "x\n\x1b[2Jholds  everything").with_digests()
    assert all(text.isprintable() for _, text in forged.found().lines)
    half = zoo(COUNTS).certify(D + "what", "half").with_digests()
    assert "of a character" in half.replace("certificate.json", '"half"', '"\\ud800"').wrong()
