"""Draw the pictures of the report in `docs/images`: `python docs/report_images.py`.

They are committed. Run this after a change of the page, and look at them; it needs a Chromium and
the packages for tests. The releases are drawn from a seed, so the numbers stay.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from hushrank.flows.report.page import render_report  # noqa: E402
from tests.releases import PAIR_WINS, make_pairs_release  # noqa: E402

YESTERDAY = datetime(2026, 11, 19, 2, 0, 4, tzinfo=UTC)
LARGE, MOVED, ITEM = 5, 0.6, 4  # more answers than tests take; yesterday one item won fewer
COLOURS = 48
PICTURES = {  # colour scheme, width, height, text of the heading where the picture begins
    "report-ranking-light": ("light", 960, 580, "Ranking"),  # of the README and the first page
    "report-ranking-dark": ("dark", 960, 580, "Ranking"),
    "report-desktop-light": ("light", 960, 2300, ""),
    "report-desktop-dark": ("dark", 960, 2300, ""),
    "report-phone": ("light", 360, 2250, ""),
}
MARGIN = 40  # above that heading


def report() -> str:
    """The page of a release that has one before it."""
    wins = LARGE * np.array(PAIR_WINS)
    before = wins.copy()
    before[ITEM] = MOVED * before[ITEM]
    release, earlier = (make_pairs_release(each.tolist()) for each in (wins, before))
    return render_report(release, None, earlier.model_copy(update={"created": YESTERDAY}))


def picture(
    browser: Browser, page: Path, scheme: str, width: int, height: int, heading: str
) -> Image.Image:
    """Part of the page, from its top or from a heading on."""
    context = browser.new_context(
        viewport={"width": width, "height": 800},
        color_scheme="dark" if scheme == "dark" else "light",
        is_mobile=width < 500,
    )
    shown = context.new_page()
    shown.goto(page.as_uri())
    box = shown.get_by_role("heading", name=heading).first.bounding_box() if heading else None
    top = round(box["y"]) - MARGIN if box else 0
    whole = Image.open(io.BytesIO(shown.screenshot(full_page=True))).convert("RGB")
    context.close()
    return whole.crop((0, top, width, min(top + height, whole.height)))


def main() -> None:
    """Draw all of them."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as engine:
        page = Path(folder) / "report.html"
        page.write_text(report(), encoding="utf-8")
        browser = engine.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for name, look in PICTURES.items():
            found = picture(browser, page, *look).quantize(COLOURS)
            found.save(HERE / "images" / f"{name}.png", optimize=True)
        browser.close()


if __name__ == "__main__":
    main()
