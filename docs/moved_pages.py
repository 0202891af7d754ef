"""Old addresses of pages lead to where their text stands now: a hook of mkdocs."""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig

MOVED = {
    "certificate": "verify.html#the-certificate-of-a-release",
    "cloud": "engines.html#google-cloud",
    "collecting": "survey_page.html#collecting-private-answers",
    "errata": "reproduction.html#errata-of-the-papers",
    "ledger_integrity": "backup.html#a-ledger-that-nobody-changes-in-silence",
    "notebook_election": "notebooks.html#an-election",
    "notebook_leaderboard": "notebooks.html#a-leaderboard",
    "notebook_survey": "notebooks.html#a-survey",
    "notebook_test": "notebooks.html#a-test",
    "observability": "operations.html#watching-runs",
    "scaling": "benchmarks.html#scaling",
    "several_holders": "choosing.html#several-holders-who-may-not-share-rows",
    "sixty_nights": "nightly.html#sixty-nights-a-tutorial",
    "tables": "files.html#tables-where-logs-live",
    "threat_model": "survey_page.html#threat-model-of-a-survey-without-trust",
}
# The script keeps the part of an old address after #: headings kept their names when they moved.
PAGE = """<!doctype html>
<meta charset="utf-8">
<title>This page has moved</title>
<link rel="canonical" href="{target}">
<script>location.replace(location.hash ? "{page}" + location.hash : "{target}")</script>
<noscript><meta http-equiv="refresh" content="0; url={target}"></noscript>
<p>This page has moved to <a href="{target}">{page}</a>.</p>
"""


def on_post_build(config: MkDocsConfig) -> None:
    """Write a page that redirects at each old address."""
    for name, target in MOVED.items():
        text = PAGE.format(target=target, page=target.partition("#")[0])
        Path(config.site_dir, f"{name}.html").write_text(text, encoding="utf-8")
