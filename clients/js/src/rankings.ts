/** Private rankings: a synthetic one (Mallows), or private answers to random pairs of the items. */

import { requireEpsilon, requireInteger, requireText, requireTexts } from "./checks.js";
import { expOfMinus, shareOf, threshold } from "./thresholds.js";
import { below, drawn, subset, systemWord, type Word } from "./words.js";

const LARGEST_WEIGHT = 2 ** 44;
const ROUNDED_UP = 1 + 2 ** -40;
const MOST_ITEMS = 2 ** 16;

/** A private answer: +1 left above right, -1 below, 0 not both ranked. */
export interface PairAnswer {
  left: string;
  right: string;
  outcome: -1 | 0 | 1;
}

/**
 * The integers w_0 >= w_1 >= ... >= w_{m-1} by which items are inserted, as Python's.
 *
 * Guarantee: w_d <= e^(epsilon / (m-1)) w_{d+1}; the proof stands in `privacy/mallows.py`.
 */
export function insertionWeights(epsilon: number, nItems: number): bigint[] {
  requireEpsilon(epsilon);
  requireInteger("the number of items", nItems, 1, MOST_ITEMS);
  const step = shareOf(epsilon, Math.max(nItems - 1, 1));
  const ratio = Math.min(expOfMinus(step) * ROUNDED_UP, 1);
  const weights: bigint[] = [];
  let current = LARGEST_WEIGHT;
  for (let d = 0; d < nItems; d++) {
    weights.push(BigInt(current));
    current = Math.ceil(current * ratio);
  }
  return weights;
}

/**
 * A private synthetic ranking of the same items, best first.
 *
 * Guarantee: moving any one item changes the probability of no result by more than e^epsilon; two
 * rankings of the same m items are told apart by (epsilon m / 2)-DP. Which items were ranked is not
 * hidden. Send the result and epsilon; never draw twice for the same ranking.
 *
 * @throws RangeError where items repeat, or epsilon is not finite and above 0.
 */
export function mallows(
  ranking: readonly string[],
  epsilon: number,
  word: Word = systemWord,
): string[] {
  requireDifferent("ranking", ranking);
  requireEpsilon(epsilon);
  if (ranking.length < 2) return [...ranking];
  const weights = insertionWeights(epsilon, ranking.length);
  const order: string[] = [];
  let total = 0n;
  ranking.forEach((item, t) => {
    total += weights[t] as bigint;
    order.splice(t === 0 ? 0 : t - displacement(weights, t, total, word), 0, item);
  });
  return order;
}

/** D with P(D = d) = w_d / (w_0 + ... + w_t), d = 0..t. */
function displacement(weights: bigint[], t: number, total: bigint, word: Word): number {
  const value = below(total, word);
  let cumulative = 0n;
  for (let d = 0; d < t; d++) {
    cumulative += weights[d] as bigint;
    if (value < cumulative) return d;
  }
  return t;
}

/** Probability that `mallows` keeps the order of two items `distance` places apart. */
export function concordance(epsilon: number, nItems: number, distance = 1): number {
  requireEpsilon(epsilon);
  requireInteger("the number of items", nItems, 2, MOST_ITEMS);
  requireInteger("distance", distance, 1, nItems - 1);
  const theta = epsilon / (nItems - 1);
  const part = (k: number) => k / -Math.expm1(-k * theta);
  return part(distance + 1) - part(distance);
}

/**
 * Private answers to `pairs` random pairs of the items of `ranking` (best first).
 *
 * Guarantee: epsilon-DP for the order of the whole ranking; which items it holds is not hidden.
 * With a public `catalogue`, pairs are drawn from all of it, the outcome may be 0 (not both
 * ranked), and all is epsilon-DP: order, items and how many. Send the answers and, without a
 * catalogue, how many items were ranked. Never privatise the same ranking twice.
 *
 * @throws RangeError where items repeat or are not of the catalogue, or a number is out of range.
 */
export function privatizeRanking(
  ranking: readonly string[],
  epsilon: number,
  pairs = 1,
  catalogue?: readonly string[],
  word: Word = systemWord,
): PairAnswer[] {
  const listed = catalogue === undefined ? ranking : catalogue;
  requireDifferent("ranking", ranking);
  requireDifferent("catalogue", listed);
  const names = [...listed].sort(byCodePoint);
  const known = new Set(names);
  if (!ranking.every((item) => known.has(item))) {
    throw new RangeError("items must be of the catalogue");
  }
  const share = shareOf(epsilon, pairs);
  const place = new Map(ranking.map((item, at) => [item, at]));
  const total = (names.length * (names.length - 1)) / 2;
  const asked = subset(total, Math.min(pairs, total), word).map((at) => pairAt(names, at));
  return asked.map(([left, right]) => {
    const [above, below] = [place.get(left), place.get(right)];
    const ranked = above !== undefined && below !== undefined;
    const truth = ranked ? (above < below ? 1 : -1) : 0;
    const outcome = catalogue
      ? turned(truth, share, drawn(word))
      : flipped(truth, share, drawn(word));
    return { left, right, outcome };
  });
}

function flipped(truth: number, epsilon: number, word: bigint): -1 | 1 {
  return (word < threshold(epsilon) ? -truth : truth) as -1 | 1;
}

/** Of three possible answers: the true one, or with probability T / 2^64 each of the two others. */
function turned(truth: number, epsilon: number, word: bigint): -1 | 0 | 1 {
  const turn = threshold(epsilon, 2);
  const by = word < turn ? 1 : word < 2n * turn ? 2 : 0;
  return (((truth + by + 1) % 3) - 1) as -1 | 0 | 1;
}

/** The pair at `at` of all pairs of `names`, in the order (0, 1), (0, 2), ..., (1, 2), ... */
function pairAt(names: readonly string[], at: number): [string, string] {
  let first = 0;
  let rest = at;
  while (rest >= names.length - 1 - first) rest -= names.length - 1 - first++;
  return [names[first] as string, names[first + 1 + rest] as string];
}

/** Python's order of texts; that of JavaScript's `sort` differs beyond the first 2^16 characters. */
export function byCodePoint(a: string, b: string): number {
  requireText("a name", a);
  requireText("a name", b);
  const [one, other] = [Array.from(a), Array.from(b)];
  for (let at = 0; at < Math.min(one.length, other.length); at++) {
    const step = (one[at]?.codePointAt(0) ?? 0) - (other[at]?.codePointAt(0) ?? 0);
    if (step !== 0) return step;
  }
  return one.length - other.length;
}

function requireDifferent(name: string, items: readonly string[]): void {
  requireTexts(name, items);
  if (new Set(items).size < items.length) throw new RangeError("items must be different");
}
