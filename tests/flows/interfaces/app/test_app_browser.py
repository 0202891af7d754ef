"""The page in a real browser: from a file to a report by keyboard alone, on desk and phone.

Every step is looked at by axe, in light and dark; the page must be as wide as the screen, and must
ask for nothing but its own server.
"""

from __future__ import annotations

import pytest

from tests.flows.browsers import SCREENS, complaints_of, eventually, faults, on_screen
from tests.flows.planning.propose.test_shapes import ITEMS

pytestmark = [pytest.mark.engine, pytest.mark.slow]

MOST_TABS = 60
NAMED = (
    "element => [element.innerText, element.getAttribute('aria-label'), element.id,"
    " ...[...(element.labels ?? [])].map((label) => label.innerText)].join(' ')"
)


class Walk:
    """A person at the keyboard."""

    def __init__(self, page, screen: str) -> None:
        self.page, self.screen = page, screen
        self.complaints = complaints_of(page)
        self.asked: list[str] = []
        page.on("request", lambda request: self.asked.append(request.url))

    def tab_to(self, words: str) -> None:
        """Press Tab until the element in focus is named so."""
        for _ in range(MOST_TABS):
            self.page.keyboard.press("Tab")
            focused = self.page.locator("*:focus")
            if focused.count() and words in focused.evaluate(NAMED):
                style = focused.evaluate("element => getComputedStyle(element).outlineStyle")
                assert style != "none", words
                return
        raise AssertionError(f"no way by keyboard to {words}")

    def press(self, words: str, key: str = "Enter") -> None:
        self.tab_to(words)
        self.page.keyboard.press(key)

    def look(self, heading: str) -> None:
        """Wait for a heading, and look at the page."""
        eventually(self.page.get_by_role("heading", name=heading).first).to_be_visible()
        width = self.page.evaluate("document.documentElement.scrollWidth")
        assert width <= SCREENS[self.screen][0]
        assert faults(self.page) == {}
        assert self.complaints == []


@pytest.mark.parametrize(
    ("scheme", "screen", "items"), [("light", "desktop", 3), ("dark", "phone", 300)]
)
def test_a_newcomer_gets_a_report_by_keyboard(browser, folder, started, scheme, screen, items):
    address, _ = started(folder)
    context = on_screen(browser, scheme, screen)
    try:
        page = context.new_page()
        walk = Walk(page, screen)
        page.goto(address)
        walk.look("Which file holds the answers?")
        walk.press("votes.csv")
        walk.look("what it was taken for, and why")
        walk.press("I hold these answers", "Space")
        walk.press("Show the first rows")
        eventually(page.get_by_text("CONFIDENTIAL")).to_be_visible()
        walk.look("what it was taken for, and why")
        walk.press("Next: questions")
        walk.look("Question 1 of 3")
        assert page.locator("input:checked").count() == 0  # nothing is chosen for the person
        walk.press("Next")
        eventually(page.get_by_role("alert")).to_contain_text("Please answer first")
        page.get_by_role("heading").first.focus()
        walk.press("balanced", "Space")
        walk.press("Next")
        walk.look("Question 2 of 3")
        walk.tab_to("One item a line")
        names = [*ITEMS, *(f"never chosen {number}" for number in range(items - len(ITEMS)))]
        page.keyboard.insert_text("\n".join(names))
        walk.press("Next")
        walk.look("Question 3 of 3")
        walk.tab_to("Answers a person")
        page.keyboard.insert_text("3")
        walk.press("Write the job's file")
        walk.look("How well are people protected")
        eventually(page.get_by_role("button", name="Save and check")).to_be_disabled()
        walk.tab_to("About how many people")
        page.keyboard.insert_text("60")
        walk.press("Epsilon:", "End")
        eventually(page.locator("#says")).to_contain_text("is right at most")
        eventually(page.get_by_role("img")).to_be_visible()
        walk.look("How well are people protected")
        walk.press("Save and check")
        eventually(page.get_by_role("heading", name="Ready")).to_be_visible()
        walk.look("Ready")
        walk.press("start")
        walk.look("Run")
        report = page.frame_locator("iframe")
        eventually(report.get_by_text("What epsilon means")).to_be_visible()
        eventually(page.get_by_role("link", name="certificate.json")).to_be_visible()
        with page.expect_download() as saving:
            page.get_by_role("link", name="ranking.csv").click()
        assert saving.value.suggested_filename.endswith("ranking.csv")
        page.get_by_role("heading").first.focus()
        walk.press("5 What was done")
        walk.look("What was done with survey.yaml")
        eventually(page.get_by_role("table")).to_be_visible()
        walk.press("Verify")
        eventually(page.get_by_text("Nothing is wrong.")).to_be_visible()
        walk.look("What was done with survey.yaml")
        assert [url for url in walk.asked if not url.startswith((address, "data:"))] == []
    finally:
        context.close()


def test_a_closed_tab_finds_its_run_again(browser, folder, started):
    """The next tab shows the run that goes on, or its result under What was done."""
    from tests.flows.interfaces.app.conftest import ANSWERS

    address, _ = started(folder)
    context = on_screen(browser, "light", "desktop")
    try:
        page = context.new_page()
        page.goto(address)
        eventually(page.get_by_role("button", name="votes.csv")).to_be_visible()
        origin = address.rstrip("/").rpartition("/")[0]
        headers = {"origin": origin}

        def post(path: str, content: dict) -> dict:
            return context.request.post(f"{address}{path}", data=content, headers=headers).json()

        post("api/survey", {"file": "votes.csv", "answers": ANSWERS})
        digest = context.request.get(f"{address}api/budget?survey=survey.yaml").json()["digest"]
        body = {"survey": "survey.yaml", "digest": digest, "epsilon": 8}
        post("api/run", {"survey": "survey.yaml", "digest": post("api/budget", body)["digest"]})
        page.close()
        page = context.new_page()
        page.goto(f"{address}#run/survey.yaml")
        eventually(page.locator("iframe")).to_be_visible()
        eventually(page.get_by_text("Done. Spent epsilon 8.")).to_be_visible()
    finally:
        context.close()


def test_a_file_is_picked_and_copied_in(browser, folder, started, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text("voter,left,right,winner\nzebra,a,b,a\nokapi,b,a,b\n")
    address, _ = started(folder)
    context = on_screen(browser, "light", "desktop")
    try:
        page = context.new_page()
        page.goto(address)
        page.get_by_label("Drop a file here").set_input_files(str(other))
        eventually(page.get_by_role("heading", name="other.csv: what it was")).to_be_visible()
        assert (folder / "other.csv").read_text() == other.read_text()
        eventually(page.get_by_text("zebra")).to_have_count(0)
        page.get_by_label("Drop a file here").set_input_files(str(other))
        eventually(page.get_by_text("is in the folder already")).to_be_visible()
    finally:
        context.close()
