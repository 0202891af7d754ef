"""What a notebook shows shuts nobody out: axe-core objects to nothing, and tables have names."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hushrank.flows.interfaces.python.table import Table, ranking_html
from tests.flows.browsers import faults, launched, on_screen
from tests.releases import SEEDED, make_release

PIECES = {
    "shares": lambda: ranking_html(make_release()),
    "unsafe": lambda: ranking_html(make_release(bits=SEEDED, n_top=2)),
    "table": lambda: Table(pa.table({"item": ["a", "b"], "score": [1.0, None]}))._repr_html_(),
    "nothing": lambda: Table(pa.table({"item": pa.array([], pa.string())}))._repr_html_(),
}


@pytest.mark.parametrize("name", PIECES)
def test_tables_have_a_caption_and_headers_with_a_scope(name):
    shown = PIECES[name]()
    assert shown.count("<caption") == shown.count("<table")
    assert shown.count("<th ") == shown.count("<th scope=") == shown.count("</th>") > 0
    assert 'role="img" aria-hidden' not in shown


@pytest.mark.engine
@pytest.mark.slow
def test_axe_objects_to_nothing():
    body = "".join(f"<h2>{name}</h2>{make()}" for name, make in PIECES.items())
    page_text = (
        '<!doctype html><html lang="en"><head><title>Notebook</title></head>'
        f"<body><main><h1>Notebook</h1>{body}</main></body></html>"
    )
    with launched() as browser:
        page = on_screen(browser, "light", "desktop").new_page()
        page.set_content(page_text)
        assert faults(page) == {}
