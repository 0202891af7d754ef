"""Body of a request: its required content, and the batch that it becomes.

    {"schema": 1, "survey": NAME, "kind": KIND, "submission": 22 base64url characters,
     "answers": [...], "token": only where the survey has tokens}

No other key is taken, so nothing about a person can slip in. A body that breaks a rule is refused
whole, with a sentence that names the answer by its number and never says what it was.

The answers of one sealed journal become a part: a Parquet file of their night, in random order.
"""

from __future__ import annotations

import base64
import errno
import os
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime, time
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    StringConstraints,
    ValidationError,
    create_model,
)
from pydantic_core import PydanticCustomError

from hushrank.flows.collecting.contents import Answer, Content, Refused
from hushrank.flows.collecting.journal import MARK_BYTES, Batch
from hushrank.flows.collecting.protocol import RowForm
from hushrank.privacy.randomness import RandomBits
from hushrank.transforms.storage.places import (
    TEMPORARY_NAME,
    CloudPath,
    Place,
    is_stale,
    parquet_bytes,
    write_once,
)
from hushrank.transforms.storage.window import stated_id

PlaceOfPart = Callable[[date, str], Place]  # takes a night and the id of a journal
_PART = re.compile(r"part-[0-9a-f]{16}\.parquet")


_PARQUET = b"PAR1"  # a whole file begins and ends with it


def write_part(place: Place, id_: str, rows: bytes, form: RowForm, bits: RandomBits) -> None:
    """Write the rows of a journal, shuffled, to `place`, unless that exists already.

    Args:
        place: place of the part.
        id_: random id of the journal and its part.
        rows: records.
        form: form of the rows.
        bits: bits for their order.

    The order of the rows is a uniformly random one, up to the chance that two of 2^64 sorted words
    coincide, and has nothing to do with when they came. A part appears whole or not at all.

    Raises:
        OSError: the part cannot be written, or what is there is no whole part.
        ValueError, IndexError, TypeError: the rows do not fit their form.
    """
    records = form.records(rows)
    shuffled = records[np.argsort(bits.words(len(records)))]
    content = parquet_bytes(form.table(shuffled), stated_id(id_))
    _forget_half_written(place)
    found = write_once(str(place), content)
    if not (len(found) > 8 and found.startswith(_PARQUET) and found.endswith(_PARQUET)):
        raise OSError(errno.EIO, f"{place} is damaged; delete it, and it is written again")


def _forget_half_written(place: Place) -> None:
    """Delete files that dead processes left: those of this part, and old ones of others.

    Raises:
        OSError: a part cannot be deleted.
    """
    if isinstance(place, CloudPath):  # an object appears whole or not at all
        return
    with suppress(FileNotFoundError):  # there is no folder yet
        for name in os.listdir(place.parent):
            temporary = TEMPORARY_NAME.fullmatch(name)
            left = temporary is not None and _PART.fullmatch(temporary["name"])
            path = place.parent / name
            if left and (left[0] == place.name or is_stale(path)):
                path.unlink(missing_ok=True)


def hide_time(place: Place, night: date, zone: ZoneInfo) -> None:
    """Set a local file's time to the first moment of its night; a bucket keeps its own time.

    Raises:
        OSError: the file is not there any more.
    """
    if not isinstance(place, CloudPath):
        first = datetime.combine(night, time(), zone).timestamp()
        os.utime(Path(place), (first, first))


SCHEMA = 1
LEAST_LIMIT = 4096  # bytes of a body
_BYTES_A_LETTER = 12  # most bytes of a letter in JSON: two escapes
_BYTES_AN_ANSWER = 200  # beside its items
_NOT_JSON = "the body must be JSON in UTF-8, an object of schema, survey, kind, submission, answers"

Submission = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{22}$")]
Token = Annotated[str, StringConstraints(max_length=200)]
MarkOfToken = Callable[[str], bytes]  # raises Refused: it is none of this survey's


class BodyReader:
    """Reader of request bodies of one survey.

    Attributes:
        limit: the most bytes of a body; every right one has fewer.
    """

    def __init__(
        self,
        survey: str,
        kind: str,
        content: Content,
        bits: RandomBits,
        mark_of_token: MarkOfToken | None,
    ) -> None:
        """
        Args:
            survey: name of the survey.
            kind: kind of the survey's input.
            content: the rules of its answers.
            bits: bits for numbers that hold answers together.
            mark_of_token: checks a token and says by which mark its use is remembered; None: the
                survey takes none.
        """
        self._content, self._bits, self._mark = content, bits, mark_of_token
        letters = content.names * max(map(len, content.form.items))
        size = _BYTES_AN_ANSWER * content.names + _BYTES_A_LETTER * letters
        self.limit = LEAST_LIMIT + size * content.most
        self._model = _model(survey, kind, content, with_token=mark_of_token is not None)
        self._known = _keys(self._model) | _keys(content.answer)

    def batch(self, body: bytes) -> Batch:
        """Read the batch in `body`.

        Raises:
            Refused: the body breaks a rule.
        """
        try:
            said: Any = self._model.model_validate_json(body)
        except ValidationError as error:
            raise Refused(self._sentence(error)) from None
        token = None if self._mark is None else self._mark(said.token)
        rows = self._content.rows(said.answers, self._bits)
        records = np.array(rows, self._content.form.dtype)
        return Batch(records.tobytes(), len(rows), mark_of(said.submission), token)

    def _sentence(self, error: ValidationError) -> str:
        """Sentence on the first problem and the broken rule, without values, and only with our
        keys."""
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        if first["type"] == "json_invalid":
            return _NOT_JSON
        where = []
        for part in first["loc"]:
            if isinstance(part, int):
                where.append(str(part + 1))
            else:
                where.append(part if part in self._known else "another key")
        rule = first["msg"].removeprefix("Input should ")
        if first["type"] == "extra_forbidden":
            rule = "not taken by this survey"
        return f"{' '.join(where)}: {rule}" if where else _NOT_JSON


def mark_of(submission: str) -> bytes:
    """First 8 of the 16 random bytes that name a submission."""
    return base64.urlsafe_b64decode(submission + "==")[:MARK_BYTES]


def _model(survey: str, kind: str, content: Content, *, with_token: bool) -> type[BaseModel]:
    answers = Annotated[list[content.answer], Field(min_length=1, max_length=content.most)]  # type: ignore[name-defined]
    fields: dict[str, Any] = {
        "schema_": (Annotated[int, AfterValidator(_present_schema)], Field(alias="schema")),
        "survey": (Literal[survey], ...),
        "kind": (Literal[kind], ...),
        "submission": (Submission, ...),
        "answers": (answers, ...),
    }
    if with_token:
        fields["token"] = (Token, ...)
    return create_model("Body", __config__=Answer.model_config, **fields)


def _present_schema(said: int) -> int:
    """Refuse another number; `Literal[1]` would take `true`, because that equals 1 in Python."""
    if said != SCHEMA:
        raise PydanticCustomError("schema", "Input should be {schema}", {"schema": SCHEMA})
    return said


def _keys(model: type[BaseModel]) -> set[str]:
    """Keys of a model and of the models in it."""
    keys = {field.alias or name for name, field in model.model_fields.items()}
    return keys | {"answers", "left", "right", "outcome"}
