"""Places that the YAML file names. Relative paths start at the folder of the YAML file."""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, StringConstraints, ValidationInfo

from hushrank.flows.config_errors import refuse
from hushrank.transforms.files import REMOTE_PREFIX

FOLDER = "folder"  # key of the validation context: where relative paths start


def _local_path(value: object, info: ValidationInfo) -> object:
    if not isinstance(value, str):
        return value
    if not value:
        refuse(("", "must not be empty"))
    if "://" in value:
        refuse(("", f"must be a local path, got {value!r}; only input.paths may be remote"))
    return Path(os.path.abspath(_folder(info) / Path(value).expanduser()))


def _input_path(value: object, info: ValidationInfo) -> object:
    if not isinstance(value, str) or not value or value.startswith(REMOTE_PREFIX):
        return value
    if "://" in value:
        refuse(("", f"must be a local path or start with {REMOTE_PREFIX}, got {value!r}"))
    folder, path = str(_folder(info).absolute()), os.path.expanduser(value)
    if re.search(r"[*?\[]", path):
        folder = glob.escape(folder)  # only what the person wrote is a pattern
    return os.path.normpath(os.path.join(folder, path))


def _folder(info: ValidationInfo) -> Path:
    folder: Path = (info.context or {}).get(FOLDER, Path())
    return folder


LocalPath = Annotated[Path, BeforeValidator(_local_path)]
InputPath = Annotated[str, BeforeValidator(_input_path), StringConstraints(min_length=1)]
