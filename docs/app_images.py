"""Take the pictures of docs/app.md: `python -m docs.app_images`, on simulated votes, in a browser.

A new folder gets a file of votes that a program made up; then the page is used as a newcomer would.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

from tests.flows.browsers import eventually, launched, on_screen

HERE = Path(__file__).parent / "images"
CITIES = ("Oslo", "Bern", "Rome", "Lima", "Cairo", "Quito")  # best first
PEOPLE, ANSWERS, EPSILON_STOP = 400, 8, 5
PAINTED = 5_000  # milliseconds after which a busy machine has painted the report
COLOURS = 128  # of a picture, so that it is small


def write_votes(path: Path) -> None:
    """Write votes of people who mostly prefer the city that stands first in `CITIES`."""
    draws = random.Random(1)
    lines = ["voter,left,right,winner"]
    for person in range(PEOPLE):
        for _ in range(ANSWERS):
            left, right = draws.sample(CITIES, 2)
            gap = CITIES.index(right) - CITIES.index(left)
            won = left if draws.random() < 1 / (1 + 2 ** (-gap)) else right
            lines.append(f"p{person},{left},{right},{won}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def use(page: Any, address: str, take: Any) -> None:
    """Go from the file to the report, and take pictures on the way."""
    page.goto(address)
    page.get_by_role("button", name="votes.csv").click()
    eventually(page.get_by_text("what it was taken for")).to_be_visible()
    take("app-file")
    page.get_by_role("button", name="Next: questions").click()
    take("app-question")
    page.get_by_label("balanced").check()
    page.get_by_role("button", name="Next").click()
    page.locator("textarea").fill("\n".join(CITIES))
    page.get_by_role("button", name="Next").click()
    page.locator("input[type=number]").fill(f"{ANSWERS}")
    page.get_by_role("button", name="Write").click()
    page.get_by_label("About how many").fill(f"{PEOPLE}")
    page.locator("#epsilon").fill(f"{EPSILON_STOP}")
    eventually(page.get_by_text("The best item comes out first")).to_be_visible()
    eventually(page.locator("img[src^=plan]")).to_be_visible()
    page.locator("img[src^=plan]").evaluate("picture => picture.decode()")
    take("app-budget")
    page.get_by_role("button", name="Save and check").click()
    page.locator("#start").click()
    report = page.frame_locator("iframe")
    eventually(report.get_by_text("What epsilon means")).to_be_visible()
    page.wait_for_timeout(PAINTED)
    take("app-report")


def main() -> None:
    """Take the pictures in a light browser on a desk."""
    with tempfile.TemporaryDirectory() as folder, launched() as browser:
        write_votes(Path(folder, "votes.csv"))
        words = [sys.executable, "-m", "hushrank", "app", folder, "--no-browser"]
        server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        printed = "" if server.stdout is None else server.stdout.readline()
        address = printed.rpartition(" ")[2].strip()
        page = on_screen(browser, "light", "desktop").new_page()

        def take(name: str) -> None:
            # The name of the folder is this machine's alone.
            page.locator("#folder").evaluate("element => element.textContent = 'in votes'")
            path = HERE / f"{name}.png"
            page.screenshot(path=path, full_page=True)
            with Image.open(path) as picture:
                picture.convert("RGB").quantize(COLOURS).save(path, optimize=True)

        try:
            use(page, address, take)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
