"""The survey page in a real browser: what leaves it, who can use it, and at which rate it flips."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from scipy.stats import binomtest

from hushrank.flows.collecting.survey.settings import build_site, page_headers
from hushrank.flows.methods.registry import load_config
from tests.flows.browsers import SCREENS, complaints_of, eventually, faults, on_screen, opened
from tests.flows.collecting.survey.hosts import Host, hosted, press

pytestmark = [pytest.mark.engine, pytest.mark.slow]

ITEMS = ("Barcelona", "London", "Milano", "Paris", "St.Gallen", "<b>Zürich</b>")
MANY = (*ITEMS, "Stockholm", "Wien", "Oslo", "Rom")
RESPONDENTS, QUESTIONS, EPSILON = 50, 40, 1.0  # 2 000 answers
ALREADY = {"unit": "local", "already_private": True}
KINDS: dict[str, dict[str, Any]] = {
    "pairs": {
        "input": {"kind": "comparisons", "columns": {"epsilon": "epsilon"}},
        "privacy": ALREADY | {"epsilon_levels": [0.25, 1.0, 2.0, 4.0]},
        "method": "debiased-rr",
        "collect": {"questions": 10},
    },
    "ranked": {
        "input": {"kind": "comparisons", "columns": {"epsilon": "epsilon"}},
        "privacy": ALREADY | {"epsilon_range": [1.0, 30.0]},
        "method": "debiased-rr",
        "collect": {"ask": "ranking", "shown": 4, "start_epsilon": 30.0, "languages": ["de"]},
    },
    "mallows": {
        "input": {"kind": "rankings", "layout": "list", "columns": {"epsilon": "epsilon"}},
        "privacy": ALREADY | {"epsilon_range": [1.0, 400.0], "mechanism": "mallows"},
        "method": "borda",
        "collect": {"start_epsilon": 400.0},
    },
    "random pairs": {
        "input": {"kind": "rankings", "layout": "pairs"},
        "privacy": ALREADY | {"epsilon": 60.0, "pairs": 2, "mechanism": "random-pairs"},
        "method": "borda",
        "collect": {"tokens": True},
    },
    "test": {
        "input": {"kind": "responses"},
        "privacy": ALREADY | {"epsilon": 240.0, "max_contributions": 6},
        "method": "spectral-rr",
        "collect": {"no_is_right": ["London"]},
    },
}


def site_of(
    folder: Path, kind: str, items: Sequence[str] = ITEMS, **collect: Any
) -> tuple[dict[str, bytes], dict[str, str]]:
    """The files of a page, and the headers for them."""
    sections = KINDS[kind]
    content = {
        "name": "campus-choice",
        "items": {"names": list(items)},
        "output": "out",
        "confidential": "work",
        "ledger": {"path": "ledger.jsonl", "epsilon": 1000},
        **sections,
        "input": sections["input"] | {"paths": ["answers/*"]},
        "collect": {"folder": "answers", "languages": ["en", "de"], **sections["collect"]}
        | collect,
    }
    path = folder / "survey.yaml"
    path.write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    return build_site(load_config(path)), page_headers(collect.get("url", "answers"))


@pytest.fixture
def visit(browser, tmp_path):
    """Serve a page and open it; returns the page, its host, and what the browser complained of."""
    hosts, contexts = [], []

    def open_page(
        kind: str,
        scheme: str = "light",
        screen: str = "desktop",
        address: str = "",
        **collect: Any,
    ):
        serving = hosted(*site_of(tmp_path, kind, **collect))
        host = serving.__enter__()
        hosts.append(serving)
        settings = {"locale": "en-GB", "has_touch": screen == "phone"}
        context = on_screen(browser, scheme, screen, **settings)
        contexts.append(context)
        page = context.new_page()
        complaints = complaints_of(page)
        page.goto(f"{host.address}{address}")
        page.locator("h1:focus").wait_for()
        return page, host, complaints

    yield open_page
    for context in contexts:
        context.close()
    for serving in hosts:
        serving.__exit__(None, None, None)


# Answers all questions by clicking what a person would: the item that is first in the alphabet.
# Returns what was answered, which only this script knows, and the text that the page showed.
RESPOND = """async () => {
    const next = () => new Promise((resolve) => setTimeout(resolve, 0));
    const until = async (found) => { while (!found()) await next(); return found(); };
    (await until(() => document.querySelector("button.main"))).click();
    const truths = [];
    while (!document.querySelector("#body")) {
        const choices = [...document.querySelectorAll("button.choice")];
        const most = document.querySelector("progress")?.max;
        if (choices.length === 0 || truths.length === most) { await next(); continue; }
        const names = choices.map((each) => each.textContent);
        const best = names[0] < names[1] ? 0 : 1;
        truths.push([names[best], names[1 - best]]);
        choices[best].click();
    }
    const shown = document.querySelector("#body").textContent;
    document.querySelector("button.main").click();
    await until(() => !document.querySelector("#body"));
    return [truths, shown, document.querySelector("h1").textContent];
}"""
FORGET = """() => new Promise((resolve) => {
    const gone = indexedDB.deleteDatabase("hushrank");
    gone.onsuccess = gone.onblocked = () => resolve();
})"""


@pytest.fixture(scope="module")
def respondents(browser, tmp_path_factory) -> tuple[Host, list[Any], list[str]]:
    """Fifty people, one after the other: the host, what each answered and saw, all requests."""
    urls: list[str] = []
    site = site_of(tmp_path_factory.mktemp("survey"), "pairs", MANY, questions=QUESTIONS)
    with hosted(*site) as host:
        context = opened(browser, locale="en-GB")
        context.on("request", lambda request: urls.append(request.url))
        page = context.new_page()
        answered = []
        for _ in range(RESPONDENTS):
            page.goto(host.address)
            answered.append(page.evaluate(RESPOND))
            page.evaluate(FORGET)
        context.close()
    return host, answered, urls


def test_fifty_people_answer(respondents):
    host, answered, _ = respondents
    assert len(host.sent) == RESPONDENTS
    assert {thanks for _, _, thanks in answered} == {"Thank you"}
    for (truths, shown, _), body in zip(answered, host.sent, strict=True):
        assert json.loads(shown) == body
        asked = {frozenset(pair) for pair in truths}
        assert len(asked) == QUESTIONS
        assert {frozenset((each["left"], each["right"])) for each in body["answers"]} == asked


def test_chosen_pairs_are_asked_by_their_shares(browser, tmp_path):
    """Two of six pairs, 19 to 1: a right page fails once in 10^6, and even shares are seen."""
    (tmp_path / "pairs.csv").write_text(
        f"left,right,share\n{MANY[0]},{MANY[1]},0.95\n{MANY[2]},{MANY[0]},0.05\n", "utf-8"
    )
    people, asked = 80, []
    with hosted(*site_of(tmp_path, "pairs", MANY, questions=1, pairs="pairs.csv")) as host:
        context = opened(browser, locale="en-GB")
        page = context.new_page()
        for _ in range(people):
            page.goto(host.address)
            ((pair,), _, _) = page.evaluate(RESPOND)
            asked.append(frozenset(pair))
            page.evaluate(FORGET)
        context.close()
    often = asked.count(frozenset(MANY[:2]))
    assert {*asked} <= {frozenset(MANY[:2]), frozenset((MANY[0], MANY[2]))}
    assert binomtest(often, people, 0.95).pvalue > 1e-6
    assert binomtest(often, people, 0.5).pvalue < 1e-6


def test_nothing_else_leaves_the_device(respondents):
    """Of all requests of fifty people: whose it is could be anybody's, and nobody else is asked."""
    host, answered, urls = respondents
    assert {url.startswith((host.address, "data:")) for url in urls} == {True}
    shown = [text for _, text, _ in answered]
    assert [body for method, _, _, body in host.asked if method == "POST"] == shown  # byte by byte
    files = {"/", *(f"/{name}" for name in host.files)}
    for method, path, headers, body in host.asked:
        assert path == "/answers" if method == "POST" else path in files
        assert method == "POST" or body == ""
        assert not {"cookie", "referer", "authorization"} & {name.lower() for name in headers}
    kept = [  # besides the length of the body, all people's headers are the same
        {name: value for name, value in headers.items() if name != "Content-Length"}
        for method, _, headers, _ in host.asked
        if method == "POST"
    ]
    assert all(each == kept[0] for each in kept)
    for body in host.sent:
        assert set(body) == {"schema", "survey", "kind", "submission", "answers"}
        assert (body["schema"], body["survey"]) == (1, "campus-choice")
        assert re.fullmatch(r"[\w-]{22}", body["submission"])
        for answer in body["answers"]:
            assert set(answer) == {"left", "right", "outcome", "epsilon"}
            assert answer["left"] < answer["right"]
            assert answer["outcome"] in (-1, 1)
            assert answer["epsilon"] == EPSILON
    submissions = [body["submission"] for body in host.sent]
    assert len(set(submissions)) == RESPONDENTS  # nobody is recognised by it


def test_answers_are_flipped_at_the_stated_rate(respondents):
    """2 000 answers: a right page fails once in 10^6, and a rate 40 % off is seen as often."""
    host, answered, _ = respondents
    flips = total = 0
    for (truths, _, _), body in zip(answered, host.sent, strict=True):
        winners = {frozenset(pair): pair[0] for pair in truths}
        for each in body["answers"]:
            said = each["left"] if each["outcome"] == 1 else each["right"]
            flips += winners[frozenset((each["left"], each["right"]))] != said
            total += 1
    assert total == RESPONDENTS * QUESTIONS
    rate = 1 / (1 + math.exp(EPSILON))
    assert binomtest(flips, total, rate).pvalue > 1e-6
    assert binomtest(flips, total, 1.4 * rate).pvalue < 1e-6
    assert binomtest(flips, total, 0.6 * rate).pvalue < 1e-6
    asked = {frozenset(pair) for truths, _, _ in answered for pair in truths}
    assert asked == {frozenset(pair) for pair in combinations(MANY, 2)}


def test_the_search_sees_a_page_that_tells_more(browser, tmp_path):
    """A page that also sends true answers, or asks elsewhere, fails the search above."""
    made, headers = site_of(tmp_path, "pairs")
    script = made["page.js"].decode()
    good = "const outcome = privatizeAnswer(given[at], epsilon) === 1 ? 1 : -1;"
    assert good in script
    leak = good + 'fetch("/answers?true=" + given[at]); fetch("https://example.org/");'
    script = script.replace(good, leak)
    index = re.sub(rb'(src="page.js") integrity="[^"]*"', rb"\1", made["index.html"])
    files = made | {"page.js": script.encode(), "index.html": index}
    urls: list[str] = []
    with hosted(files, headers) as host:
        context = opened(browser, locale="en-GB")
        context.on("request", lambda request: urls.append(request.url))
        page = context.new_page()
        complaints = complaints_of(page)
        page.goto(host.address)
        answered = [page.evaluate(RESPOND)]
        with pytest.raises(AssertionError):
            test_nothing_else_leaves_the_device((host, answered, urls))
        assert any("Content Security Policy" in text for text in complaints)  # of example.org
        context.close()


def test_a_file_that_was_changed_does_not_run(browser, tmp_path):
    made, headers = site_of(tmp_path, "pairs")
    for name in ("page.js", "hushrank.js", "survey.json"):
        changed = made | {name: made[name] + b"\n"}
        with hosted(changed, headers) as host:
            context = opened(browser)
            page = context.new_page()
            complaints = complaints_of(page)
            with page.expect_console_message():
                page.goto(host.address)
            page.wait_for_timeout(100)
            assert page.locator("button").count() == 0
            assert complaints
            context.close()


@pytest.mark.parametrize(
    ("kind", "scheme", "screen"),
    [
        ("pairs", "light", "phone"),
        ("mallows", "dark", "phone"),
        ("test", "light", "desktop"),
    ],
)
def test_nobody_is_shut_out_on_any_screen(visit, kind, scheme, screen):
    page, host, complaints = visit(kind, scheme, screen)
    seen = 0
    while page.locator("#body").count() == 0:
        choices = page.locator("button.choice")
        if choices.count() == 0 or seen < 2:
            assert faults(page) == {}
            wide = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
            assert wide[0] <= wide[1] == SCREENS[screen][0]
        press(page, (choices if choices.count() else page.locator("button.main")).first)
        seen += 1
    assert faults(page) == {}
    page.get_by_role("button", name="Send").click()
    page.get_by_role("heading", name="Thank you").wait_for()
    assert faults(page) == {}
    assert complaints == []
    assert len(host.sent) == 1


ASKER = {
    "organisation": "University of <b>Example</b>",
    "contact": "survey@example.org",
    "privacy_notice": "https://example.org/privacy",
}


def test_the_page_says_who_asks_before_it_asks(visit):
    page, host, complaints = visit("pairs", about=ASKER | {"closes": "2899-12-31"})
    said = page.locator(".asker")
    eventually(said).to_contain_text("University of <b>Example</b> asks you this.")
    eventually(said).to_contain_text("For questions: survey@example.org.")
    eventually(said).to_contain_text("Answers are taken until December 31, 2899.")
    link = page.get_by_role("link", name="Privacy notice")
    assert link.get_attribute("href") == "https://example.org/privacy"
    assert faults(page) == {}
    page.get_by_role("button", name="Deutsch").click()
    eventually(said).to_contain_text("Antworten werden bis zum 31. Dezember 2899 angenommen.")
    assert (complaints, host.sent) == ([], [])


def test_a_page_that_has_closed_asks_nothing(visit):
    page, host, complaints = visit("pairs", about=ASKER | {"closes": "2026-01-31"})
    said = "This survey took answers until January 31, 2026 and is closed. Nothing was sent."
    eventually(page.get_by_role("alert")).to_have_text(said)
    assert page.locator("button.main, button.choice").count() == 0
    assert faults(page) == {}
    assert (complaints, host.sent) == ([], [])


def test_levels_that_hardly_differ_can_be_told_apart(visit, monkeypatch):
    close = KINDS["pairs"] | {"privacy": ALREADY | {"epsilon_levels": [1.0, 1.01, 4.0]}}
    monkeypatch.setitem(KINDS, "pairs", close)
    page, _, _ = visit("pairs")
    labels = page.get_by_role("group", name="Your choice").locator("label")
    chances = [re.search(r"[0-9.]+%", text)[0] for text in labels.all_inner_texts()]
    assert chances == ["26.9%", "26.7%", "1.8%"]


def test_the_levels_say_what_they_mean_and_one_of_them_is_sent(visit):
    page, host, _ = visit("pairs")
    group = page.get_by_role("group", name="Your choice")
    labels = [f"changed by chance: {percent}% of answers" for percent in (44, 27, 12, 2)]
    labels = [f"{labels[0]} (more private)", *labels[1:3], f"{labels[3]} (more exact)"]
    eventually(group.locator("label")).to_have_text(labels)
    eventually(group.get_by_role("radio", name=labels[1])).to_be_checked()
    said = "epsilon is 1, and at most 10 for everything you send together"
    eventually(page.locator("#meaning")).to_contain_text(said)
    group.get_by_role("radio", name=labels[1]).focus()
    page.keyboard.press("ArrowDown")
    said = "Each of your answers is sent wrong with probability 12%."
    eventually(page.locator("#meaning")).to_contain_text(said)
    press(page, page.get_by_role("button", name="Begin"))
    while page.locator("#body").count() == 0:
        press(page, page.locator("button.choice").first)
    (epsilon,) = {each["epsilon"] for each in json.loads(page.inner_text("#body"))["answers"]}
    assert epsilon == 2.0
    assert host.sent == []


def order_of(page) -> list[str]:
    page.locator("ol.ranking").wait_for()
    return page.locator("ol.ranking .label").all_inner_texts()


def test_the_keyboard_alone_puts_items_in_order(visit):
    """Largest epsilon: the ranking that is sent is, but for one in 10^20, the one made."""
    page, host, complaints = visit("mallows")
    eventually(page.locator("h1")).to_have_text("Which do you prefer?")
    for _ in range(9):  # from the heading: language, slider, begin
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "Begin":
            break
    page.keyboard.press("Enter")
    order_of(page)
    wanted = sorted(ITEMS, reverse=True)
    for place, item in enumerate(wanted):
        button = page.get_by_role("button", name=f"Move {item} up", exact=False)
        for _ in range(40):
            if page.evaluate("(at) => document.activeElement === at", button.element_handle()):
                break
            page.keyboard.press("Tab")
        while order_of(page).index(item) > place:
            page.keyboard.press("Enter")  # the focus stays with the item
        page.locator("h1").focus()
    assert order_of(page) == wanted
    said = re.compile(r"^.* is now at place \d of 6$")
    eventually(page.locator("#announcement")).to_have_text(said)
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "This is my order":
            break
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Send").focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Thank you").wait_for()
    (body,) = host.sent
    assert body["kind"] == "rankings"
    assert body["answers"] == [{"ranking": wanted, "epsilon": 400.0}]
    assert complaints == []


@pytest.mark.parametrize("screen", ["desktop", "phone"])
def test_items_are_drawn_by_mouse_and_by_touch(visit, screen):
    page, host, _ = visit("ranked", screen=screen)
    page.locator("button.main").click()
    before = order_of(page)
    boxes = [page.locator(".grip").nth(at).bounding_box() for at in (3, 0)]
    start, end = ((box["x"] + box["width"] / 2, box["y"] + box["height"] / 2) for box in boxes)
    if screen == "desktop":
        page.mouse.move(*start)
        page.mouse.down()
        page.mouse.move(*end, steps=12)
        page.mouse.up()
    else:
        touch(page, start, end)
    labels = page.locator("ol.ranking .label")
    eventually(labels).to_have_text([before[3], *before[:3]], use_inner_text=True)
    page.locator("button.main").click()
    answers = json.loads(page.inner_text("#body"))["answers"]
    place = {item: at for at, item in enumerate([before[3], *before[:3]])}
    assert len(answers) == 2
    for each in answers:
        assert each["epsilon"] == 30.0
        assert (place[each["left"]] < place[each["right"]]) == (each["outcome"] == 1)
    eventually(page.locator("html")).to_have_attribute("lang", "de")
    assert host.sent == []


def touch(page, start, end) -> None:
    session = page.context.new_cdp_session(page)
    for number in range(13):
        x, y = ((start[k] * (12 - number) + end[k] * number) / 12 for k in (0, 1))
        kind = "touchStart" if number == 0 else "touchMove"
        points = [{"x": x, "y": y}]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def test_what_was_made_is_kept_sent_again_unchanged_and_sent_once(visit):
    page, host, _ = visit("pairs")
    host.refuse = "the survey is over"
    press(page, page.locator("button.main"))
    press(page, page.get_by_role("button", name="No preference"))
    while page.locator("#body").count() == 0:
        press(page, page.locator("button.choice").first)
    shown = page.inner_text("#body")
    page.get_by_role("button", name="Send").click()
    page.get_by_text("They were not taken: the survey is over").wait_for()
    page.reload()
    page.locator("#body").wait_for()
    assert page.inner_text("#body") == shown
    host.refuse = ""
    page.get_by_role("button", name="Send").click()
    page.get_by_role("heading", name="Thank you").wait_for()
    assert host.sent[0] == host.sent[1] == json.loads(shown)
    page.reload()
    page.get_by_role("heading", name="Thank you").wait_for()
    eventually(page.locator("button.main")).to_have_count(0)
    stored = page.evaluate(
        """() => new Promise((resolve) => {
            const opening = indexedDB.open("hushrank");
            opening.onsuccess = () => {
                const all = opening.result.transaction("answers").objectStore("answers").getAll();
                all.onsuccess = () => resolve(all.result);
            };
        })"""
    )
    assert sorted(map(json.loads, stored), key=str) == sorted([shown, True], key=str)


TWO_TABS = """async (tab) => {
    const { Memory, indexedDBStore } = await import("/hushrank.js");
    const memory = new Memory("race", indexedDBStore());
    const asked = [...Array(100).keys()].map((at) => memory.once([`${at}`], () => `${tab} ${at}`));
    window.answers = Promise.all(asked);
}"""


def test_two_tabs_agree_on_one_private_answer(visit):
    """Both ask the same 100 questions in the same moment, and both would answer otherwise."""
    page, host, _ = visit("pairs")
    other = page.context.new_page()
    other.goto(host.address)
    for tab, each in enumerate((page, other)):
        each.evaluate(TWO_TABS, tab)
    one, two = (each.evaluate("window.answers") for each in (page, other))
    assert one == two
    assert len(one) == 100
    assert page.evaluate(TWO_TABS, 3) is None
    assert page.evaluate("window.answers") == one


def test_a_token_goes_along_and_leaves_the_address(visit):
    page, host, _ = visit("random pairs", address="#t=abc-123")
    eventually(page).to_have_url(host.address)
    page.locator("button.main").click()
    wanted = order_of(page)
    page.locator("button.main").click()
    page.get_by_role("button", name="Send").click()
    page.get_by_role("heading", name="Thank you").wait_for()
    (body,) = host.sent
    assert body["token"] == "abc-123"
    (answer,) = body["answers"]
    assert answer["length"] == len(ITEMS)
    assert len(answer["answers"]) == 2
    for each in answer["answers"]:  # epsilon 30 each: flipped once in 10^13
        assert set(each) == {"left", "right", "outcome"}
        above = wanted.index(each["left"]) < wanted.index(each["right"])
        assert above == (each["outcome"] == 1)
    page, host, _ = visit("random pairs")
    eventually(page.locator("[role=alert]")).to_contain_text("personal link")


def test_yes_and_no_become_right_and_wrong(visit):
    page, host, _ = visit("test")
    eventually(page.locator("main")).to_contain_text("Everybody has the same protection here.")
    press(page, page.locator("button.main"))
    while page.locator("#body").count() == 0:
        press(page, page.get_by_role("button", name="Yes"))
    page.get_by_role("button", name="Send").click()
    page.get_by_role("heading", name="Thank you").wait_for()
    (body,) = host.sent
    correct = {each["item"]: each["correct"] for each in body["answers"]}
    assert correct == {item: int(item != "London") for item in ITEMS}
    assert {each["epsilon"] for each in body["answers"]} == {math.nextafter(240.0 / 6, 0)}


def test_languages_change_before_the_first_question(visit):
    page, _, _ = visit("pairs")
    page.get_by_role("button", name="Deutsch").click()
    eventually(page.locator("h1")).to_have_text("Was ist Ihnen lieber?")
    eventually(page.locator("html")).to_have_attribute("lang", "de")
    eventually(page.locator("#meaning")).to_contain_text(re.compile("27[ \u00a0]%"))
    page.get_by_role("button", name="Anfangen").click()
    eventually(page.get_by_role("button", name="English")).to_be_hidden()


def test_dark_is_dark_and_light_is_light(visit):
    for scheme, low, high in (("light", 200, 255), ("dark", 0, 60)):
        page, _, _ = visit("pairs", scheme)
        color = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert low < sum(int(part) for part in color[4:-1].split(",")) / 3 < high
