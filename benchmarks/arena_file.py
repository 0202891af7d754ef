"""Processor time from an arena's JSON file to boards by language, in one process as in a notebook.

The file is one list of objects as public arenas publish it: votes with model names, `tie` and
`tie (bothbad)`, a decimal `tstamp`, the voter, the language, and two conversations, which nobody
reads. It is simulated first; that is not counted. Everything else is: loading libraries, reading,
the draw, fits, the page.

    python benchmarks/arena_file.py [--battles N] [--words N]
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
from pathlib import Path

import numpy as np

MODELS = [f"model-{number:02d}" for number in range(50)]
LANGUAGES = ["English", "Chinese", "German", "French", "Japanese"]
VOTERS = 30_000


def write_battles(path: Path, battles: int, words: int) -> None:
    """A file of votes; `words` are those of an answer."""
    chance = np.random.default_rng(20261128)
    a = chance.integers(len(MODELS), size=battles)
    b = (a + chance.integers(1, len(MODELS), size=battles)) % len(MODELS)
    strength = np.linspace(1, -1, len(MODELS))
    wins = chance.random(battles) < 1 / (1 + np.exp(strength[b] - strength[a]))
    ties, languages = chance.random(battles), chance.integers(len(LANGUAGES), size=battles)
    said = [{"role": "user", "content": 'Why "so"?\n'}]
    said.append({"role": "assistant", "content": "because of it " * (words // 3)})
    with path.open("w", encoding="utf-8") as file:
        for k in range(battles):
            tie = "tie" if ties[k] < 0.1 else "tie (bothbad)"
            vote = {
                "model_a": MODELS[a[k]],
                "model_b": MODELS[b[k]],
                "winner": tie if ties[k] < 0.2 else "model_a" if wins[k] else "model_b",
                "judge": f"arena_user_{chance.integers(VOTERS)}",
                "conversation_a": said,
                "conversation_b": said,
                "language": LANGUAGES[languages[k]],
                "tstamp": 1682351591.1322 + 30.25 * k,
            }
            file.write(("," if k else "[") + json.dumps(vote))
        file.write("]")


def processor_seconds() -> float:
    """Of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def main() -> None:
    """Write a file, rank it, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--battles", type=int, default=200_000)
    parser.add_argument("--words", type=int, default=60)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "battles.json")
        write_battles(path, options.battles, options.words)
        before = processor_seconds()
        import hushrank as hr

        hr.rank(
            str(path),
            left="model_a",
            right="model_b",
            winner="winner",
            winner_values={"tie": ["tie", "tie (bothbad)"]},
            user="judge",
            items=MODELS,
            groups={"column": "language", "values": LANGUAGES},
            design="random",
            method="noisy-pairs",
            ties="split",
            noise="gaussian",
            epsilon=2.0,
            delta=1e-6,
            max_contributions=10,
            ledger=Path(folder, "ledger.jsonl"),
            name="arena",
        )
        taken, size = processor_seconds() - before, path.stat().st_size / 1e6
    print(f"{options.battles:,} votes in {size:,.0f} MB: {taken:.1f} s of processor time")


if __name__ == "__main__":
    main()
