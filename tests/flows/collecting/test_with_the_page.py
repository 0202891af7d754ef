"""The page in a real browser and the collector together: what was shown is what a part holds."""

from __future__ import annotations

import json

import pytest

from hushrank.flows.collecting.contents import TokenKey
from hushrank.flows.collecting.server import terms_of
from hushrank.flows.collecting.spool import seal_spools
from hushrank.flows.collecting.survey.settings import collect_of, write_site
from hushrank.flows.methods.registry import load_config
from hushrank.privacy.randomness import system_bits
from tests.flows.browsers import complaints_of, opened
from tests.flows.collecting.collecting import running
from tests.flows.collecting.survey.hosts import STEP, press
from tests.flows.collecting.survey.test_survey_browser import KINDS, site_of
from tests.flows.collecting.surveys import parts

pytestmark = [pytest.mark.engine, pytest.mark.slow]


def respond(page, address):
    """Answer whatever is asked, send it, and return what the page showed before."""
    page.goto(address)
    page.locator(STEP).first.wait_for()
    while page.locator("#body").count() == 0:
        choices = page.locator("button.choice")
        press(page, (choices if choices.count() else page.locator("button.main")).first)
    shown = json.loads(page.inner_text("#body"))
    page.get_by_role("button", name="Send").or_(
        page.get_by_role("button", name="Senden")
    ).first.click()
    page.locator("#body").wait_for(state="detached")
    return shown


def rows_of(shown):
    """What the parts must say of these answers, by the rules of the wire."""
    if shown["kind"] == "responses":
        return [(each["item"], each["correct"]) for each in shown["answers"]]
    if "answers" in shown["answers"][0]:
        (ranking,) = shown["answers"]
        pairs = [(each["left"], each["right"], each["outcome"]) for each in ranking["answers"]]
        return [(*(part for column in zip(*pairs, strict=True) for part in column), 6)]
    return [tuple(map(_plain, each.values())) for each in shown["answers"]]


def _plain(value):
    return tuple(value) if isinstance(value, list) else value


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_what_the_page_shows_is_what_the_part_holds(browser, tmp_path, kind):
    site, _ = site_of(tmp_path, kind)
    write_site(site, tmp_path / "site")
    config = load_config(tmp_path / "survey.yaml")
    token = TokenKey.of(config.confidential, system_bits()).new(system_bits())
    with running(tmp_path) as collector:
        context = opened(browser, locale="en-GB")
        page = context.new_page()
        complaints = complaints_of(page)
        opened_with = f"#t={token}" if collect_of(config).tokens else ""
        shown = respond(page, f"http://127.0.0.1:{collector.port}/{opened_with}")
        context.close()
        assert collector.stop() == 0
    assert complaints == []
    assert (tmp_path / "printed.txt").read_text() == ""
    assert seal_spools(tmp_path / "spool", terms_of(config, print)) == 1
    columns = parts(tmp_path / "answers").to_pydict()
    columns.pop("user", None)
    found = [tuple(map(_plain, row)) for row in zip(*columns.values(), strict=True)]
    assert sorted(found) == sorted(rows_of(shown))
