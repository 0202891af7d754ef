"""A real browser that looks at pages: how it starts, its screens, and whom a page shuts out."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

# Every window loads a page for suggestions of its address bar, in which nobody types: half of the
# processor time of a test. The last list counts, so it has the names of Playwright's own too.
SWITCHED_OFF = (
    *("WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup"),
    *("AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades"),
    *("HttpsFirstBalancedModeAutoEnable", "LensOverlay", "MediaRouter", "PaintHolding"),
    *("ThirdPartyStoragePartitioning", "AvoidCorsURLLoaderRestartOnRedirect", "AimEnabled"),
    *("OptimizationHints", "NetworkTimeServiceQuerying", "PreconnectToSearch"),
)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    f"--disable-features={','.join(SWITCHED_OFF)}",
)
PATIENCE = 600  # seconds
SCREENS = {"desktop": (1000, 800), "phone": (360, 740)}


@contextmanager
def launched() -> Iterator[Any]:
    """A browser of Playwright; where there is none the test is skipped and says why."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip(f"needs a browser, one of {', '.join(BROWSERS)}: no page was looked at")
    with playwright.sync_playwright() as engine:
        browser = engine.chromium.launch(
            executable_path=program, args=FLAGS, timeout=1000 * PATIENCE
        )
        yield browser
        browser.close()


def opened(browser: Any, **settings: Any) -> Any:
    """A context of its own, in which a page may take its time on a busy machine."""
    context = browser.new_context(**settings)
    context.set_default_timeout(1000 * PATIENCE)
    return context


def on_screen(browser: Any, scheme: str, screen: str, **settings: Any) -> Any:
    """Such a context: colours `light` or `dark`, on a screen of `SCREENS`."""
    width, height = SCREENS[screen]
    return opened(
        browser,
        viewport={"width": width, "height": height},
        color_scheme=scheme,
        is_mobile=screen == "phone",
        **settings,
    )


def eventually(locator: Any) -> Any:
    """Playwright's assertions on part of a page: they wait, for a page answers in its own time."""
    from playwright.sync_api import expect

    expect.set_options(timeout=1000 * PATIENCE)
    return expect(locator)


def complaints_of(page: Any) -> list[str]:
    """What the browser will say on its console about a page: empty until it is opened."""
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return complaints


def faults(page: Any) -> dict[str, list[str]]:
    """What axe-core objects to, with the elements."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response
    assert {each["id"] for each in found["passes"]} >= {"color-contrast", "html-has-lang"}
    return {each["id"]: [node["html"] for node in each["nodes"]] for each in found["violations"]}
