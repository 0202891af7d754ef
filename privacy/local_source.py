"""Privatise answers and rankings where they are given. No dependency: copy this file to there.

The operations below are the basic ones of IEEE 754 in a fixed order, so any language with double
precision gets the same threshold, and the same one as `hushrank.privacy.randomized_response` and
`random_pairs` beside it.
"""

import math
import secrets


def privatize_answer(answer: int, epsilon: float) -> int:
    """Return `answer` (0 or 1), flipped with probability about 1 / (e^epsilon + 1).

    Guarantee: epsilon-DP for this answer; k answers of one person together are (k * epsilon)-DP.
    Send the pair, the returned value and epsilon. Never send `answer`, and never privatise the same
    answer twice: keep what was returned.
    """
    if answer not in (0, 1):
        raise ValueError("answer must be 0 or 1")
    return int(answer) ^ (secrets.randbits(64) < _threshold(epsilon, others=1))


def privatize_ranking(
    ranking: list[str], epsilon: float, pairs: int = 1, catalogue: list[str] | None = None
) -> list[tuple[str, str, int]]:
    """Return private answers `(left, right, outcome)` to `pairs` random pairs of the items.

    `ranking` holds items, best first. The outcome is +1 where left is above right, -1 where below.

    Guarantee: epsilon-DP for the order of the whole ranking; which items it holds is not hidden.
    With a public `catalogue`, pairs are drawn from all of it, the outcome may be 0 (not both
    ranked), and all is epsilon-DP: order, items and how many. Send the answers and, without a
    catalogue, `len(ranking)`. Never privatise the same ranking twice: keep what was returned.
    """
    names = sorted(ranking if catalogue is None else catalogue)
    if len(set(names)) < len(names) or not set(ranking) <= set(names):
        raise ValueError("items must be different, and of the catalogue")
    place = {item: number for number, item in enumerate(ranking)}
    asked = [(left, right) for k, left in enumerate(names) for right in names[k + 1 :]]
    answers = []
    for left, right in secrets.SystemRandom().sample(asked, min(pairs, len(asked))):
        truth = 0
        if left in place and right in place:
            truth = 1 if place[left] < place[right] else -1
        others = [-truth] if catalogue is None else [each for each in (1, -1, 0) if each != truth]
        threshold = _threshold(math.nextafter(epsilon / pairs, 0), len(others))
        turned = secrets.randbits(64) // threshold
        answers.append((left, right, others[turned] if turned < len(others) else truth))
    return answers


def _threshold(epsilon: float, others: int) -> int:
    """Number of the 2^64 words that turn an answer into one of the `others`; rounded up."""
    if not 0 < epsilon < float("inf"):
        raise ValueError("epsilon must be finite and > 0")
    scaled = min(epsilon, 45.0) * -(2.0**-10)
    exponential = 1 / 40320  # Taylor polynomial of e^x at -epsilon / 2^10 ...
    for coefficient in (1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0, 1.0):
        exponential = exponential * scaled + coefficient
    for _ in range(10):  # ... squared ten times: e^-epsilon
        exponential = exponential * exponential
    flips = exponential * (2.0**64 * (1 + 2.0**-40)) / (others * exponential + 1.0)
    most = 2**63 if others == 1 else (2**64 // 3) // 1024 * 1024
    return min(-int(-flips // 1), most)
