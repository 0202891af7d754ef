/**
 * Thresholds of flips, the very same integers as Python's.
 *
 * Only additions, multiplications and one division of doubles are used, in a fixed order: IEEE 754
 * gives each of them one right result, so every engine gets the same bits. `Math.exp` may differ
 * between engines in its last bit and is not used.
 */

import { requireEpsilon, requireInteger } from "./checks.js";

const TAYLOR = [1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2, 1, 1];
const WORDS_ROUNDED_UP = 2 ** 64 * (1 + 2 ** -40);
const HALF_OF_WORDS = 2n ** 63n;
const THIRD_OF_WORDS = (2n ** 64n / 3n / 1024n) * 1024n;

/**
 * e^-x where x < 45, else e^-45: the Taylor polynomial at x / 2^10, squared ten times.
 *
 * @throws RangeError where x is no number from 0 on.
 */
export function expOfMinus(x: number): number {
  if (typeof x !== "number" || !(x >= 0)) throw new RangeError("x must be a number >= 0");
  const scaled = Math.min(x, 45) * -(2 ** -10);
  let exponential = 1 / 40320;
  for (const coefficient of TAYLOR) exponential = exponential * scaled + coefficient;
  for (let halving = 0; halving < 10; halving++) exponential = exponential * exponential;
  return exponential;
}

/**
 * Of 2^64 words, so many turn an answer into one of the `others` (1 or 2) possible other answers.
 *
 * Rounded up, so that the realised epsilon is at most the one asked for.
 *
 * @throws RangeError where epsilon is not finite and above 0, or others is neither 1 nor 2.
 */
export function threshold(epsilon: number, others: 1 | 2 = 1): bigint {
  requireEpsilon(epsilon);
  requireInteger("others", others, 1, 2);
  const exponential = expOfMinus(epsilon);
  const flips = Math.ceil((exponential * WORDS_ROUNDED_UP) / (others * exponential + 1));
  const most = others === 1 ? HALF_OF_WORDS : THIRD_OF_WORDS;
  const rounded = BigInt(flips);
  return rounded < most ? rounded : most;
}

/** The probability with which an answer with two possible values is flipped. */
export function flipProbability(epsilon: number): number {
  return Number(threshold(epsilon)) / 2 ** 64;
}

/** epsilon / parts, rounded down, so that `parts` of them together are at most epsilon. */
export function shareOf(epsilon: number, parts: number): number {
  requireEpsilon(epsilon);
  requireInteger("parts", parts, 1, Number.MAX_SAFE_INTEGER);
  const bits = new BigInt64Array(new Float64Array([epsilon / parts]).buffer);
  bits[0] = (bits[0] as bigint) - 1n; // the next double towards 0
  return new Float64Array(bits.buffer)[0] as number;
}
