"""Rules for answers of each kind, and the records that they become.

The rules are those of the night, applied before an answer is taken: the catalogue, the public range
of epsilon, how many answers a person gives. A record holds what the night reads and nothing else.

One-time tokens: a holder of one may send one batch of answers.

A token is 16 random bytes and the first 16 of their HMAC-SHA256 under the survey's key, so the
collector knows its own without a list. Of a used token it keeps 8 bytes of another HMAC, which tell
nobody without the key which token it was, and nothing says with which answers it came.

Tokens are no blind signatures. Whoever makes them and knows who got which, and sees requests as
they come, can link a person to the private answers of theirs. These stay private at their epsilon.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from hushrank.flows.collecting.journal import MARK_BYTES
from hushrank.flows.collecting.protocol import NO_ITEM, NO_OUTCOME, Role, RowForm
from hushrank.flows.collecting.survey.settings import collect_of
from hushrank.flows.config.comparisons import InputConfig
from hushrank.flows.config.privacy import PrivacyConfig
from hushrank.flows.config.rankings import RankingsConfig
from hushrank.flows.config.responses import ResponsesConfig
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.privacy.random_pairs import Hide, n_pairs
from hushrank.privacy.randomized_response import epsilon_of_answer
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.units import Levels
from hushrank.transforms.common.local_files import MostBytes
from hushrank.transforms.storage.places import Place, write_once

LONGEST_NAME = 1000  # characters of an item

Row = tuple[Any, ...]


class Refused(Exception):  # noqa: N818 - a refusal is a right outcome
    """Error for the sender of an answer that breaks a rule. It names the rule, never the answer."""


class Answer(BaseModel):
    """Entry of `answers`: closed to other keys, strict about types."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


Name = Annotated[str, StringConstraints(max_length=LONGEST_NAME)]
Sign = Annotated[int, Field(ge=-1, le=1)]


class ComparisonAnswer(Answer):
    """Private answer to a pair of two items."""

    left: Name
    right: Name
    outcome: Sign
    epsilon: float


class RankingAnswer(Answer):
    """Synthetic ranking, best first."""

    ranking: list[Name]
    epsilon: float


class PairAnswer(Answer):
    """Private answer to one random pair of a ranking."""

    left: Name
    right: Name
    outcome: Sign


class PairsAnswer(Answer):
    """Private answers of one ranking, and its number of items if that is not hidden."""

    answers: list[PairAnswer]
    length: int | None = None


class ResponseAnswer(Answer):
    """Private answer to a test item."""

    item: Name
    correct: Annotated[int, Field(ge=0, le=1)]
    epsilon: float


class Content(Protocol):
    """Rules of one kind of answers."""

    @property
    def answer(self) -> type[Answer]:
        """Type of one answer."""
        ...

    @property
    def form(self) -> RowForm:
        """Columns that the answers become."""
        ...

    @property
    def most(self) -> int:
        """Most answers in one batch."""
        ...

    @property
    def names(self) -> int:
        """Most items that one answer names."""
        ...

    def rows(self, answers: Sequence[Any], bits: RandomBits) -> list[Row]:
        """Build a tuple for each answer, in the order of the columns.

        Raises:
            Refused: an answer breaks a rule.
        """
        ...


@dataclass(frozen=True)
class _Catalogue:
    """Positions of items by name."""

    places: dict[str, int]

    def place(self, name: str, number: int) -> int:
        """Position of the item that answer `number` names."""
        place = self.places.get(name)
        if place is None:
            raise Refused(f"answer {number}: an item is not in the catalogue of this survey")
        return place

    def pairs(self, sides: Sequence[tuple[str, str]], number: int | None) -> list[tuple[int, int]]:
        """Positions of the items of pairs; refuse a pair that occurs twice."""
        found, seen = [], set[tuple[int, int]]()
        for at, (left, right) in enumerate(sides, start=1):
            which = at if number is None else number
            if left == right:
                raise Refused(f"answer {which}: left and right must be different items")
            pair = self.place(left, which), self.place(right, which)
            if (min(pair), max(pair)) in seen:
                raise Refused(f"answer {which}: this pair was answered already")
            seen.add((min(pair), max(pair)))
            found.append(pair)
        return found


@dataclass(frozen=True)
class _Epsilons:
    """Public epsilons: a range, of which both ends are allowed, or some levels alone."""

    low: float
    high: float
    levels: Levels = ()

    @classmethod
    def of(cls, privacy: PrivacyConfig) -> _Epsilons:
        source = privacy.local_epsilons()
        return cls(source.low, source.high, source.levels)

    def check(self, epsilons: Sequence[float]) -> None:
        """Refuse answers of a batch with different epsilons, or with one outside the range."""
        for number, epsilon in enumerate(epsilons, start=1):
            if not self.low <= epsilon <= self.high:
                asked = f"must be from {self.low:g} to {self.high:g}"
                raise Refused(f"answer {number}: epsilon {asked} in this survey")
            if self.levels and epsilon not in self.levels:
                levels = ", ".join(f"{each:g}" for each in self.levels)
                raise Refused(f"answer {number}: epsilon must be one of {levels} in this survey")
            if epsilon != epsilons[0]:
                raise Refused(f"answer {number}: epsilon must be the same in all answers")


def check_signs(outcomes: Sequence[int], number: int | None) -> None:
    """Refuse an outcome of 0; `number`: the one answer that has all of these outcomes."""
    for at, outcome in enumerate(outcomes, start=1):
        if not outcome:
            which = at if number is None else number
            raise Refused(f"answer {which}: outcome must be 1 or -1 in this survey")


class Comparisons:
    """Private answers to pairs of items."""

    answer = ComparisonAnswer
    names = 2

    def __init__(self, config: SurveyConfig, names: tuple[str, ...], most: int) -> None:
        columns = config.comparisons.columns
        if columns.outcome is None or config.comparisons.words is not None:
            raise ConfigError(
                "input.columns.outcome: the collector writes 1 and -1 there; name that column, and"
                " remove winner and words."
            )
        written = [(columns.left, Role.ITEM), (columns.right, Role.ITEM)]
        written.append((columns.outcome, Role.OUTCOME))
        self._with_epsilon = columns.epsilon is not None
        if columns.epsilon is not None:
            written.append((columns.epsilon, Role.EPSILON))
        self.form, self.most = RowForm(tuple(written), names, survey=config.name), most
        self._catalogue = _Catalogue({name: place for place, name in enumerate(names)})
        self._epsilons = _Epsilons.of(config.privacy)

    def rows(self, answers: Sequence[ComparisonAnswer], bits: RandomBits) -> list[Row]:
        """See `Content`."""
        self._epsilons.check([answer.epsilon for answer in answers])
        check_signs([answer.outcome for answer in answers], None)
        pairs = self._catalogue.pairs([(each.left, each.right) for each in answers], None)
        more = ((each.outcome, each.epsilon) if self._with_epsilon else (each.outcome,)
                for each in answers)  # fmt: skip
        return [(*pair, *rest) for pair, rest in zip(pairs, more, strict=True)]


class Rankings:
    """Synthetic rankings."""

    answer = RankingAnswer

    def __init__(self, config: SurveyConfig, names: tuple[str, ...], most: int) -> None:
        columns, collect = config.rankings.columns, collect_of(config)
        longest = min(config.rankings.max_length or len(names), collect.items_shown(len(names)))
        written = [(columns.ranking or "ranking", Role.RANKING)]
        self._with_epsilon = columns.epsilon is not None
        if columns.epsilon is not None:
            written.append((columns.epsilon, Role.EPSILON))
        self.form = RowForm(tuple(written), names, longest, config.name)
        self.most, self.names = most, longest
        self._catalogue = _Catalogue({name: place for place, name in enumerate(names)})
        self._epsilons = _Epsilons.of(config.privacy)

    def rows(self, answers: Sequence[RankingAnswer], bits: RandomBits) -> list[Row]:
        """See `Content`."""
        self._epsilons.check([answer.epsilon for answer in answers])
        return [self._row(answer, number) for number, answer in enumerate(answers, start=1)]

    def _row(self, answer: RankingAnswer, number: int) -> Row:
        longest = self.form.longest
        if not 2 <= len(answer.ranking) <= longest:
            raise Refused(f"answer {number}: a ranking has 2 to {longest} items in this survey")
        places = [self._catalogue.place(name, number) for name in answer.ranking]
        if len(set(places)) < len(places):
            raise Refused(f"answer {number}: an item occurs twice")
        filled = places + [NO_ITEM] * (longest - len(places))
        return (filled, answer.epsilon) if self._with_epsilon else (filled,)


class RandomPairs:
    """Private answers to random pairs of a ranking, one record for a ranking."""

    answer = PairsAnswer

    def __init__(self, config: SurveyConfig, names: tuple[str, ...], most: int) -> None:
        columns = config.ranking_columns()
        self._pairs, hidden = config.privacy.pairs or 1, config.privacy.hide is Hide.ITEMS
        self._length = not hidden
        roles = {"left": Role.ITEM, "right": Role.ITEM}
        written = [
            (name, roles.get(role, Role.LENGTH if role == "length" else Role.OUTCOME))
            for role, name in columns.roles()
        ]
        self.form = RowForm(tuple(written), names, survey=config.name)
        self.most, self.names = most, 2 * self._pairs
        collect = collect_of(config)
        self._longest = min(
            config.rankings.max_length or len(names), collect.items_shown(len(names))
        )
        self._catalogue = _Catalogue({name: place for place, name in enumerate(names)})

    def rows(self, answers: Sequence[PairsAnswer], bits: RandomBits) -> list[Row]:
        """See `Content`."""
        return [self._row(answer, number) for number, answer in enumerate(answers, start=1)]

    def _row(self, ranking: PairsAnswer, number: int) -> Row:
        self._check_length(ranking, number)
        of = ranking.length if self._length else len(self._catalogue.places)
        wanted = min(self._pairs, n_pairs(of or 0))
        if len(ranking.answers) != wanted:
            raise Refused(f"answer {number}: must have {wanted} pairs")
        if self._length:
            check_signs([each.outcome for each in ranking.answers], number)
        sides = [(each.left, each.right) for each in ranking.answers]
        pairs, empty = self._catalogue.pairs(sides, number), [NO_ITEM] * (self._pairs - wanted)
        return (
            *(left for left, _ in pairs), *empty, *(right for _, right in pairs), *empty,
            *(each.outcome for each in ranking.answers), *([NO_OUTCOME] * len(empty)),
            *((ranking.length,) if self._length else ()),
        )  # fmt: skip

    def _check_length(self, ranking: PairsAnswer, number: int) -> None:
        if not self._length and ranking.length is not None:
            raise Refused(f"answer {number}: length is hidden in this survey; leave it out")
        if self._length and not 2 <= (ranking.length or 0) <= self._longest:
            raise Refused(f"answer {number}: length must be from 2 to {self._longest}")


class Responses:
    """Private answers to test items; a random number says which ones share an epsilon."""

    answer = ResponseAnswer
    names = 1

    def __init__(self, config: SurveyConfig, names: tuple[str, ...], most: int) -> None:
        columns = config.responses.columns
        written = (
            (columns.user, Role.USER),
            (columns.item or "item", Role.ITEM),
            (columns.correct or "correct", Role.OUTCOME),
        )
        self.form, self.most = RowForm(written, names, survey=config.name), most
        self._catalogue = _Catalogue({name: place for place, name in enumerate(names)})
        self._epsilon = config.privacy.epsilon or 0.0

    def rows(self, answers: Sequence[ResponseAnswer], bits: RandomBits) -> list[Row]:
        """See `Content`."""
        count = np.array([len(answers)])
        share = float(epsilon_of_answer(np.array([self._epsilon]), count)[0])
        if any(answer.epsilon != share for answer in answers):
            raise Refused(
                f"epsilon must be that of {len(answers)} answers of a person, who divides"
                f" {self._epsilon:g} among them"
            )
        numbered = enumerate(answers, start=1)
        places = [self._catalogue.place(each.item, number) for number, each in numbered]
        if len(set(places)) < len(places):
            raise Refused("an item is answered twice")
        user = int(bits.words(1).view(np.int64)[0])
        return [(user, at, each.correct) for at, each in zip(places, answers, strict=True)]


def content_of(config: SurveyConfig) -> Content:
    """Return the rules of the answers that a survey collects.

    Raises:
        ConfigError: the file does not say how answers are collected.
    """
    names, rows = tuple(config.items.catalogue.names), config.input
    if max(map(len, names)) > LONGEST_NAME:
        raise ConfigError(f"items: names of collected items have at most {LONGEST_NAME} letters.")
    most = collect_of(config).answers_of_a_person(rows, len(names))
    if isinstance(rows, InputConfig):
        return Comparisons(config, names, most)
    if isinstance(rows, ResponsesConfig):
        return Responses(config, names, most)
    kind = RandomPairs if _answers_pairs(rows) else Rankings
    return kind(config, names, most)


def _answers_pairs(rows: RankingsConfig) -> bool:
    return rows.layout == "pairs"


KEY_BYTES = 32
CHECK_BYTES = 4  # bytes of a key's digest, kept behind it
HALF = 16  # bytes: of a token's random part, and of its check
KEY_FILE = "tokens.key"
NO_TOKEN = "this token is none of this survey's; open the page by the link that you were sent"


class UnknownToken(Refused):
    """Error for a token that was not made with the survey's key."""


class TokenKey:
    """Secret of a survey's tokens."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @classmethod
    def of(cls, confidential: Place, bits: RandomBits) -> TokenKey:
        """Read the key in the confidential folder; make one if there is none yet.

        Raises:
            ConfigError: the key cannot be read or written, or is damaged.
        """
        place = confidential / KEY_FILE
        try:
            made = bits.take(KEY_BYTES)
            known = write_once(str(place), (made + _check(made)).hex().encode(), MostBytes.KEY)
        except OSError as error:
            raise ConfigError(
                f"{place}: the key of the tokens cannot be read or written: {error.strerror}."
            ) from None
        try:
            content = bytes.fromhex(known.decode())
        except ValueError:
            content = b""
        key, check = content[:KEY_BYTES], content[KEY_BYTES:]
        if len(key) < KEY_BYTES or check not in (b"", _check(key)):  # older keys have no check
            raise ConfigError(
                f"{place}: this is no key of tokens. Put back the one that made the tokens; without"
                " it, delete the file and make new tokens."
            )
        return cls(key)

    def new(self, bits: RandomBits) -> str:
        """Make a token: 43 characters that an address may hold."""
        random = bits.take(HALF)
        return base64.urlsafe_b64encode(random + self._tag("check", random)[:HALF]).decode()[:43]

    def mark(self, token: str) -> bytes:
        """Mark that is stored of a used token.

        Raises:
            UnknownToken: the token was not made with this key.
        """
        try:
            content = base64.b64decode(token + "=", altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            content = b""
        random, check = content[:HALF], content[HALF:]
        if not hmac.compare_digest(self._tag("check", random)[:HALF], check):
            raise UnknownToken(NO_TOKEN)
        return self._tag("used", random)[:MARK_BYTES]

    def _tag(self, purpose: str, random: bytes) -> bytes:
        message = f"hushrank token {purpose}\0".encode() + random
        return hmac.new(self._key, message, hashlib.sha256).digest()


def _check(key: bytes) -> bytes:
    """Check value that shows whether a key is damaged."""
    return hashlib.sha256(key).digest()[:CHECK_BYTES]


def write_tokens(path: Path, key: TokenKey, count: int, bits: RandomBits, page: str = "") -> None:
    """Write new tokens to a new file, one on each line, each after the page's address if given.

    Raises:
        FileExistsError: `path` exists already.
        OSError: the file cannot be written.
    """
    if path.exists():
        raise FileExistsError(path)
    prefix = f"{page}#t=" if page else ""
    lines = "".join(f"{prefix}{key.new(bits)}\n" for _ in range(count))
    write_once(str(path), lines.encode())
