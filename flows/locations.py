"""Places that the YAML file names. Relative paths start at the folder of the YAML file."""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path
from typing import Annotated

from pydantic import (
    BeforeValidator,
    PlainSerializer,
    PlainValidator,
    StringConstraints,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from hushrank.flows.config_errors import refuse
from hushrank.transforms.cloud_storage import CLOUD_PREFIX, CloudPath, Place, is_cloud

FOLDER = "folder"  # key of the validation context: where relative paths start


def _local_path(value: object, info: ValidationInfo) -> object:
    if not isinstance(value, str):
        return value
    if not value:
        refuse(("", "must not be empty"))
    if "://" in value:
        refuse(("", f"must be a local path, got {value!r}"))
    return Path(os.path.abspath(_folder(info) / Path(value).expanduser()))


def _place(value: object, info: ValidationInfo) -> object:
    if isinstance(value, Path | CloudPath):
        return value
    if not isinstance(value, str):
        raise PydanticCustomError("path_type", "must be a path")
    if not is_cloud(value):
        if "://" in value:
            refuse(("", f"must be a local path or start with {CLOUD_PREFIX}, got {value!r}"))
        return _local_path(value, info)
    try:
        path = CloudPath.parse(value)
    except ValueError as error:
        refuse(("", str(error)))
    if not path.key:
        refuse(("", f"must name something in the bucket, for example {path}/campus"))
    return path


def contains(outer: Place, inner: Place) -> bool:
    """Whether `inner` is `outer` or is in it, links followed."""
    if isinstance(outer, CloudPath):
        return isinstance(inner, CloudPath) and outer.contains(inner)
    return isinstance(inner, Path) and inner.resolve().is_relative_to(outer.resolve())


def _input_path(value: object, info: ValidationInfo) -> object:
    if not isinstance(value, str) or not value or is_cloud(value):
        return value
    if "://" in value:
        refuse(("", f"must be a local path or start with {CLOUD_PREFIX}, got {value!r}"))
    folder, path = str(_folder(info).absolute()), os.path.expanduser(value)
    if re.search(r"[*?\[]", path):
        folder = glob.escape(folder)  # only what the person wrote is a pattern
    return os.path.normpath(os.path.join(folder, path))


def _folder(info: ValidationInfo) -> Path:
    folder: Path = (info.context or {}).get(FOLDER, Path())
    return folder


AnyPlace = Annotated[
    Path | CloudPath,
    PlainValidator(_place),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "format": "path"}),
]
LocalPath = Annotated[Path, BeforeValidator(_local_path)]
InputPath = Annotated[str, BeforeValidator(_input_path), StringConstraints(min_length=1)]
