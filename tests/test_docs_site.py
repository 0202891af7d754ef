"""The documentation: its site builds alone, and what it quotes from the program is there."""

from __future__ import annotations

import ast
import importlib
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flows.browsers import SCREENS, launched, on_screen

PACKAGES = ("flows", "pipelines", "transforms")
EXPLAINED = {
    "ArchiveError",
    "BudgetRefused",
    "LedgerError",
    "PublishError",
    "ReadingError",
    "RunInProgress",
}
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|video)\b[^>]*\bsrc=["']?(?:https?:)?//"""
    r"""|<link\b(?![^>]*rel=["']?canonical)[^>]*\bhref=["']?(?:https?:)?//"""
)


def quoted(page: str) -> list[str]:
    """What the first column of the page's tables quotes."""
    return re.findall(r"^\| `([^`]+)` \|", page, flags=re.MULTILINE)


def texts(node: ast.AST) -> Iterator[str]:
    """Every text below `node`; of one with values in it, the parts between them."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value.strip():
            yield part.value


def raised(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Class and call of every error that is raised with a text of its own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and list(texts(node)):
            yield node.func.id, node


def sources(checkout: Path) -> Iterator[tuple[Path, ast.Module]]:
    """One after the other: the garbage collector would go through all that are kept."""
    paths = [path for package in PACKAGES for path in sorted((checkout / package).rglob("*.py"))]
    return ((path, ast.parse(path.read_text())) for path in paths)


def unexplained(tree: ast.AST, words: list[str]) -> list[str]:
    """Texts of errors in `tree` of which `words` quote nothing."""
    return [
        " ".join(texts(call))
        for name, call in raised(tree)
        if name in EXPLAINED and not any(word in text for word in words for text in texts(call))
    ]


def test_every_quoted_message_is_one_of_the_program(checkout: Path):
    words = quoted((checkout / "docs" / "troubleshooting.md").read_text())
    known = [text for _, tree in sources(checkout) for text in texts(tree)]
    assert len(words) > 50
    assert [word for word in words if not any(word in text for text in known)] == []


def test_every_error_about_a_run_or_its_ledger_is_explained(checkout: Path):
    words = quoted((checkout / "docs" / "troubleshooting.md").read_text())
    missing, explained = {}, 0
    for path, tree in sources(checkout):
        missing |= {path: found} if (found := unexplained(tree, words)) else {}
        explained += sum(name in EXPLAINED for name, _ in raised(tree))
    assert missing == {}
    assert explained > 15


def test_an_error_without_an_explanation_is_found():
    tree = ast.parse("raise LedgerError(f'{path}: the moon is full.' f' Wait {days} days.')")
    assert unexplained(tree, ["the moon is full"]) == []
    assert unexplained(tree, ["the sun is full"]) == [": the moon is full. Wait   days."]


@pytest.fixture(scope="module")
def site(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does."""
    pytest.importorskip("mkdocs", reason="the dependency group `docs` is not installed")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    warnings: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            warnings.append(record.getMessage())

    listener = Listener(logging.WARNING)
    logging.getLogger("mkdocs").addHandler(listener)
    try:
        build(load_config(str(checkout / "mkdocs.yml"), site_dir=str(folder)))
    finally:
        logging.getLogger("mkdocs").removeHandler(listener)
    assert warnings == []
    return folder


def test_the_site_asks_no_other_host_for_anything(site: Path):
    pages = {path: path.read_text() for path in site.rglob("*.html")}
    assert len(pages) > 10
    assert [path.name for path, text in pages.items() if FETCHED.search(text)] == []
    styles = [path.read_text() for path in site.rglob("*.css")]
    assert styles
    assert not any(re.search(r"@import|url\((?:https?:)?//", text) for text in styles)


def test_a_fetched_file_is_found():
    assert FETCHED.search('<script async src="https://example.org/a.js">')
    assert FETCHED.search('<link rel="stylesheet" href="//example.org/a.css">')
    assert not FETCHED.search(
        '<link rel="canonical" href="https://example.org/"><a href="https://b">'
    )


def test_generated_parts_are_in_their_pages(site: Path):
    reference, commands = ((site / name).read_text() for name in ("reference.html", "cli.html"))
    for key in ("max_contributions", "expected_comparisons", "edge_probability"):
        assert f"<code>{key}</code>" in reference
    for command in ("hushrank run", "hushrank ledger show"):
        assert f"<code>{command}</code>" in commands


def test_committed_pages_are_what_the_code_says(checkout: Path, monkeypatch: pytest.MonkeyPatch):
    """Of the versions of the lock: typer words its own options."""
    monkeypatch.syspath_prepend(str(checkout / "docs"))
    pages = importlib.import_module("generated_pages")
    for name in (*pages.PAGES, *pages.FILES):
        page = checkout / "docs" / name
        assert page.read_text() == pages.made(page), f"{name} is old: make pages"


def test_a_page_that_is_old_is_found(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.syspath_prepend(str(checkout / "docs"))
    pages = importlib.import_module("generated_pages")
    old = tmp_path / "reference.md"
    old.write_text(f"# Keys\n\n{pages.MARK}\n| `gone` | text | Nothing. |\n")
    assert "`gone`" not in pages.made(old)
    old.write_text("# Keys\n")
    with pytest.raises(ValueError, match="needs a line"):
        pages.made(old)


def test_every_page_is_in_the_navigation(site: Path, checkout: Path):
    page = (site / "index.html").read_text()
    names = [path.with_suffix(".html").name for path in (checkout / "docs").glob("*.md")]
    assert [name for name in names if f'href="{name}"' not in page and name != "index.html"] == []
    assert len(names) <= 31, "merge thin pages: a menu of more entries is not read"


BROKEN_WORDS = """() => {
  const whole = (node, word) => {
    const range = document.createRange();
    range.setStart(node, word.index);
    range.setEnd(node, word.index + word[0].length);
    return range.getClientRects().length === 1;
  };
  const found = [];
  let looked = 0;
  for (const code of document.querySelectorAll("article :is(td, th) code")) {
    for (const node of code.childNodes) {
      if (node.nodeType !== Node.TEXT_NODE) continue;
      for (const word of node.data.matchAll(/[A-Za-z]+/g)) {
        looked += 1;
        if (!whole(node, word)) found.push(word[0]);
      }
    }
  }
  return { found, looked };
}"""


@pytest.mark.slow
def test_no_code_in_a_table_breaks_inside_a_word(site: Path):
    with launched() as browser:
        for screen in SCREENS:
            page = on_screen(browser, "light", screen).new_page()
            for name in ("choosing", "reference", "architecture", "python"):
                page.goto((site / f"{name}.html").as_uri())
                said = page.evaluate(BROKEN_WORDS)
                assert said["looked"] > 10
                assert said["found"] == [], (name, screen)


def test_old_addresses_lead_to_a_heading(
    site: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.syspath_prepend(str(checkout / "docs"))
    moved = importlib.import_module("moved_pages").MOVED
    assert len(moved) > 10
    for name, target in moved.items():
        page, _, anchor = target.partition("#")
        assert f'href="{target}"' in (site / f"{name}.html").read_text()
        assert f'id="{anchor}"' in (site / page).read_text(), name
        assert not (checkout / "docs" / f"{name}.md").exists()
