"""Terms of a spool, and a clock that a test sets."""

from __future__ import annotations

import pytest

from hushrank.flows.collecting.contents import content_of
from hushrank.flows.collecting.server import place_of_parts
from hushrank.flows.collecting.spool import Terms
from hushrank.privacy.randomness import system_bits
from tests.flows.collecting.surveys import NOON, survey


class Time:
    """A clock that stands still until it is set."""

    def __init__(self):
        self.now = NOON

    def __call__(self):
        return self.now


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def said():
    return []


@pytest.fixture
def terms(tmp_path, time, said):
    config = survey(tmp_path)
    return Terms(
        form=content_of(config).form,
        place=place_of_parts(config, config.collect.folder, NOON.date()),
        zone=config.schedule.zone,
        clock=time,
        bits=system_bits(),
        tell=said.append,
    )
