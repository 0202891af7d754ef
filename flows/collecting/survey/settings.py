"""Settings of the page (`survey.json`, all of it public), its texts, and the browser's policy.

Texts come by language from hushrank and from the survey's own file:

    en:
      title: Where do you want to study?
      items: {LSE: London School of Economics}   # labels of items in this language

A language that hushrank has needs only the texts that change; another one needs all of them. The
policy lets the page load its own files and send answers to the collector, and no more.

`hushrank survey build`: write the files of the page.

index.html names the digest of every other file, and browsers refuse a file with another one. So the
digest of index.html stands for the whole page: who knows it can check what a host serves.

References:
    W3C. Content Security Policy Level 3. Trusted Types: no text ever becomes HTML or script.
"""

from __future__ import annotations

import base64
import difflib
import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from jinja2 import Environment, StrictUndefined

from hushrank.flows.config.collect import CollectConfig
from hushrank.flows.config.comparisons import InputConfig
from hushrank.flows.config.items import rows_of
from hushrank.flows.config.privacy import PrivacyConfig, RankingChoice
from hushrank.flows.config.rankings import RankingsConfig
from hushrank.flows.config.responses import ResponsesConfig
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.config.yaml_file import read_yaml
from hushrank.flows.errors import ConfigError
from hushrank.privacy.random_pairs import Hide, n_pairs
from hushrank.privacy.units import Levels
from hushrank.transforms.common.plain_text import read_cell
from hushrank.transforms.storage.places import write_whole

BUILT_IN = ("de", "en", "es", "fr", "pt")
ITEMS = "items"
OF_ABOUT = frozenset({"asker", "privacy_notice", "closes", "closed"})  # said with collect.about
MOST_CHARACTERS = 5_000
_VALUE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTexts:
    """Texts of the page in one language.

    Attributes:
        texts: texts by key; `{name}` in a text stands for a value.
        items: labels of items, where they differ from those of the catalogue.
    """

    texts: Mapping[str, str]
    items: Mapping[str, str]


@cache
def built_in(language: str) -> Mapping[str, str]:
    """Texts of hushrank in `language`, one of `BUILT_IN`."""
    file = files("hushrank.flows.collecting.survey").joinpath("files", f"texts.{language}.yaml")
    found: dict[str, str] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return found


def texts_of(config: SurveyConfig) -> dict[str, PageTexts]:
    """Read the texts of every language of the page, in the order of `collect.languages`.

    Raises:
        ConfigError: the file of texts cannot be read or breaks a rule, or lacks a text; one line
            for each problem found.
    """
    if config.collect is None:
        raise ConfigError("collect: missing; add for example collect: {folder: answers}")
    own = _own_texts(config.collect.texts)
    where = str(config.collect.texts or "collect.texts")
    names = frozenset(config.items.catalogue.names)
    problems = [f"{where}: {text}" for text in _problems(own, names)]
    if problems:
        raise ConfigError("\n".join(problems[:12]))
    pages = {
        language: _page(own.get(language, {}), language) for language in config.collect.languages
    }
    for language, page in pages.items():
        needed = built_in("en").keys() - (OF_ABOUT if config.collect.about is None else frozenset())
        missing = sorted(needed - page.texts.keys())
        if missing:
            raise ConfigError(
                f"{where}: {language}: lacks {', '.join(missing)}; hushrank has texts in"
                f" {', '.join(BUILT_IN)}; another language needs all of them"
            )
    return pages


def _own_texts(path: Path | None) -> Mapping[object, object]:
    if path is None:
        return {}
    if not path.exists():
        raise ConfigError(f"collect.texts: {path}: no such file; relative paths start at the YAML")
    return read_yaml(path)


def _page(own: object, language: str) -> PageTexts:
    given = dict(own) if isinstance(own, dict) else {}
    items = given.pop(ITEMS, {})
    known = built_in(language) if language in BUILT_IN else {}
    return PageTexts(texts={**known, **given}, items=dict(items))


def _problems(own: Mapping[object, object], names: frozenset[str]) -> Iterator[str]:
    for language, texts in own.items():
        if not isinstance(texts, dict):
            yield f"{language}: must hold lines such as `title: Which do you prefer?`"
            continue
        for key, text in texts.items():
            if key == ITEMS:
                yield from _problems_of_items(str(language), text, names)
            elif key not in built_in("en"):
                yield f"{language}.{key}: unknown text{_meant(str(key))}"
            else:
                yield from _problems_of_text(f"{language}.{key}", text, built_in("en")[key])


def _problems_of_items(language: str, labels: object, names: frozenset[str]) -> Iterator[str]:
    if not isinstance(labels, dict):
        yield f"{language}.{ITEMS}: must hold lines of an item and its label"
        return
    for name, label in labels.items():
        if name not in names:
            yield f"{language}.{ITEMS}.{name}: is not in the catalogue; correct or remove it"
        yield from _problems_of_text(f"{language}.{ITEMS}.{name}", label, "")


def _problems_of_text(key: str, text: object, model: str) -> Iterator[str]:
    if not isinstance(text, str) or not text.strip():
        yield f"{key}: must be text; put it in quotes"
        return
    if len(text) > MOST_CHARACTERS:
        yield f"{key}: is longer than {MOST_CHARACTERS} characters; shorten it"
    if key.rpartition(".")[2] == "introduction":
        model += "{questions} {shown}"
    for name in sorted(set(_VALUE.findall(text)) - set(_VALUE.findall(model))):
        known = ", ".join(f"{{{each}}}" for each in dict.fromkeys(_VALUE.findall(model)))
        yield f"{key}: {{{name}}} stands for nothing here; known: {known or 'none'}"


def _meant(key: str) -> str:
    close = difflib.get_close_matches(key, built_in("en"), n=1)
    return f". Did you mean {close[0]}?" if close else f"; known: {', '.join(built_in('en'))}"


_DIRECTIVES = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src data:",  # the empty icon, so that browsers do not ask for one
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
)


def page_policy(url: str) -> str:
    """Build the content-security policy of the page, as its meta element states it.

    Args:
        url: `collect.url`; its origin is the only one besides the page's own.
    """
    parts = urlsplit(url)
    origin = f" {parts.scheme}://{parts.netloc}" if parts.netloc else ""
    return "; ".join((*_DIRECTIVES, f"connect-src 'self'{origin}"))


def page_headers(url: str) -> dict[str, str]:
    """Build the recommended headers of the page's files.

    The headers repeat the policy and add what a meta element cannot say: that no page may frame
        this one.
    """
    return {
        "Content-Security-Policy": f"{page_policy(url)}; frame-ancestors 'none'",
        "Cache-Control": "no-cache",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=(), browsing-topics=()",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }


SCHEMA = 1  # version of survey.json, and of what the page sends
OFFERED = 4  # epsilons of a range among which people choose
USUAL_EPSILON = 1.0


def collect_of(config: SurveyConfig) -> CollectConfig:
    """Return the section `collect`; ConfigError if the file has none."""
    if config.collect is None:
        raise ConfigError(
            "collect: missing; it says how people are asked. Add for example"
            " collect: {folder: answers}"
        )
    return config.collect


def mode_of(config: SurveyConfig) -> str:
    """Mode of the page: how people are asked, and how their answers are privatised."""
    if isinstance(config.input, ResponsesConfig):
        return "test"
    if isinstance(config.input, RankingsConfig):
        pairs = config.privacy.mechanism is RankingChoice.RANDOM_PAIRS
        return "random-pairs" if pairs else "mallows"
    return "ranked-pairs" if collect_of(config).ranks(config.input) else "pairs"


def offered_levels(privacy: PrivacyConfig) -> Levels:
    """The few epsilons that the page offers: a choice among many would tell people apart.

    Of a range they are its ends and two levels between them, at equal ratios.
    """
    levels = privacy.levels()
    if privacy.epsilon_levels is not None or len(levels) <= OFFERED:
        return levels
    return tuple(levels[round(k * (len(levels) - 1) / (OFFERED - 1))] for k in range(OFFERED))


def page_settings(config: SurveyConfig, pages: dict[str, PageTexts]) -> str:
    """Build the text of `survey.json`.

    Args:
        config: the checked configuration, with a section `collect`.
        pages: the texts of every language, the usual one first.
    """
    collect, items, privacy = collect_of(config), config.items, config.privacy
    names, labels = items.catalogue.names, items.labels()
    levels = offered_levels(privacy)
    wanted = math.log(collect.start_epsilon or USUAL_EPSILON)
    start = min(levels, key=lambda each: abs(math.log(each) - wanted))
    content = {
        "schema": SCHEMA,
        "survey": config.name,
        "kind": config.input.kind,
        "mode": mode_of(config),
        "url": collect.url,
        "items": [{"name": name, "label": labels.get(name, name)} for name in names],
        "questions": _questions(config, len(names)),
        **_pairs(config, names),
        "shown": collect.items_shown(len(names)),
        "epsilon": {"levels": levels, "start": start},
        "hide": privacy.hide.value,
        "noIsRight": list(collect.no_is_right),
        "tokens": collect.tokens,
        "about": _about(config),
        "languages": {
            language: {"texts": dict(page.texts), "items": dict(page.items)}
            for language, page in pages.items()
        },
    }
    return json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def _pairs(config: SurveyConfig, names: Sequence[str]) -> dict[str, list[list[float]]]:
    """The pairs that the page asks, as places of their items and a share; empty: all alike."""
    path, asked = collect_of(config).pairs, _questions(config, len(names))
    if path is None:
        return {}
    try:
        shares = _shares(path, names)
        if len(shares) < asked:
            raise ValueError(
                f"has {len(shares)} pairs, and a respondent is asked about {asked}; write"
                f" collect.questions: {len(shares)} or less"
            )
    except ValueError as error:
        raise ConfigError(f"collect.pairs: {path}: {error}") from None
    return {"pairs": [[one, other, share] for (one, other), share in shares.items()]}


def _shares(path: Path, names: Sequence[str]) -> dict[tuple[int, int], float]:
    header, rows = rows_of(path)
    if not {"left", "right", "share"} <= header or not rows:
        raise ValueError("needs rows, under the header left,right,share")
    place, found = {name: at for at, name in enumerate(names)}, dict[tuple[int, int], float]()
    for line, row in rows:
        sides = [read_cell((row[side] or "").strip()) for side in ("left", "right")]
        if unknown := [name for name in sides if name not in place]:
            raise ValueError(
                f"line {line}: item {unknown[0][:80]!r} is not in the catalogue; choose pairs again"
            )
        one, other = sorted(place[name] for name in sides)
        share = _share(row["share"] or "")
        if one == other or (one, other) in found or not 0 < share <= 1:
            raise ValueError(
                f"line {line}: needs two different items, each pair once, and a share above 0 and"
                " at most 1; choose pairs again with hushrank next-pairs"
            )
        found[one, other] = share
    return found


def _share(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _about(config: SurveyConfig) -> dict[str, str | None] | None:
    """Who asks and until when; None: the file does not say it."""
    collect = collect_of(config)
    if (about := collect.about) is None:
        return None
    closing = collect.closing(config.schedule)
    return {
        "organisation": about.organisation,
        "contact": about.contact,
        "privacyNotice": about.privacy_notice,
        "lastDay": None if about.closes is None else about.closes.isoformat(),
        "closing": None if closing is None else closing.isoformat(),
    }


def _questions(config: SurveyConfig, n_items: int) -> int:
    """Number of questions for a respondent; for private rankings, the number of pairs."""
    collect, privacy = collect_of(config), config.privacy
    if isinstance(config.input, InputConfig | ResponsesConfig):
        return collect.answers_of_a_person(config.input, n_items)
    among = n_items if privacy.hide is Hide.ITEMS else collect.items_shown(n_items)
    return min(privacy.pairs or 1, n_pairs(among))


INDEX, SETTINGS, HEADERS = "index.html", "survey.json", "_headers"
PUBLIC = 0o644  # a web server may run as another user
COPIED = ("hushrank.js", "page.js", "survey.css")


def build_site(config: SurveyConfig) -> dict[str, bytes]:
    """Build the files of the page by name, `index.html` last.

    Raises:
        ConfigError: there is no section `collect`, or a text is missing or wrong.
    """
    collect, pages = collect_of(config), texts_of(config)
    made = {name: _resource(name) for name in COPIED}
    made[SETTINGS] = page_settings(config, pages).encode()
    headers = page_headers(collect.url)
    lines = ["/*", *(f"  {name}: {value}" for name, value in headers.items())]
    made[HEADERS] = ("\n".join(lines) + "\n").encode()
    language, page = next(iter(pages.items()))
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string(_resource("index.html.jinja").decode())
    digests = {name: digest(content) for name, content in made.items()}
    made[INDEX] = template.render(
        language=language,
        texts=page.texts,
        policy=page_policy(collect.url),
        settings=digests[SETTINGS],
        digests=digests,
    ).encode()
    return made


def write_site(made: dict[str, bytes], out: Path) -> None:
    """Write the files into `out`, which is made, or is an older build.

    Raises:
        ConfigError: `out` has files that no build makes, or cannot be written.
    """
    try:
        strange = (
            sorted({path.name for path in out.iterdir()} - made.keys()) if out.exists() else []
        )
        if strange:
            raise ConfigError(
                f"{out}: holds {strange[0][:80]}, which is not of a survey page; name a new folder"
            )
        out.mkdir(parents=True, exist_ok=True)
        for name, content in made.items():
            write_whole(str(out / name), content)
            (out / name).chmod(PUBLIC)
    except OSError as error:
        raise ConfigError(
            f"{out}: cannot be written ({error.strerror}); name another folder"
        ) from None


def digest(content: bytes) -> str:
    """The SHA-256 of a file, in the form of the attribute `integrity`."""
    return f"sha256-{base64.b64encode(hashlib.sha256(content).digest()).decode()}"


def _resource(name: str) -> bytes:
    return files("hushrank.flows.collecting.survey").joinpath("files", name).read_bytes()
