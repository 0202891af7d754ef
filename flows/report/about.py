"""The top of the page: what was asked, of whom and when, and what the method and epsilon mean."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hushrank.flows.config.method import AboutConfig, Sample
from hushrank.flows.release.release import Release
from hushrank.flows.statement.sentences import delta_sentence, number
from hushrank.privacy.units import Unit

Row = tuple[str, str]  # a heading and a text

NOT_THE_PUBLIC = "These are the people who answered, not the public."
SAMPLES = {
    Sample.DRAWN: "A random sample was drawn of them, and these are the people who answered.",
    Sample.EVERYBODY: f"All of them were asked, and no sample was drawn. {NOT_THE_PUBLIC}",
    Sample.OPEN: f"Whoever wished could answer, and no sample was drawn. {NOT_THE_PUBLIC}",
    None: (
        "How these people were chosen is not stated, so read this as the people who answered, not"
        " the public."
    ),
}
HEADINGS = {
    "question": "Question",
    "who": "Who was asked",
    "how_recruited": "How they were invited",
    "dates": "When",
    "contact": "Contact",
}
CHANGED = (
    "Each answer was changed at random before it was counted. Everything here is computed from the"
    " changed answers alone."
)


def about_rows(release: Release) -> Iterator[Row]:
    """Yield what the operator states of the survey, and in the last line what is not stated."""
    about = release.about or AboutConfig()
    texts = {heading: getattr(about, key) for key, heading in HEADINGS.items()}
    yield from ((heading, text) for heading, text in texts.items() if text is not None)
    yield "How they were chosen", SAMPLES[about.sample]
    if release.source is not None:
        yield "Which answers", f"{release.source.text[:1].upper()}{release.source.text[1:]}."
    missing = [heading.lower() for heading, text in texts.items() if text is None]
    if missing:
        yield "Not stated", ", ".join(missing)


def made_rows(release: Release) -> Iterator[Row]:
    """Yield what was done to the answers, what epsilon promises and how delta may break that.

    Where people gave rankings, the caller puts that word in place of "answer".
    """
    privacy = release.privacy
    if privacy.mechanism == "none" or not release.safe:
        yield "What protects people", "Nothing: this release is a test and protects nobody."
        return
    how = CHANGED if privacy.unit is Unit.LOCAL else release.released.made.value
    yield "How it was made", how
    growth = math.exp(-float(privacy.epsilon))
    sure = round(100 * (1 + privacy.delta * growth) / (1 + growth), 2)
    yield (
        "What epsilon means",
        f"If you took part: somebody who must say which of two possible versions of"
        f" {_protected(release)} is the true one, and is right half of the time before, is right"
        f" at most {number(sure)} % of the time after seeing this page.",
    )
    if privacy.delta > 0:
        yield "What delta means", delta_sentence(privacy.delta, privacy.unit)


def _protected(release: Release) -> str:
    """Part of a person's rows that the stated epsilon covers."""
    privacy = release.privacy
    unbounded = privacy.unit is Unit.LOCAL and not any(
        name.startswith("epsilon_of_a_person") for name in privacy.parameters
    )
    one = privacy.unit is Unit.COMPARISON or unbounded
    return "any one answer of yours" if one else "all your answers together"
