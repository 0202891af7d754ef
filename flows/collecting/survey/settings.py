"""`survey.json`: what the page is told of a configuration. All of it is public."""

from __future__ import annotations

import json

from hushrank.flows.collecting.survey.texts import PageTexts
from hushrank.flows.config.collect import CollectConfig
from hushrank.flows.config.comparisons import InputConfig
from hushrank.flows.config.privacy import RankingChoice
from hushrank.flows.config.rankings import RankingsConfig
from hushrank.flows.config.responses import ResponsesConfig
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.privacy.random_pairs import Hide, n_pairs

SCHEMA = 1  # of survey.json, and of what the page sends
USUAL_EPSILON = 1.0


def collect_of(config: SurveyConfig) -> CollectConfig:
    """The section `collect`; ConfigError where the file has none."""
    if config.collect is None:
        raise ConfigError(
            "collect: missing; it says how people are asked. Add for example"
            " collect: {folder: answers}"
        )
    return config.collect


def mode_of(config: SurveyConfig) -> str:
    """How people are asked, and how what they say is privatised."""
    if isinstance(config.input, ResponsesConfig):
        return "test"
    if isinstance(config.input, RankingsConfig):
        pairs = config.privacy.mechanism is RankingChoice.RANDOM_PAIRS
        return "random-pairs" if pairs else "mallows"
    return "ranked-pairs" if collect_of(config).ranks(config.input) else "pairs"


def page_settings(config: SurveyConfig, pages: dict[str, PageTexts]) -> str:
    """The text of `survey.json`.

    Args:
        config: the checked configuration, with a section `collect`.
        pages: the texts of every language, the usual one first.
    """
    collect, items, privacy = collect_of(config), config.items, config.privacy
    names, labels = items.catalogue().names, items.labels()
    low, high = privacy.epsilon_range or (privacy.epsilon or 0.0, privacy.epsilon or 0.0)
    if privacy.epsilon is not None:
        low = high = privacy.epsilon
    start = collect.start_epsilon or min(max(USUAL_EPSILON, low), high)
    content = {
        "schema": SCHEMA,
        "survey": config.name,
        "kind": config.input.kind,
        "mode": mode_of(config),
        "url": collect.url,
        "items": [{"name": name, "label": labels.get(name, name)} for name in names],
        "questions": _questions(config, len(names)),
        "shown": collect.items_shown(len(names)),
        "epsilon": {"low": low, "high": high, "start": start},
        "hide": privacy.hide.value,
        "noIsRight": list(collect.no_is_right),
        "tokens": collect.tokens,
        "languages": {
            language: {"texts": dict(page.texts), "items": dict(page.items)}
            for language, page in pages.items()
        },
    }
    return json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def _questions(config: SurveyConfig, n_items: int) -> int:
    """Questions of a respondent; of private answers out of a ranking, how many."""
    collect, privacy = collect_of(config), config.privacy
    if isinstance(config.input, InputConfig | ResponsesConfig):
        return collect.answers_of_a_person(config.input, n_items)
    among = n_items if privacy.hide is Hide.ITEMS else collect.items_shown(n_items)
    return min(privacy.pairs or 1, n_pairs(among))
