"""What a body must say: right ones become records, and all others one sentence."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushrank.flows.collecting.body import BodyReader
from hushrank.flows.collecting.contents import Refused, content_of
from hushrank.flows.collecting.survey.settings import page_settings, texts_of
from hushrank.flows.errors import ConfigError
from hushrank.privacy.randomized_response import epsilon_of_answer
from hushrank.privacy.randomness import system_bits
from tests.flows.collecting.surveys import ITEMS, body, comparison, encoded, people, survey

RANKINGS = {"kind": "rankings", "paths": ["answers/{date}/*.parquet"], "layout": "list"}
PAIRS = RANKINGS | {"layout": "pairs"}
RESPONSES = {
    "kind": "responses",
    "paths": ["answers/{date}/*.parquet"],
    "columns": {"user": "user", "item": "item", "correct": "correct"},
}
LOCAL = {"unit": "local", "already_private": True}


def reader_of(config):
    return BodyReader(config.name, config.input.kind, content_of(config), system_bits(), None)


def rows_of(config, *answers):
    """The rows of a part that these answers become."""
    content = content_of(config)
    batch = reader_of(config).batch(encoded(body(list(answers), config.input.kind)))
    assert batch.answers == len(answers)
    return content.form.table(content.form.records(batch.rows)).to_pylist()


@pytest.fixture(scope="module")
def comparisons(tmp_path_factory):
    return survey(tmp_path_factory.mktemp("comparisons"))


@pytest.fixture(scope="module")
def reader(comparisons):
    return reader_of(comparisons)


def test_comparisons_are_rows(comparisons):
    found = rows_of(comparisons, comparison(), comparison(left="dogs", outcome=-1))
    assert found == [
        {"left": "ants", "right": "bees", "outcome": 1, "eps": 1.5},
        {"left": "dogs", "right": "bees", "outcome": -1, "eps": 1.5},
    ]


def test_synthetic_rankings_are_rows(tmp_path):
    private = LOCAL | {"mechanism": "mallows", "epsilon_range": [0.5, 4]}
    rows = RANKINGS | {"columns": {"ranking": "order", "epsilon": "eps"}}
    config = survey(tmp_path, input=rows, privacy=private, method="kemeny")
    assert rows_of(config, {"ranking": ["cats", "ants"], "epsilon": 2.5}) == [
        {"order": ["cats", "ants"], "eps": 2.5}
    ]
    wrong = [
        ({"ranking": ["cats"], "epsilon": 2.5}, "2 to 6 items"),
        ({"ranking": ["cats", "cats"], "epsilon": 2.5}, "twice"),
        ({"ranking": ["cats", "wolves"], "epsilon": 2.5}, "not in the catalogue"),
        ({"ranking": ["cats", "ants"], "epsilon": 5}, "from 0.5 to 4"),
    ]
    for answer, sentence in wrong:
        with pytest.raises(Refused, match=sentence):
            rows_of(config, answer)


def test_answers_to_random_pairs_are_rows(tmp_path):
    private = LOCAL | {"mechanism": "random-pairs", "epsilon": 2.0, "pairs": 2}
    config = survey(tmp_path, input=PAIRS, privacy=private, method="kemeny")
    first = {"left": "ants", "right": "bees", "outcome": 1}
    second = {"left": "cats", "right": "ants", "outcome": -1}
    assert rows_of(config, {"answers": [first, second], "length": 3}) == [
        {"left_1": "ants", "left_2": "cats", "right_1": "bees", "right_2": "ants"}
        | {"outcome_1": 1, "outcome_2": -1, "length": 3}
    ]
    (short,) = rows_of(config, {"answers": [first], "length": 2})  # two items have one pair
    assert (short["left_2"], short["outcome_2"], short["length"]) == (None, None, 2)
    wrong = [
        ({"answers": [first], "length": 3}, "must have 2 pairs"),
        ({"answers": [first, first | {"outcome": 0}], "length": 3}, "1 or -1"),
        ({"answers": [first, first], "length": 3}, "answered already"),
        ({"answers": [first, second], "length": 7}, "from 2 to 6"),
        ({"answers": [first, second]}, "from 2 to 6"),
    ]
    for answer, sentence in wrong:
        with pytest.raises(Refused, match=sentence):
            rows_of(config, answer)


def test_hidden_items_have_no_length(tmp_path):
    private = LOCAL | {"mechanism": "random-pairs", "epsilon": 2.0, "pairs": 1, "hide": "items"}
    config = survey(tmp_path, input=PAIRS, privacy=private, method="kemeny")
    neither = {"left": "ants", "right": "bees", "outcome": 0}
    assert rows_of(config, {"answers": [neither]}) == [neither]
    with pytest.raises(Refused, match="leave it out"):
        rows_of(config, {"answers": [neither], "length": 3})


def test_test_answers_of_a_person_share_a_number_and_an_epsilon(tmp_path):
    private = LOCAL | {"epsilon": 3.0, "max_contributions": 3}
    config = survey(
        tmp_path, input=RESPONSES, privacy=private, method="spectral-rr",
        collect={"folder": "answers", "questions": 3},
    )  # fmt: skip
    share = float(epsilon_of_answer(np.array([3.0]), np.array([2]))[0])
    said = [{"item": name, "correct": 1, "epsilon": share} for name in ITEMS[:2]]
    first, second = rows_of(config, *said), rows_of(config, *said)
    assert [row["item"] for row in first] == ITEMS[:2]
    assert len({row["user"] for row in (*first, *second)}) == 2
    with pytest.raises(Refused, match="that of 1 answers"):
        rows_of(config, said[0])
    with pytest.raises(Refused, match="twice"):
        rows_of(config, said[0], said[0])


WRONG = [
    ({"schema": 2}, "schema: be 1"),
    ({"schema": True}, "schema: be a valid integer"),
    ({"schema": 1.0}, "schema: be a valid integer"),
    ({"schema": "1"}, "schema: be a valid integer"),
    ({"survey": "another"}, "survey: "),
    ({"kind": "rankings"}, "kind: "),
    ({"submission": "short"}, "submission: "),
    ({"submission": None}, "submission: be a valid string"),
    ({"answers": []}, "answers: "),
    ({"answers": [comparison()] * 11}, "answers: "),
    ({"answers": "ants"}, "answers: be a valid array"),
    ({"token": "a token"}, "another key"),
    ({"address": "192.0.2.7"}, "another key"),
]
WRONG_ANSWERS = [
    ({"left": "wolves"}, "answer 1: an item is not in the catalogue"),
    ({"left": "bees"}, "answer 1: left and right must be different items"),
    ({"left": 3}, "answers 1 left: be a valid string"),
    ({"left": "x" * 1001}, "answers 1 left"),
    ({"outcome": 0}, "answer 1: outcome must be 1 or -1"),
    ({"outcome": 2}, "answers 1 outcome"),
    ({"outcome": True}, "answers 1 outcome: be a valid integer"),
    ({"outcome": "1"}, "answers 1 outcome: be a valid integer"),
    ({"epsilon": 0.49}, "answer 1: epsilon must be from 0.5 to 4"),
    ({"epsilon": 4.01}, "answer 1: epsilon must be from 0.5 to 4"),
    ({"epsilon": "1"}, "answers 1 epsilon: be a valid number"),
    ({"epsilon": float("nan")}, "answers 1 epsilon"),
    ({"true_answer": 1}, "answers 1 another key"),
]


@pytest.mark.parametrize(("change", "sentence"), WRONG)
def test_what_is_wrong_is_said(reader, change, sentence):
    with pytest.raises(Refused) as refused:
        reader.batch(encoded(body([comparison()]) | change))
    assert sentence in str(refused.value)


@pytest.mark.parametrize(("change", "sentence"), WRONG_ANSWERS)
def test_what_is_wrong_with_an_answer_is_said(reader, change, sentence):
    with pytest.raises(Refused) as refused:
        reader.batch(encoded(body([comparison(**change)])))
    assert sentence in str(refused.value)
    assert "wolves" not in str(refused.value)


def test_the_collector_takes_the_levels_of_the_page_and_no_other_epsilon(tmp_path):
    levels = LOCAL | {"epsilon_levels": [0.5, 1.5, 4]}
    config = survey(tmp_path, privacy=levels)
    page = json.loads(page_settings(config, texts_of(config)))
    reader = reader_of(config)
    for epsilon in page["epsilon"]["levels"]:
        assert reader.batch(encoded(body([comparison(epsilon=epsilon)]))).answers == 1
    with pytest.raises(Refused, match=r"answer 1: epsilon must be one of 0\.5, 1\.5, 4 in this"):
        reader.batch(encoded(body([comparison(epsilon=1.6)])))


def test_answers_of_a_person_are_to_different_pairs_at_one_epsilon(reader):
    turned = comparison(left="bees", right="ants")
    with pytest.raises(Refused, match="answer 2: this pair was answered already"):
        reader.batch(encoded(body([comparison(), turned])))
    other = comparison(left="cats", epsilon=1.6)
    with pytest.raises(Refused, match="answer 2: epsilon must be the same"):
        reader.batch(encoded(body([comparison(), other])))


def test_every_right_body_is_within_the_limit(tmp_path):
    """However it is written: all letters escaped, and with spaces."""
    names = ["\N{GRINNING FACE}" * 60 + str(number) for number in range(5)]
    config = survey(tmp_path, items={"names": names})
    said = [
        comparison(left=left, right=right, epsilon=1.2345678901234567)
        for k, left in enumerate(names)
        for right in names[:k]
    ]
    text = json.dumps(body(said), indent=4).encode()
    assert len(text) <= reader_of(config).limit
    assert reader_of(config).batch(text).answers == 10


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
KEYS = ["schema", "survey", "kind", "submission", "answers", "left", "right", "outcome", "epsilon"]


def outcome_of(reader, said):
    """The batch, or the sentence that refuses it."""
    try:
        return reader.batch(encoded(said)), ""
    except Refused as refused:
        return None, str(refused)


@settings(max_examples=150)
@given(st.integers(0, 2), st.sampled_from(KEYS) | st.text(max_size=9), JSON, st.booleans())
def test_a_body_with_anything_anywhere_is_refused_or_whole(reader, where, key, value, without):
    """One value replaced, added or left out; the sentence never says what it was."""
    said = body([comparison(), comparison(left="dogs")])
    target = [said, *said["answers"]][where]
    target[key] = value
    if without:
        del target[key]
    batch, sentence = outcome_of(reader, said)
    assert (batch is None) == bool(sentence)
    if batch is not None:
        assert len(batch.rows) == 17 * batch.answers in (17, 34)
    target[key] = "what nobody may read"
    assert "nobody" not in outcome_of(reader, said)[1]


@settings(max_examples=100)
@given(st.binary(max_size=200))
def test_bytes_of_any_kind_are_refused(reader, content):
    with pytest.raises(Refused):
        reader.batch(content)


def test_deep_nesting_is_refused(reader):
    with pytest.raises(Refused):
        reader.batch(b"[" * 200_000)


def test_simulated_respondents_send_right_bodies(reader):
    for sent in people().bodies(50):
        assert reader.batch(sent).answers == 3


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"collect": None}, "collect: missing"),
        ({"schedule": {"window": "at"}}, "answers that are collected have no time"),
        ({"collect": {"folder": "elsewhere"}}, "none matches the collector's files"),
    ],
)
def test_a_file_whose_nights_would_not_read_the_parts_is_refused(tmp_path, changes, sentence):
    from hushrank.flows.collecting.server import terms_of

    config = survey(tmp_path, **changes)
    with pytest.raises(ConfigError, match=sentence):
        terms_of(config, print)


@pytest.mark.parametrize(
    ("paths", "schedule", "written"),
    [
        (["answers/{date}/*.parquet"], {}, "2026-11-20/part-7.parquet"),
        (["answers/{date:%Y/%m/%d}"], {}, "2026/11/20/part-7.parquet"),
        (["answers"], {"partition": "night"}, "night=2026-11-20/part-7.parquet"),
        (["answers"], {}, "2026-11-20/part-7.parquet"),
    ],
)
def test_parts_are_where_the_night_looks(tmp_path, paths, schedule, written):
    from hushrank.flows.collecting.server import place_of_parts
    from tests.flows.collecting.surveys import NOON

    rows = survey(tmp_path).input.model_dump(mode="json", exclude_unset=True) | {"paths": paths}
    config = survey(tmp_path, input=rows, schedule=schedule)
    place = place_of_parts(config, config.collect.folder, NOON.date())
    assert place(NOON.date(), "7") == tmp_path / "answers" / written
