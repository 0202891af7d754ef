"""A job of the content of a YAML file: every rule is checked, and what breaks one is told.

`check_config` also reads the file of the catalogue, so the checked content is the content that
runs. The caller passes the methods that exist (`flows.methods.registry.load_config`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path

from pydantic import ValidationError

from hushrank.flows.config.method import METHODS, Methods
from hushrank.flows.config.section import BASE, COUNTED, FOLDER, NIGHT, SURVEY
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.config.yaml_file import config_error


def check_config(
    path: Path,
    content: Mapping[object, object],
    methods: Methods,
    base: Path | None = None,
    night: date | None = None,
) -> SurveyConfig:
    """Check the job that `content`, read from the YAML file at `path`, describes.

    Args:
        path: path of the file, for messages and relative paths.
        content: keys of the file.
        methods: the methods that it may name.
        base: a folder from which paths in it count for the identity of the job, where there is no
            YAML file; None: the folder of that file.
        night: the night whose items are listed, where nights have lists of their own; None: today.

    Raises:
        ConfigError: a value breaks a rule; one line for each problem found.
    """
    counted: dict[str, str] = {}
    context = {
        **{FOLDER: path.parent, SURVEY: path, METHODS: methods},
        **{BASE: base, COUNTED: counted, NIGHT: night},
    }
    try:
        config = SurveyConfig.model_validate(content, context=context)
    except ValidationError as error:
        from hushrank.flows.config.yaml_file import lines_of_keys

        raise config_error(path, error, SurveyConfig, lines_of_keys(path)) from None
    config._counted = counted
    if config.items.dated:
        config._checked_on = lambda other: check_config(path, content, methods, base, other)
    return config
