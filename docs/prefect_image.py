"""Draw `docs/images/prefect-night.png`, Prefect's page of a night: `python -m docs.prefect_image`.

It shows the last night of `make demo`, which has to run before.
"""

from __future__ import annotations

import io
import os
import sqlite3
import uuid
from pathlib import Path

from PIL import Image

from hushrank.flows.nights.server import own_server
from tests.flows.browsers import launched

HERE = Path(__file__).resolve().parent
HOME = HERE.parent / "demo" / "prefect"
LEFT, WIDTH, HEIGHT = 255, 865, 1150  # pixels, of which Prefect's menu takes the left ones
COLOURS = 48
PATIENCE = 200_000  # milliseconds


def main() -> None:
    """Write the picture."""
    os.environ["PREFECT_HOME"] = str(HOME)
    with sqlite3.connect(HOME / "prefect.db") as database:
        (run,) = database.execute("select id from flow_run order by created desc").fetchone()
    with own_server() as address, launched() as browser:
        page = browser.new_page(viewport={"width": LEFT + WIDTH, "height": HEIGHT})
        page.goto(f"{address}/runs/flow-run/{uuid.UUID(run)}", timeout=PATIENCE)
        page.get_by_text("Task Runs", exact=True).first.click(timeout=PATIENCE)
        page.get_by_text("reserve").last.wait_for(timeout=PATIENCE)
        page.wait_for_timeout(4000)  # the graph is drawn after the list
        picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    part = picture.crop((LEFT, 0, LEFT + WIDTH, HEIGHT))
    flat = part.quantize(COLOURS, dither=Image.Dither.NONE)
    flat.save(HERE / "images" / "prefect-night.png", optimize=True)


if __name__ == "__main__":
    main()
