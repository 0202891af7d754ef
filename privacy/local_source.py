"""Privatise an answer where it is given. No dependency: copy this file to where people answer.

The operations below are the basic ones of IEEE 754 in a fixed order, so any language with double
precision gets the same threshold, and the same one as `hushrank.privacy.randomized_response`.
"""

import secrets


def privatize_answer(answer: int, epsilon: float) -> int:
    """Return `answer` (0 or 1), flipped with probability about 1 / (e^epsilon + 1).

    Guarantee: epsilon-DP for this answer; k answers of one person together are (k * epsilon)-DP.
    Send the pair, the returned value and epsilon. Never send `answer`, and never privatise the same
    answer twice: keep what was returned.
    """
    if answer not in (0, 1):
        raise ValueError("answer must be 0 or 1")
    if not 0 < epsilon < float("inf"):
        raise ValueError("epsilon must be finite and > 0")
    scaled = min(epsilon, 45.0) * -(2.0**-10)
    exponential = 1 / 40320  # Taylor polynomial of e^x at -epsilon / 2^10 ...
    for coefficient in (1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0, 1.0):
        exponential = exponential * scaled + coefficient
    for _ in range(10):  # ... squared ten times: e^-epsilon
        exponential = exponential * exponential
    flips = exponential * (2.0**64 * (1 + 2.0**-40)) / (exponential + 1.0)
    threshold = min(-int(-flips // 1), 2**63)  # rounded up: never less private than stated
    return int(answer) ^ (secrets.randbits(64) < threshold)
