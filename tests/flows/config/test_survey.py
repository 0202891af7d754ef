"""The YAML contract: what it means, and the exact text that a person reads after a mistake."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.registry import load_config
from hushrank.privacy.units import Adjacency, NoiseKind, Unit
from hushrank.transforms.common.schema import ComparisonColumns, Words

CONTRACT = """\
name: campus-choice                # population in the ledger
input:
  kind: comparisons
  design: balanced
  paths: [survey/*.parquet]
  columns: {user: user, left: item_i, right: item_j, outcome: outcome}
  ties: drop
items: {names: [Barcelona, London, Milano, Paris, St.Gallen, Stockholm]}
privacy:
  {unit: user, adjacency: replace-one, epsilon: 2.0, max_contributions: 15, distinct_pairs: true}
method: noisy-counts
output: out/campus
confidential: .hushrank/work
ledger: {path: .hushrank/ledger.jsonl, epsilon: 10, delta: 1.0e-6, refresh: monthly}
runner: local
"""
ABSENT = object()


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(changes: dict[str, Any]) -> Path:
    """`survey.yaml` with the contract's example, changed at dotted keys; `ABSENT` removes one."""
    content = copy.deepcopy(yaml.safe_load(CONTRACT))
    for key, value in changes.items():
        *sections, last = key.split(".")
        place = content
        for section in sections:
            place = place[section]
        if value is ABSENT:
            del place[last]
        else:
            place[last] = value
    path = Path("survey.yaml")
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def load(**changes: Any) -> SurveyConfig:
    return load_config(write({key.replace("__", "."): value for key, value in changes.items()}))


def refusal(changes: dict[str, Any]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_config(write(changes))
    assert caught.value.exit_code == 2
    return str(caught.value).split("\n")


def test_the_contract_example_means_what_it_says(tmp_path):
    path = tmp_path / "survey.yaml"
    path.write_text(CONTRACT)
    config = load_config(path)
    assert config.name == "campus-choice"
    assert config.input.paths == (f"{tmp_path}/survey/*.parquet",)
    assert config.items.catalogue.names == (
        *("Barcelona", "London", "Milano", "Paris", "St.Gallen", "Stockholm"),
    )
    params = config.privacy.params()
    assert (params.unit, params.adjacency) == (Unit.USER, Adjacency.REPLACE_ONE)
    assert (params.epsilon, params.delta, params.rho) == (2.0, 0.0, None)
    assert (params.noise, params.max_contributions) == (NoiseKind.LAPLACE, 15)
    assert (params.per_item_cap, params.distinct_pairs) == (None, True)
    assert config.output == tmp_path / "out/campus"
    assert config.confidential == tmp_path / ".hushrank/work"
    assert config.ledger.path == tmp_path / ".hushrank/ledger.jsonl"
    assert (config.ledger.epsilon, config.ledger.delta) == (10.0, 1e-6)
    assert (config.ledger.refresh, config.runner.kind) == ("monthly", "local")


def test_the_defaults():
    config = load(
        input={"kind": "comparisons", "paths": ["a.csv"], "design": "balanced"},
        privacy={"unit": "comparison", "epsilon": 1},
        ledger={"path": "ledger.jsonl", "epsilon": 1},
        runner=ABSENT,
    )
    columns = config.input.columns
    assert (columns.user, columns.left, columns.right) == ("user", "left", "right")
    assert (columns.outcome, columns.winner, columns.event) == ("outcome", None, None)
    assert (config.input.ties, config.input.on_bad_rows) == ("drop", "set-aside")
    assert config.input.format is None
    assert config.privacy.params().adjacency is Adjacency.REPLACE_ONE
    assert config.privacy.params().max_contributions == 1
    assert (config.ledger.delta, config.ledger.refresh) == (0.0, None)
    assert (config.top_k, config.runner.kind) == (None, "local")


@pytest.mark.parametrize(
    ("unit", "event", "user"),
    [
        ("user", None, "who"),
        ("user", "id", "who"),
        ("comparison", None, None),
        ("comparison", "id", "who"),
    ],
)
def test_the_user_column_is_read_only_where_bounds_or_events_need_it(unit, event, user):
    bounds = {"max_contributions": 3} if unit == "user" else {}
    config = load(
        input__columns={"user": "who", "left": "a", "right": "b", "winner": "w", "event": event},
        privacy={"unit": unit, "adjacency": "add-remove", "epsilon": 1, **bounds},
    )
    assert config.comparison_columns() == ComparisonColumns(
        user=user,
        left="a",
        right="b",
        outcome=None,
        winner="w",
        event=event,
        words=Words((("a", 1), ("b", -1), ("tie", 0))),
    )


@pytest.mark.parametrize("text", ["inf", ".inf"])
def test_epsilon_inf_means_no_privacy(text):
    path = write({})
    path.write_text(CONTRACT.replace("epsilon: 2.0", f"epsilon: {text}"))
    config = load_config(path)
    assert config.privacy.epsilon == math.inf
    assert not config.privacy.private
    assert not config.privacy.params().private


def test_rho_replaces_epsilon():
    privacy = {"unit": "user", "noise": "gaussian", "rho": 0.5, "max_contributions": 3}
    params = load(privacy=privacy).privacy.params()
    assert (params.noise, params.rho, params.private) == (NoiseKind.GAUSSIAN, 0.5, True)


def test_a_small_number_may_be_written_without_a_point():
    path = write({})
    path.write_text(CONTRACT.replace("1.0e-6", "1e-6"))
    assert load_config(path).ledger.delta == 1e-6


def test_names_that_yaml_could_take_for_something_else_stay_names():
    path = write({})
    path.write_text(
        CONTRACT.replace("[Barcelona,", "[101, 007, No, yes, 12:30, 2026-11-20, ' x ',")
    )
    names = load_config(path).items.catalogue.names
    assert names[:7] == ("101", "007", "No", "yes", "12:30", "2026-11-20", "x")


def test_items_by_count_and_by_file():
    Path("items.txt").write_text("London\nParis\n")
    assert load(items={"count": 3}).items.catalogue.names == ("0", "1", "2")
    assert load(items={"file": "items.txt"}).items.catalogue.names == ("London", "Paris")


def test_the_items_file_is_read_once(tmp_path):
    Path("items.txt").write_text("London\nParis\n")
    config = load(items={"file": "items.txt"})
    Path("items.txt").write_text("Rome\nOslo\n")
    assert config.items.catalogue.names == ("London", "Paris")


def test_a_file_in_another_folder_starts_its_paths_there(tmp_path, monkeypatch):
    path = write({"input.paths": ["gs://bucket/a.parquet", "../b.csv", "/data/c.csv"]})
    monkeypatch.chdir("/")
    config = load_config(tmp_path / path)
    assert config.input.paths == (
        "gs://bucket/a.parquet",
        str(tmp_path.parent / "b.csv"),
        "/data/c.csv",
    )
    assert config.output == tmp_path / "out/campus"


def test_only_what_the_person_wrote_is_a_pattern(tmp_path):
    folder = tmp_path / "year [2026]"
    folder.mkdir()
    write({"input.paths": ["*.csv", "a.csv"]}).rename(folder / "survey.yaml")
    config = load_config(folder / "survey.yaml")
    assert config.input.paths == (f"{tmp_path}/year [[]2026]/*.csv", f"{folder}/a.csv")


def test_a_configuration_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        load().name = "other"


UNKNOWN_KEYS = [
    ({"privacy.epsilom": 1}, "privacy.epsilom: unknown key. Did you mean epsilon?"),
    ({"inptu": 1}, "inptu: unknown key. Did you mean input?"),
    ({"input.columns.usr": "u"}, "input.columns.usr: unknown key. Did you mean user?"),
    (
        {"max_contributions": 3},
        "max_contributions: unknown key. Did you mean privacy.max_contributions?",
    ),
    ({"epsilon": 3}, "epsilon: unknown key. Did you mean privacy.epsilon?"),
    (
        {"ledger.xyz": 1},
        "ledger.xyz: unknown key. Known here: path, epsilon, delta, refresh, alerts,"
        " lifetime_epsilon, other_people, signing_key, terms_key, record_access, anchor.",
    ),
    (
        {"input.columns.booklet": "form"},
        "input.columns.booklet: unknown key. Only another kind of this section has it. Known"
        " here: user, left, right, outcome, winner, winner_values, loser, event, epsilon, weight,"
        " pairs, first.",
    ),
]
WRONG_VALUES = [
    (
        {"privacy.epsilon": 0},
        "privacy.epsilon: must be > 0, got 0; write for example epsilon: 2.0",
    ),
    (
        {"privacy.epsilon": -1.5},
        "privacy.epsilon: must be > 0, got -1.5; write for example epsilon: 2.0",
    ),
    (
        {"privacy.epsilon": math.nan},
        "privacy.epsilon: must be > 0, got nan; write for example epsilon: 2.0",
    ),
    (
        {"privacy.epsilon": "two"},
        "privacy.epsilon: must be a number, got 'two'; write for example epsilon: 2.0",
    ),
    (
        {"privacy.epsilon": True},
        "privacy.epsilon: must be a number, got true; write for example epsilon: 2.0",
    ),
    (
        {"privacy.max_contributions": 0},
        "privacy.max_contributions: must be >= 1, got 0; write for example max_contributions: 10",
    ),
    (
        {"privacy.max_contributions": 1.5},
        "privacy.max_contributions: must be a whole number, got 1.5;"
        " write for example max_contributions: 10",
    ),
    (
        {"privacy.distinct_pairs": "ja"},
        "privacy.distinct_pairs: must be true or false, got 'ja';"
        " write for example distinct_pairs: true",
    ),
    (
        {"privacy.unit": "users"},
        "privacy.unit: must be comparison, user or local, got 'users'. Did you mean user?",
    ),
    (
        {"privacy.delta": 1},
        "privacy.delta: must be < 1, got 1; write for example delta: 1.0e-6",
    ),
    (
        {"method": "noisy-count"},
        "method: must be auto, noisy-counts, noisy-pairs, win-loss, perturbed-mle,"
        " noisy-objective, one-shot, debiased-rr, classic-rr, laplace-rr, rr-counts, spectral,"
        " totals, spectral-rr, instant-runoff, precinct-table, kemeny, borda,"
        " bradley-terry, footrule or personalized,"
        " got 'noisy-count'. Did you mean noisy-counts?",
    ),
    (
        {"input.ties": "dropped"},
        "input.ties: must be drop, split, random or model, got 'dropped'. Did you mean drop?",
    ),
    (
        {"input.on_bad_rows": "ignore"},
        "input.on_bad_rows: must be set-aside or fail, got 'ignore'",
    ),
    (
        {"input.format": "xlsx"},
        "input.format: must be parquet, csv, jsonl, avro, orc, arrow, preflib, excel or spss, got"
        " 'xlsx'",
    ),
    (
        {"input.kind": "ballots"},
        "input.kind: must be comparisons or responses or rankings, got 'ballots'",
    ),
    (
        {"input.paths": "survey.csv"},
        "input.paths: must be a list, got 'survey.csv';"
        " write for example paths: [survey/*.parquet]",
    ),
    (
        {"input.paths": []},
        "input.paths: is empty; write for example paths: [survey/*.parquet]",
    ),
    (
        {"input.paths": ["ftp://bucket/a.csv"]},
        "input.paths[0]: must be a local path or start with gs://, s3://, abfs://, abfss://,"
        " iceberg://, delta:, bigquery://, got 'ftp://bucket/a.csv'",
    ),
    (
        {"input.columns.user": 7},
        "input.columns.user: must be text, got 7; write for example user: user",
    ),
    (
        {"name": "campus choice"},
        "name: must be 1 to 100 letters, digits, '.', '_' or '-', got 'campus choice'; rename it",
    ),
    (
        {"name": "../other"},
        "name: must be 1 to 100 letters, digits, '.', '_' or '-', got '../other'; rename it",
    ),
    (
        {"output": "s3://bucket/out"},
        "output: must be a local path or start with gs://, got 's3://bucket/out'",
    ),
    (
        {"output": "gs://bucket"},
        "output: must name something in the bucket, for example gs://bucket/campus",
    ),
    (
        {"ledger.path": "gs://bucket//l"},
        "ledger.path: must not have an empty part, '.' or '..' between slashes: 'gs://bucket//l'",
    ),
    (
        {"output": "gs://bucket/a", "confidential": "gs://bucket/a/b"},
        "confidential: and output must not contain each other; name separate folders",
    ),
    (
        {"output": "gs://bucket/a", "ledger.path": "gs://bucket/a/ledger.jsonl"},
        "ledger.path: must not be in output, which holds files that may be published; move it",
    ),
    ({"output": ""}, "output: must not be empty"),
    (
        {"output": 3},
        "output: must be a path, got 3; write for example output: out/campus",
    ),
    (
        {"ledger.epsilon": math.inf},
        "ledger.epsilon: must be finite, got inf; write for example epsilon: 10",
    ),
    (
        {"ledger.refresh": "hourly"},
        "ledger.refresh: must be daily, weekly, monthly or yearly, got 'hourly'",
    ),
    (
        {"runner": "storm"},
        "runner.kind: must be local or flink or spark or prism or dataflow, got 'storm'",
    ),
    (
        {"ledger": ["path"]},
        "ledger: must hold keys, got a list;"
        " write for example ledger: {path: .hushrank/ledger.jsonl, epsilon: 10}",
    ),
    (
        {"privacy": ABSENT},
        "privacy: missing; add for example"
        " privacy: {unit: user, epsilon: 2.0, max_contributions: 10}",
    ),
    ({"ledger.epsilon": ABSENT}, "ledger.epsilon: missing; add for example epsilon: 10"),
]
BROKEN_RULES = [
    ({"privacy.epsilon": ABSENT}, "privacy.epsilon: missing; add for example epsilon: 2.0"),
    (
        {"privacy.max_contributions": ABSENT},
        "privacy.max_contributions: missing; unit: user needs the most rows of one person that"
        " count. Add for example max_contributions: 10",
    ),
    (
        {"privacy": {"unit": "comparison", "epsilon": 1, "max_contributions": 1}},
        "privacy.max_contributions: bounds one person's rows; remove it, or set unit: user",
    ),
    (
        {"privacy": {"unit": "comparison", "epsilon": 1, "distinct_pairs": True}},
        "privacy.distinct_pairs: bounds what one user contributes: it needs unit: user,"
        " got unit: comparison",
    ),
    (
        {"privacy.per_item_cap": 16},
        "privacy.per_item_cap: must be between 1 and max_contributions (15), got 16",
    ),
    (
        {"privacy.noise": "gaussian"},
        "privacy.delta: missing; noise: gaussian needs it. Add for example delta: 1.0e-6",
    ),
    (
        {"privacy.delta": 1e-6},
        "privacy.noise: laplace is pure DP: it takes neither delta nor rho;"
        " remove it or set noise: gaussian",
    ),
    (
        {"privacy.rho": 0.5, "privacy.epsilon": ABSENT},
        "privacy.noise: laplace is pure DP: it takes neither delta nor rho;"
        " remove it or set noise: gaussian",
    ),
    (
        {"privacy.rho": 0.5, "privacy.noise": "gaussian"},
        "privacy.rho: stands for the whole guarantee; remove it, or remove epsilon and delta",
    ),
    (
        {"input.columns": {"outcome": "o", "winner": "w"}},
        "input.columns: needs exactly one of outcome and winner",
    ),
    (
        {"input.columns": {"left": "x", "right": "x"}},
        "input.columns.right: column x is left already; name another",
    ),
    (
        {"input.columns.epsilon": "eps"},
        "input.columns.epsilon: a personal epsilon only counts where each person's answers are"
        " privatised one by one; under unit comparison or user everybody is protected at"
        " privacy.epsilon. Remove this line",
    ),
    ({"items": {}}, "items: needs exactly one of names, count, file and discover"),
    (
        {"items": {"count": 3, "names": ["a", "b"]}},
        "items: needs exactly one of names, count, file and discover",
    ),
    (
        {"items.names": ["London", "Paris", "London"]},
        "items.names: item London occurs 2 times; each item must have a name of its own",
    ),
    ({"items.names": ["London"]}, "items.names: a ranking needs at least 2 items, got 1"),
    ({"items.names": ["London", " "]}, "items.names[1]: must not be empty, got ' '"),
    (
        {"items.names": ["London", 1.5]},
        "items.names[1]: must be text, got 1.5; put it in quotes",
    ),
    (
        {"items.names": ["London", None]},
        "items.names[1]: must be text, got nothing; put it in quotes",
    ),
    (
        {"items.names": ["London", True]},
        "items.names[1]: must be text, got true; put it in quotes",
    ),
    ({"items": {"count": 1}}, "items.count: must be >= 2, got 1; write for example count: 6"),
    (
        {"items": {"count": 10**12}},
        "items.count: must be <= 1000000, got 1000000000000; write for example count: 6",
    ),
    (
        {"items.names": ["Tie", "Bow"], "input.columns": {"winner": "w"}},
        "items: an item is named tie, which means a tie in column winner; rename it",
    ),
    (
        {"privacy": {"unit": "comparison", "epsilon": 1.0, "names_per_person": 2}},
        "privacy.names_per_person: is for unit: user; unit: comparison protects each row, whoever"
        " gave it. Remove it, or set unit: user",
    ),
    (
        {"privacy.names_per_person": 3, "method": "perturbed-mle"},
        "privacy.names_per_person: is for methods that add noise to counts, as the proof here is of"
        " one name; set method: noisy-pairs",
    ),
    (
        {"privacy.names_per_person": 0},
        "privacy.names_per_person: must be >= 1, got 0; write for example names_per_person: 3",
    ),
    (
        {
            "privacy": {"unit": "local", "epsilon": 1.0, "names_per_person": 2},
            "method": "debiased-rr",
            "input.ties": "random",
        },
        "privacy.names_per_person: is for unit: user; under unit: local each answer has noise of"
        " its own, so for k names of a person divide epsilon, or the epsilons of the answers, by"
        " k, and remove this",
    ),
    ({"top_k": 0}, "top_k: must be >= 1, got 0; write for example top_k: 3"),
    (
        {"memory_limit": "2 gigs"},
        "memory_limit: must be bytes, or a size such as 2 GiB or 1500 MB, got '2 gigs'",
    ),
    ({"top_k": 6}, "top_k: must be below the number of items (6), got 6"),
    (
        {"confidential": "out/campus/work"},
        "confidential: and output must not contain each other; name separate folders",
    ),
    (
        {"output": ".hushrank/work/out"},
        "confidential: and output must not contain each other; name separate folders",
    ),
    (
        {"ledger.path": "out/campus/ledger.jsonl"},
        "ledger.path: must not be in output, which holds files that may be published; move it",
    ),
    (
        {"ledger.path": ".hushrank/work/ledger.jsonl"},
        "ledger.path: must not be in confidential: clearing that folder would delete the"
        " record of spending; move it",
    ),
    *(
        (
            {"observability": {key: ".hushrank/ledger.jsonl"}},
            f"observability.{key}: and ledger.path are one place; hushrank must never write where"
            " it reads; name another place",
        )
        for key in ("log", "metrics")
    ),
    (
        {"observability": {"support": "out/campus/support"}},
        "observability.support: is in output, in which nothing else may be; name another place",
    ),
]


@pytest.mark.parametrize(("changes", "message"), UNKNOWN_KEYS + WRONG_VALUES + BROKEN_RULES)
def test_a_mistake_is_named_with_its_key_rule_and_fix(changes, message):
    assert refusal(changes) == [f"survey.yaml: {message}"]


def test_every_problem_has_its_own_line():
    changes = {"privacy.epsilon": 0, "privacy.unit": "users", "inptu": 1, "method": ABSENT}
    assert refusal(changes) == [
        "survey.yaml: privacy.unit: must be comparison, user or local, got 'users'."
        " Did you mean user?",
        "survey.yaml: privacy.epsilon: must be > 0, got 0; write for example epsilon: 2.0",
        "survey.yaml: method: missing; add for example method: auto",
        "survey.yaml: inptu: unknown key. Did you mean input?",
    ]


def test_rules_between_keys_are_reported_together():
    changes = {"privacy.max_contributions": ABSENT, "privacy.noise": "gaussian"}
    assert [line.split(": ")[1] for line in refusal(changes)] == [
        "privacy.max_contributions",
        "privacy.delta",
    ]


def test_a_link_does_not_hide_that_output_holds_the_confidential_folder(tmp_path):
    (tmp_path / "out/campus").mkdir(parents=True)
    (tmp_path / "elsewhere").symlink_to(tmp_path / "out/campus")
    assert refusal({"confidential": "elsewhere/work"}) == [
        "survey.yaml: confidential: and output must not contain each other; name separate folders"
    ]


WORDS_AND_LOSERS = [
    (
        {"input.columns": {"outcome": "o", "loser": "l"}},
        ["input.columns.loser: needs columns.winner, the item that won; add it"],
    ),
    (
        {"input.columns": {"winner": "w", "loser": "l", "left": "x"}},
        ["input.columns.left: has no effect if winner and loser name the items; remove it"],
    ),
    (
        {"input.columns": {"winner": "w", "loser": "l"}, "input.words": {"tie": ["draw"]}},
        ["input.words: have no effect if winner and loser name the items; remove it"],
    ),
    (
        {"input.words": {"left": ["a"], "right": ["A "]}},
        ["input.words.right: the word A  stands for left already"],
    ),
    (
        {"input.words": {"tie": ["draw"]}},
        [
            "input.words.left: missing; which words say that the left item won?",
            "input.words.right: missing; which words say that the right item won?",
        ],
    ),
    (
        {"input.columns": {"winner": "w"}, "input.words": {"left": ["paris"], "tie": ["draw"]}},
        [
            "input.words: the word paris also names an item in column w. If that column holds no"
            " item, write columns.outcome instead of columns.winner; otherwise rename one of the"
            " two"
        ],
    ),
    (
        {"input.columns": {"winner": "w", "winner_values": {"left": 1, "right": 2, "tie": [0]}}},
        [
            f"input.columns.winner_values: the word {word} also names {item} in column w. If"
            " that column holds no item, write columns.outcome instead of columns.winner; otherwise"
            " rename one of the two"
            for word, item in ((1, "item London"), (2, "item Milano"), (0, "item Barcelona"))
        ],
    ),
    (
        {
            "input.columns": {"winner": "w", "winner_values": {"tie": "d"}},
            "input.words": {"tie": "d"},
        },
        ["input.columns.winner_values: says what words says; remove one of the two"],
    ),
    (
        {"input.columns": {"outcome": "o", "winner_values": {"tie": "d"}}},
        [
            "input.columns.winner_values: needs columns.winner; add that, or write input.words",
        ],
    ),
    (
        {"input.words": {}},
        ["input.words: needs at least one word for left or right or tie; or remove it"],
    ),
]


@pytest.mark.parametrize(("changes", "messages"), WORDS_AND_LOSERS)
def test_words_and_losers_fit_the_columns(changes, messages):
    assert refusal(changes) == [f"survey.yaml: {message}" for message in messages]


def test_a_winner_and_a_loser_are_the_two_items():
    config = load(input__columns={"user": "u", "winner": "w", "loser": "l"})
    columns = config.comparison_columns()
    assert (columns.left, columns.right, columns.winner) == ("w", "l", "w")
    assert columns.names() == ["w", "l", "u"]


def test_words_may_look_like_numbers_and_truths():
    Path("survey.yaml").write_text(
        CONTRACT.replace("  ties:", "  words: {left: [1, yes], right: [2, false]}\n  ties:")
    )
    words = load_config(Path("survey.yaml")).comparison_columns().words
    assert words.meanings == (("1", 1), ("yes", 1), ("2", -1), ("false", -1))


def test_a_missing_items_file_is_named(tmp_path):
    assert refusal({"items": {"file": "items.csv"}}) == [
        f"survey.yaml: items.file: {tmp_path}/items.csv: no such file;"
        " relative paths start at the YAML file"
    ]


CHANGES_THE_RELEASE = [
    {"name": "other"},
    {"input.paths": ["other.csv"]},
    {"input.columns.left": "other"},
    {"input.ties": "split"},
    {"input.on_bad_rows": "fail"},
    {"input.format": "csv"},
    {"input.multiline": True},
    {"input.delimiter": ";"},
    {"input.delimiter": "tab"},
    {"input.columns": {"user": "user", "winner": "item_i", "loser": "item_j"}},
    {"input.words": {"left": ["1"], "right": ["2"], "tie": ["0"]}},
    {"input.words": {"left": ["1"], "right": ["2"], "tie": ["3"]}},
    {"items": {"names": ["London", "Barcelona", "Milano", "Paris", "St.Gallen", "Stockholm"]}},
    {"items": {"count": 6}},
    {"privacy.unit": "comparison", "privacy.max_contributions": ABSENT}
    | {"privacy.distinct_pairs": ABSENT},
    {"privacy.adjacency": "add-remove"},
    {"privacy.epsilon": 2.0000000001},
    {"privacy.epsilon": math.inf},
    {"privacy.noise": "gaussian", "privacy.delta": 1e-6},
    {"privacy.noise": "gaussian", "privacy.delta": 1e-7},
    {"privacy.noise": "gaussian", "privacy.rho": 0.5, "privacy.epsilon": ABSENT},
    {"privacy.max_contributions": 14},
    {"privacy.per_item_cap": 3},
    {"privacy.distinct_pairs": False},
    {"privacy.look": 0.02},
    {"privacy.look": 0.03},
    {"top_k": 3},
]


# Of `load(input__paths=["gs://survey/a.csv"])`, as a version without `privacy.look` computed
# it.
HASH_OF_BEFORE = "1ca0b561db10c0a0f3c5c6d7b0cd8494e13d4e3cc43b919ef003fc92f18c3275"


def test_the_job_hash_tells_apart_everything_that_changes_the_release():
    hashes = [load_config(write(changes)).job_hash() for changes in [{}, *CHANGES_THE_RELEASE]]
    assert len(set(hashes)) == len(hashes)
    assert all(len(value) == 64 and int(value, 16) >= 0 for value in hashes)


@pytest.mark.parametrize(
    "changes",
    [
        {"output": "elsewhere"},
        {"confidential": "elsewhere"},
        {"ledger": {"path": "elsewhere.jsonl", "epsilon": 3}},
        {"runner": ABSENT},
        {"privacy.epsilon": 2},
        {"privacy.delta": 0},
        {"input.on_bad_rows": "set-aside"},
        {"input.multiline": False},
        {"input.delimiter": ","},
        {"input.columns": {"left": "item_i", "right": "item_j"}},
        {"input.paths": ["./survey/../survey/*.parquet", "survey/*.parquet"]},
    ],
)
def test_the_job_hash_ignores_what_does_not_change_the_release(changes):
    assert load_config(write(changes)).job_hash() == load_config(write({})).job_hash()


def test_a_job_from_before_there_were_looks_keeps_its_identity():
    config = load(input__paths=["gs://survey/a.csv"])
    assert config.job_hash() == HASH_OF_BEFORE


def test_the_order_of_paths_is_not_part_of_the_job():
    there, back = load(input__paths=["a.csv", "b.csv"]), load(input__paths=["b.csv", "a.csv"])
    assert there.job_hash() == back.job_hash()


def test_a_changed_items_file_is_another_job():
    Path("items.txt").write_text("London\nParis\n")
    before = load(items={"file": "items.txt"})
    Path("items.txt").write_text("London\nRome\n")
    after = load(items={"file": "items.txt"})
    assert before.job_hash() != after.job_hash()
    assert before.job_hash() == load(items={"names": ["London", "Paris"]}).job_hash()


def test_labels_and_the_report_are_no_part_of_the_job():
    """What was paid for is published once: how it is written must not cost a second release."""
    Path("items.csv").write_text("item,name\nl,London\np,Paris\n")
    before = load(items={"file": "items.csv"})
    Path("items.csv").write_text("item,name\nl,Londres\np,Paris\n")
    after = load(items={"file": "items.csv"})
    assert before.items.labels() == {"l": "London", "p": "Paris"}
    assert after.items.labels()["l"] == "Londres"
    assert before.job_hash() == after.job_hash()
    assert before.job_hash() == load(items={"names": ["l", "p"]}).job_hash()


def test_a_label_that_does_not_show_as_itself_is_refused():
    Path("items.csv").write_text("item,name\na,A\nb,B\u202eC\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"items.file: an item's name holds .u202e"):
        load(items={"file": "items.csv"})
