"""The verifier starts from what is published: nothing that no draw pays for passes, of any kind.

Each kind of release is made once, and then changed in every place: a field that the format does not
have in each object, a number more or less in each list, each draw removed and doubled, each sentence
dropped and changed. A new field of a release is so covered by its line in the tables of the verifier
and in `honest_releases`.
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
from tests.flows.forgeries import Edit, Forger, part
from tests.flows.honest_releases import ALL, honest

EXACT = [52, 31, 44, 17]
Place = Any  # an object or a list inside of a document


Check = Callable[[Any, Any, verifier.Findings], object]
WORDS: tuple[Check, ...] = (verifier.check_claim, verifier.check_words)
NUMBERS: tuple[Check, ...] = (
    *(verifier.check_form, verifier.check_draws, verifier.check_claim, verifier.check_public),
    *(verifier.check_numbers, verifier.check_words),
    lambda certificate, _, say: verifier.check_texts(certificate, say),
    lambda _, release, say: verifier.check_scores(release, say),
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
    r"|.*\.(partitions|features|left|right|tie|bits\..*|public_facts|audit|same_input|weights)"
    r"|.*\.(spends|top_k|groups)"
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
