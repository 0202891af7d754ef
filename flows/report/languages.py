"""The report in another language: the English page, sentence by sentence, through a catalogue.

English is the source: `release.json` holds English sentences, which the verifier checks, and older
releases hold them too. So a page is made in English first, and then each text of it is looked up.
The catalogues are files of gettext (`texts.de.po`); Babel reads them, and knows how a language
writes numbers and days. They are loaded only if somebody asks for another language.

A text of the catalogue may have slots. The name of a slot begins with its kind:

| kind | stands for | is written |
|---|---|---|
| `n` | a number; `open` and `unbounded` too | as the language writes it |
| `item` | the name of an item or a group | as it is |
| `items` | a list of names, with "and" or "and 3 more" | with the word for "and" |
| `chances` | a list of names, each with its chance in brackets | likewise |
| `date` | a day, with a time of day or without | as the language writes it |
| `part` | another text of the catalogue | translated |
| `text` | anything else, such as a version | as it is |

Names are never looked up: the template marks them with `translate="no"`, and a slot of names takes
nothing but names of the release. A text that is missing in a catalogue stays English, is marked as
English, and is counted in a note at the top of the page.

References:
    GNU gettext manual, sections 3 (PO files) and 11.2.6 (plural forms).
    WHATWG. HTML Living Standard, section 3.2.6.2 (the translate attribute).
"""

from __future__ import annotations

import gettext
import html
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache, cached_property
from importlib.resources import files

from babel import Locale
from babel.dates import format_date
from babel.messages.pofile import read_po
from babel.numbers import format_decimal, get_decimal_symbol, get_group_symbol

from hushrank.flows.release.release import Release
from hushrank.flows.report.svg import ELLIPSIS

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
NUMBER = r"(?:10\^)?[-+−]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[-+]?\d+)?"
DAY = rf"\d{{1,2}} (?:{'|'.join(MONTHS)}) \d{{4}}(?:, \d\d:\d\d UTC)?"
KINDS = {"n": rf"[<>]?{NUMBER}|open|unbounded", "date": DAY}  # all other kinds take any text
_SLOT = re.compile(r"\{(([a-z]+)\d*)\}")
_NUMBER = re.compile(NUMBER)
_ONLY_NUMBERS = re.compile(r"[-+−\d\s.,–%<>()=‹›/·:^…]*(?:\d[e^][-+]?\d+)?")
_PART = re.compile(r"(<(style|script)\b.*?</\2>|<!--.*?-->|<[^>]*>)", re.DOTALL)
_TAG = re.compile(r"<(/?)([a-zA-Z0-9]+)")
_ATTRIBUTE = re.compile(r'( (?:aria-label|title|placeholder|data-text-[a-z]+)=")([^"]*)"')
_SENTENCE_ENDS = re.compile(r"(?<=[.:?]) ")
_CHANCE = re.compile(rf"(.+) \(([<>]?{NUMBER} %)\)")
_MORE = re.compile(r"(.*) and (\d+) more")
MOST_PARTS = 12  # sentences of one text
ENGLISH = '<html lang="en" data-decimal="." data-group=",">'
VOID = {"meta", "link", "br", "input", "img", "use", "circle", "line", "rect", "path"}
TRANSLATED = (
    "This page was translated from the English release.json, whose text decides. References are in"
    " English."
)
MISSING = (
    "{n} text of this page exists in English only.",
    "{n} texts of this page exist in English only.",
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A text of the catalogue.

    Attributes:
        pattern: expression of the English text.
        slots: names of its slots.
        said: translations, one for each plural form.
    """

    pattern: re.Pattern[str]
    slots: tuple[str, ...]
    said: tuple[str, ...]


@dataclass(frozen=True)
class Catalogue:
    """All texts of one language.

    Attributes:
        locale: how the language writes numbers and days.
        entries: its texts.
        plural: the plural form of a whole number.
    """

    locale: Locale
    entries: tuple[Entry, ...]
    plural: Callable[[int], int]

    @cached_property
    def separators(self) -> tuple[str, str]:
        """Sign before the decimals, and the one between thousands."""
        return get_decimal_symbol(self.locale), get_group_symbol(self.locale)

    def number(self, text: str) -> str:
        """Write an English number, with all its digits, as the language does."""
        whole, point, decimals = text.partition(".")
        if "," in whole:
            digits = whole.lstrip("-+−")
            sign = whole.removesuffix(digits)
            whole = sign + format_decimal(int(digits.replace(",", "")), locale=self.locale)
        return f"{whole}{self.separators[0]}{decimals}" if point else whole

    def day(self, text: str) -> str:
        """Write an English day as the language does; the time of day stays."""
        day, comma, time = text.partition(",")
        number, month, year = day.split(" ")
        when = date(int(year), MONTHS.index(month) + 1, int(number))
        return format_date(when, "long", locale=self.locale) + comma + time


@cache
def catalogue_of(language: str) -> Catalogue:
    """Read the catalogue of a language.

    Args:
        language: `de`, `es`, `fr` or `pt`.
    """
    place = files("hushrank.flows.report").joinpath(f"texts.{language}.po")
    with place.open("rb") as file:
        read = read_po(file, locale=language, abort_invalid=True)
    entries = []
    for message in read:
        if not message.id or message.fuzzy:
            continue
        english = (message.id,) if isinstance(message.id, str) else tuple(message.id)
        said = tuple([message.string] if isinstance(message.string, str) else message.string or ())
        if all(said):
            entries += [_entry(each, said) for each in english]
    return Catalogue(Locale.parse(language), tuple(entries), gettext.c2py(read.plural_expr))


def _entry(english: str, said: tuple[str, ...]) -> Entry:
    pattern, at, slots = "", 0, []
    for slot in _SLOT.finditer(english):
        pattern += re.escape(english[at : slot.start()])
        pattern += f"({KINDS.get(slot[2], '.+?')})"
        slots.append(slot[1])
        at = slot.end()
    pattern += re.escape(english[at:])
    return Entry(re.compile(pattern, re.DOTALL), tuple(slots), said)


@dataclass
class Translator:
    """What translates the page of one release.

    Attributes:
        catalogue: texts of the language.
        names: names that are written as they are.
        missing: English texts that the catalogue lacks, in the order of the page.
    """

    catalogue: Catalogue
    names: Collection[str]
    missing: dict[str, None] = field(default_factory=dict)
    _known: dict[str, str | None] = field(default_factory=dict)

    def translate(self, english: str) -> str | None:
        """Translate a text of one or more sentences; None: the catalogue lacks a part of it."""
        if english not in self._known:
            self._known[english] = self._translate(english, MOST_PARTS)
        return self._known[english]

    def say(self, english: str) -> str:
        """Translate a text; where the catalogue lacks a part of it, it stays English."""
        said = self.translate(english)
        if said is None:
            self.missing[english] = None
        return english if said is None else said

    def _translate(self, english: str, most: int) -> str | None:
        if (whole := self._look_up(english)) is not None or most == 1:
            return whole
        for end in _SENTENCE_ENDS.finditer(english):
            first = self._look_up(english[: end.start()])
            if first is not None:
                rest = self._translate(english[end.end() :], most - 1)
                if rest is not None:
                    return f"{first} {rest}"
        return None

    def _look_up(self, english: str) -> str | None:
        if _ONLY_NUMBERS.fullmatch(english):
            return _NUMBER.sub(lambda found: self.catalogue.number(found[0]), english)
        for entry in self.catalogue.entries:
            if found := entry.pattern.fullmatch(english):
                said = self._fill(entry, found.groups())
                if said is not None:
                    return said
        return english if english in self.names else self._list(english)

    def _fill(self, entry: Entry, found: Sequence[str]) -> str | None:
        values, count = {}, None
        for slot, english in zip(entry.slots, found, strict=True):
            kind = slot.rstrip("0123456789")
            value = self._value(kind, english)
            if value is None:
                return None
            values[slot] = value
            if kind == "n" and english.replace(",", "").isdigit():  # the last number is counted
                count = int(english.replace(",", ""))
        form = 0
        if len(entry.said) > 1:
            form = len(entry.said) - 1 if count is None else self.catalogue.plural(count)
        return _SLOT.sub(lambda slot: values[slot[1]], entry.said[form])

    def _value(self, kind: str, english: str) -> str | None:
        match kind:
            case "n" if english not in ("open", "unbounded"):
                return _NUMBER.sub(lambda found: self.catalogue.number(found[0]), english)
            case "date":
                return self.catalogue.day(english)
            case "item":
                return english if english in self.names else None
            case "items" | "chances":
                return self._list(english, chances=kind == "chances")
            case "text":
                return english
        return self._translate(english, 1)

    def _list(self, english: str, *, chances: bool = False) -> str | None:
        """Translate the words between names; None: it is not a list of names."""
        tail = ""
        if more := _MORE.fullmatch(english):
            left_out = self._look_up(f"and {more[2]} more")
            if left_out is None:
                return None
            english, tail = more[1], f" {left_out}"
        names = self._names(english, chances=chances)
        if names is None:
            return None
        *before, last = names
        if tail or not before:
            return ", ".join(names) + tail
        return f"{', '.join(before)} {self._look_up('and')} {last}"

    def _names(self, english: str, *, chances: bool) -> list[str] | None:
        alone = self._named(english, chances=chances)
        if alone is not None:
            return [alone]
        for cut in re.finditer(", | and ", english):
            first = self._named(english[: cut.start()], chances=chances)
            if first is not None:
                rest = self._names(english[cut.end() :], chances=chances)
                if rest is not None:
                    return [first, *rest]
        return None

    def _named(self, english: str, *, chances: bool) -> str | None:
        if not chances:
            return english if english in self.names else None
        found = _CHANCE.fullmatch(english)
        if found is None or found[1] not in self.names:
            return None
        return f"{found[1]} ({_NUMBER.sub(lambda n: self.catalogue.number(n[0]), found[2])})"

    def page(self, page: str) -> str:
        """Translate a page or a drawing, and mark what stays English."""
        return "".join(self._parts(page))

    def whole_page(self, page: str) -> str:
        """Translate a whole page, and say at its top that it is a translation and what it lacks."""
        decimal, group = self.catalogue.separators
        page = self.page(page)
        language = self.catalogue.locale.language
        page = page.replace(
            ENGLISH, f'<html lang="{language}" data-decimal="{decimal}" data-group="{group}">', 1
        )
        notes = [TRANSLATED]
        if lacking := len(self.missing):
            notes.append(MISSING[lacking > 1].format(n=lacking))
        said = html.escape(" ".join(self.translate(note) or note for note in notes))
        return page.replace("</header>", f'<p class="quiet how">{said}</p>\n</header>', 1)

    def _parts(self, page: str) -> Iterator[str]:
        kept: list[str] = []  # open elements inside one that is not translated
        drawn = 0  # open drawings, in which names have no mark
        pieces = _PART.split(page)
        for text, tag in zip(pieces[::3], [*pieces[1::3], ""], strict=True):
            yield text if kept else self._text(text, drawn=drawn > 0)
            name = _TAG.match(tag)
            if name is None or name[2] in ("style", "script"):
                yield tag
                continue
            closes, element = bool(name[1]), name[2]
            drawn += (element == "svg") * (-1 if closes else 1)
            if kept:
                if element == kept[-1] and closes:
                    kept.pop()
                elif not closes and not tag.endswith("/>") and element not in VOID:
                    kept.append(element)
                yield tag
                continue
            if 'translate="no"' in tag:
                kept.append(element)
            yield _ATTRIBUTE.sub(self._attribute, tag)

    def _text(self, raw: str, *, drawn: bool) -> str:
        english = html.unescape(raw).replace("\N{NO-BREAK SPACE}", " ")
        core = " ".join(english.split())
        if not core or (drawn and (core in self.names or ELLIPSIS in core)):
            return raw
        said = self.translate(core)
        before = " " if english[0].isspace() else ""
        after = " " if english[-1].isspace() else ""
        if said is not None:
            return f"{before}{html.escape(said)}{after}"
        self.missing[core] = None
        return raw if drawn else f'{before}<span lang="en">{html.escape(core)}</span>{after}'

    def _attribute(self, found: re.Match[str]) -> str:
        english = html.unescape(found[2]).replace("\N{NO-BREAK SPACE}", " ")
        said = self.translate(english) if english else english
        if said is None:
            self.missing[english] = None
            return found[0]
        return f'{found[1]}{html.escape(said)}"'


def translator_of(release: Release, language: str, cut: Collection[str]) -> Translator:
    """Make what translates the page of a release.

    Args:
        release: the release of the page.
        language: `de`, `es`, `fr` or `pt`.
        cut: names of items as the page shortens them.
    """
    names = {name for line in release.ranking for name in (line.item, line.shown)}
    about = () if release.about is None else release.about.model_dump().values()
    settings = (value for value in release.privacy.parameters.values() if isinstance(value, str))
    words = (release.name, release.heading, release.method, release.privacy.mechanism)
    names.update(cut, words, (each for each in settings if " " not in each))
    names.update(str(each) for each in about if each is not None)
    names.update(group.name for group in release.groups or ())
    return Translator(catalogue_of(language), frozenset(names))
