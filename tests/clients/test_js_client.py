"""The JavaScript client: the very same laws as Python's, secret bits alone, and what is packed.

The library that the wheel carries (flows/collecting/survey/files/hushrank.js) is run in Node. That
it is what `make js` builds from clients/js is tested where npm is.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock

from hushrank.privacy import local_source
from hushrank.privacy.mallows import insertion_weights, synthetic_rankings
from hushrank.privacy.random_pairs import Hide, answer_pairs, law_of_epsilon
from hushrank.privacy.randomized_response import epsilon_of_answer, flip_thresholds
from tests.clients.programs import node_program, npm_program
from tests.flows.browsers import complaints_of, eventually, launched, opened

HERE = Path(__file__).parent
LIBRARY = Path(str(files("hushrank.flows.collecting.survey").joinpath("files", "hushrank.js")))
TRIPLES = 100_000
NODE_SECONDS = 600


class ListedBits:
    """Words in the order of their use, which are remembered."""

    safe = False

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self.used: list[int] = []

    def words(self, n: int) -> Any:
        drawn = self._random.integers(0, 2**64, n, np.uint64, endpoint=False)
        if self._random.random() < 0.05:  # the largest words are drawn again by both
            drawn[:] = np.uint64(2**64 - 1)
        self.used += [int(word) for word in drawn]
        return drawn


@pytest.fixture(scope="module")
def node() -> str:
    return node_program()


def run_node(node: str, script: str, *words: str) -> Any:
    done = subprocess.run(
        [node, str(HERE / script), *words],
        capture_output=True,
        text=True,
        timeout=NODE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def epsilons(n: int) -> np.ndarray[Any, Any]:
    """From far below to far above what matters, and the doubles on both sides of some of them."""
    random = np.random.default_rng(20)
    spread = np.exp(random.uniform(math.log(1e-9), math.log(60), n))
    marks = np.array([1e-300, 1e-12, 0.5, math.log(3), 1, 2, 4, 44.999, 45, 46, 1e6, 1e308])
    spread[: 3 * len(marks)] = [*marks, *np.nextafter(marks, 0), *np.nextafter(marks, np.inf)]
    return spread


def write_answers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `privatize_answer` returns when a word is drawn: near the threshold, and anywhere."""
    random = np.random.default_rng(21)
    drawn: list[int] = []
    monkeypatch.setattr(local_source.secrets, "randbits", lambda _: drawn[0])
    rows = bytearray()
    for number, epsilon in enumerate(epsilons(TRIPLES).tolist()):
        own = local_source._threshold(epsilon, others=1)
        word = own + (-1, 0)[number % 2] if number % 4 else int(random.integers(2**63)) * 2
        drawn[:] = [word]
        answer = number // 2 % 2
        private = local_source.privatize_answer(answer, epsilon)
        three = local_source._threshold(epsilon, others=2)
        rows += struct.pack("<dQQQBB", epsilon, word, own, three, answer, private)
    (folder / "answers.bin").write_bytes(rows)


def mallows_cases() -> Iterator[dict[str, Any]]:
    random = np.random.default_rng(22)
    for number in range(300):
        size = int(random.integers(2, 40))
        epsilon, bits = float(np.exp(random.uniform(-7, 4))), ListedBits(number)
        codes = random.permutation(size).astype(np.int64)
        made = synthetic_rankings(codes, np.array([size]), epsilon, bits)
        table = insertion_weights(np.array([epsilon]), size)[:, 0]
        yield {
            "epsilon": epsilon,
            "items": [f"item {code}" for code in codes],
            "words": [str(word) for word in bits.used],
            "expected": [f"item {code}" for code in made],
            "weights": [str(int(weight)) for weight in table],
        }


def pair_cases() -> Iterator[dict[str, Any]]:
    random = np.random.default_rng(23)
    for number in range(400):
        hide = (Hide.ORDER, Hide.ITEMS)[number % 2]
        size = int(random.integers(4, 30))
        length = size if number % 3 == 0 else int(random.integers(3, size))
        ranked = random.permutation(size)[:length].astype(np.int64)
        pairs = int(random.integers(1, 4))
        epsilon, bits = float(np.exp(random.uniform(-3, 3))), ListedBits(number)
        law = law_of_epsilon(epsilon, pairs, hide)
        made = answer_pairs(ranked, np.array([length]), size, law, bits)
        rows = zip(made.first.tolist(), made.second.tolist(), made.outcome.tolist(), strict=True)
        yield {
            "epsilon": epsilon,
            "pairs": pairs,
            "items": [f"item {code:03d}" for code in ranked],
            "catalogue": [f"item {code:03d}" for code in range(size)] if number % 2 else None,
            "words": [str(word) for word in bits.used],
            "expected": [[f"item {a:03d}", f"item {b:03d}", outcome] for a, b, outcome in rows],
        }


@pytest.fixture(scope="module")
def vectors(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("vectors")
    with pytest.MonkeyPatch.context() as monkeypatch:
        write_answers(folder, monkeypatch)
    spread = epsilons(2_000)
    parts = np.arange(2_000) % 23 + 1
    shares = epsilon_of_answer(spread, parts)
    content = {
        "mallows": list(mallows_cases()),
        "pairs": list(pair_cases()),
        "shares": list(zip(spread.tolist(), parts.tolist(), shares.tolist(), strict=True)),
    }
    (folder / "rankings.json").write_text(json.dumps(content))
    return folder


def test_every_bit_is_python_s(node, vectors):
    found = run_node(node, "same_as_python.mjs", str(LIBRARY), str(vectors))
    assert found["wrong"] == {}
    assert found["counts"] == {"answers": TRIPLES, "mallows": 300, "pairs": 400}


def test_the_vectors_are_those_of_the_pipeline(vectors):
    """And `local_source`, which made them, has the thresholds that a pipeline flips below."""
    rows = np.frombuffer(
        (vectors / "answers.bin").read_bytes(),
        np.dtype("<f8, <u8, <u8, <u8, u1, u1"),
    )
    usual = rows["f0"] > 1e-11  # below, the pipeline refuses: nothing could be learned
    assert (flip_thresholds(rows["f0"][usual]) == rows["f2"][usual]).all()
    assert 0.3 < (rows["f4"] != rows["f5"]).mean() < 0.6


@pytest.mark.parametrize(
    ("good", "bad", "seen"),
    [
        ("let exponential = 1 / 40320;", "return Math.exp(-Math.min(x, 45));\nlet exponential;", 2),
        ("Math.ceil(exponential *", "Math.floor(exponential *", 1),
        ("word < threshold(epsilon)", "word <= threshold(epsilon)", 1),
        ("current = Math.ceil(", "current = Math.round(", 1),
        ("chosen.includes(value) ? last", "chosen.includes(value) ? value", 1),
    ],
)
def test_a_small_difference_is_seen(node, vectors, tmp_path, good, bad, seen):
    text = LIBRARY.read_text(encoding="utf-8")
    assert text.count(good) >= 1
    planted = tmp_path / "planted.mjs"
    planted.write_text(text.replace(good, bad), encoding="utf-8")
    found = run_node(node, "same_as_python.mjs", str(planted), str(vectors))
    assert len(found["wrong"]) >= seen


def test_what_was_answered_once_is_never_randomised_again(node):
    found = run_node(node, "memory.mjs", str(LIBRARY))
    for store in ("memory", "local"):
        assert found[store] == {"again": 1, "alone": 1, "drawn": 3, "both": 1, "unknown": True}
    keys = [key for key, _ in found["stored"]]
    assert sorted(keys) == sorted(f"hushrank:{key}" for key in KEYS)


KEYS = ('["one","a","b"]', '["one","a","c"]', '["other","a","b"]', '["one","race"]')


def test_what_no_law_covers_is_refused(node):
    found = run_node(node, "refusals.mjs", str(LIBRARY))
    assert found["taken"] == []
    assert found["missing"] == []  # functions that the library exports and no argument was tried of
    assert found["tried"] >= 600


def test_randomness_is_the_system_s_alone():
    """Of what people run: neither the library nor the page draws otherwise, or sends elsewhere."""
    folder = LIBRARY.parent
    for name, sources in (("hushrank.js", 1), ("page.js", 1)):
        text = (folder / name).read_text(encoding="utf-8")
        assert text.count("getRandomValues") == sources
        assert text.count("crypto.getRandomValues") == sources
        for word in ("Math.random", "Math.exp(", "performance", "innerHTML", "eval("):
            assert word not in text
        # The page asks the clock once: whether the survey is closed.
        clock = ["Date.now() >= Date.parse(about.closing)"] if name == "page.js" else []
        assert re.findall(r"Date\.now\(\).*(?=;)|new Date\(\)", text) == clock
        allowed = 2 if name == "page.js" else 0  # its settings, and the collector
        assert len(re.findall(r"\bfetch\(", text)) == allowed
        for way in ("XMLHttpRequest", "sendBeacon", "WebSocket", "new Image", "document.cookie"):
            assert way not in text


def test_flips_come_at_the_stated_rate(node, tmp_path):
    """With the system's own words. A right client fails once in 10^6; a rate 15 % off is seen."""
    from scipy.stats import binomtest

    n, epsilon = 20_000, 1.0
    script = tmp_path / "rate.mjs"
    script.write_text(
        f"import {{ privatizeAnswer }} from {json.dumps(LIBRARY.as_uri())};\n"
        f"let flips = 0; for (let i = 0; i < {n}; i++) flips += privatizeAnswer(0, {epsilon});\n"
        "console.log(flips);"
    )
    done = subprocess.run([node, str(script)], capture_output=True, text=True, check=True)
    rate = 1 / (1 + math.exp(epsilon))
    flips = int(done.stdout)
    assert binomtest(flips, n, rate).pvalue > 1e-6
    assert binomtest(flips, n, 1.15 * rate).pvalue < 1e-6
    assert binomtest(flips, n, 0.85 * rate).pvalue < 1e-6


@pytest.fixture(scope="module")
def package(checkout: Path, tmp_path_factory) -> Path:
    """A copy of clients/js, built; `page/` in it has what is committed. Skipped without npm."""
    folder = checkout / "clients/js"
    npm = npm_program()
    with FileLock(folder / ".lock"):  # tests of other processes need it too
        if not (folder / "node_modules").is_dir():
            command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
            done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
            if done.returncode:
                pytest.skip("npm cannot install the tools of clients/js: it was not built again")
    copy: Path = tmp_path_factory.mktemp("checkout") / "clients/js"
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("node_modules", "dist"))
    (copy / "node_modules").symlink_to(folder / "node_modules")
    shutil.copy(checkout / "LICENSE", copy.parents[1])
    subprocess.run(["node", "build.mjs", "built"], cwd=copy, check=True, timeout=NODE_SECONDS)
    return copy


def test_the_committed_files_are_what_the_sources_give(package):
    for name in ("hushrank.js", "page.js"):
        built, committed = package / "built" / name, LIBRARY.parent / name
        assert built.read_text() == committed.read_text(), f"{name} is old: run `make js`"


def test_the_npm_package_holds_the_library_and_its_types(package):
    shutil.rmtree(package / "dist")  # as in a checkout: packing builds it
    command = ["npm", "pack", "--dry-run", "--json"]
    done = subprocess.run(command, cwd=package, capture_output=True, text=True, check=True)
    assert (package / "dist/hushrank.js").is_file()
    (packed,) = json.loads(done.stdout[done.stdout.index("[") :])
    names = {each["path"] for each in packed["files"]}
    types = {f"dist/{path.stem}.d.ts" for path in (package / "src").glob("*.ts")}
    assert names == {"package.json", "README.md", "LICENSE", "dist/hushrank.js", *types}
    described = json.loads((package / "package.json").read_text())
    assert "dependencies" not in described
    own = {described["types"], *described["exports"]["."].values()}
    assert own == {"./dist/index.d.ts", "./dist/hushrank.js"}
    assert packed["size"] < 50_000


def test_a_checkout_without_tools_installs_them_without_running_their_scripts(package, tmp_path):
    copy = tmp_path / "clients/js"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("node_modules", "dist"))
    shutil.copy(package.parents[1] / "LICENSE", tmp_path)
    tools = (package / "node_modules").resolve()
    npm = tmp_path / "npm.mjs"
    npm.write_text(
        "import { symlinkSync, writeFileSync } from 'node:fs';\n"
        f"symlinkSync({json.dumps(str(tools))}, 'node_modules');\n"
        "writeFileSync('words.json', JSON.stringify(process.argv.slice(2)));\n"
    )
    build = ["node", "build.mjs", "built"]
    bare = {name: value for name, value in os.environ.items() if name != "npm_execpath"}
    done = subprocess.run(build, cwd=copy, env=bare, capture_output=True, text=True, check=False)
    assert done.returncode
    assert "the tools are missing: run npm ci --ignore-scripts" in done.stderr
    with_npm = bare | {"npm_execpath": str(npm)}
    subprocess.run(build, cwd=copy, env=with_npm, check=True, timeout=NODE_SECONDS)
    assert json.loads((copy / "words.json").read_text())[:2] == ["ci", "--ignore-scripts"]
    assert (copy / "dist/hushrank.js").is_file()


def test_the_readme_names_every_step_and_every_function(checkout):
    folder = checkout / "clients/js"
    readme = (folder / "README.md").read_text()
    scripts = json.loads((folder / "package.json").read_text())["scripts"]
    assert set(re.findall(r"npm run (\w+)", readme)) <= set(scripts)
    version = json.loads((folder / "package.json").read_text())["version"]
    assert f"hushrank-{version}.tgz" in readme
    exported = re.findall(r"^export \{([^}]*)\}", (folder / "src/index.ts").read_text(), re.M)
    names = {name.strip() for group in exported for name in group.split(",") if name.strip()}
    named = set(re.findall(r"`(\w+)\(", readme))
    assert len(named) > 4
    assert named <= names


@pytest.mark.engine
def test_the_react_example_sends_a_private_answer_and_nothing_else(package):
    subprocess.run(["node", "example.mjs"], cwd=package, check=True, timeout=NODE_SECONDS)
    built, sent = package / "examples/react/built", []

    def answer(route):
        if route.request.method == "POST":
            sent.append(json.loads(route.request.post_data))
            route.fulfill(status=200, body="{}", content_type="application/json")
            return
        name = route.request.url.rpartition("/")[2] or "index.html"
        kind = "text/html" if name.endswith("html") else "text/javascript"
        route.fulfill(body=(built / name).read_text(), content_type=kind)

    with launched() as browser:
        context = opened(browser)
        context.route("**/*", answer)
        page = context.new_page()
        complaints = complaints_of(page)
        page.goto("http://localhost/")
        page.get_by_role("button", name="London").click()
        shown = json.loads(page.locator("pre").text_content())
        page.get_by_role("button", name="Send").click()
        eventually(page.get_by_role("status")).to_contain_text("Thank you")
        context.close()
    assert [body["answers"] for body in sent] == [[shown]]
    assert set(sent[0]) == {"schema", "survey", "kind", "submission", "answers"}
    assert shown["outcome"] in (1, -1)
    assert shown == {**shown, "left": "London", "right": "Paris", "epsilon": 1}
    assert complaints == []


def test_the_packed_library_works_under_its_name(package, tmp_path):
    """As somebody has it who installed it: by `import ... from "hushrank"`, with its types."""
    place = tmp_path / "node_modules/hushrank"
    place.mkdir(parents=True)
    shutil.copy(package / "package.json", place)
    shutil.copytree(package / "dist", place / "dist")
    (tmp_path / "use.ts").write_text(
        'import { mallows, privatizeAnswer, type Bit } from "hushrank";\n'
        "const answer: Bit = privatizeAnswer(1, 2);\n"
        'const order: string[] = mallows(["a", "b"], 1);\n'
        "console.log(answer, order.length);\n"
    )
    compiler = package / "node_modules/typescript/bin/tsc"
    flags = ["--strict", "--target", "es2022", "--module", "nodenext", "--types", ""]
    words = ["node", str(compiler), *flags, "--lib", "es2022,dom", "use.ts", "--outDir", "out"]
    (tmp_path / "package.json").write_text('{"type": "module"}')
    subprocess.run(words, cwd=tmp_path, check=True, timeout=NODE_SECONDS)
    done = subprocess.run(
        ["node", "out/use.js"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert re.fullmatch(r"[01] 2\n", done.stdout)
