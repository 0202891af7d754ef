/** Secret 64-bit words, and integers from them. No other randomness is used in this package. */

import { requireInteger, requireList, requireWord } from "./checks.js";

/** A source of 64-bit words; `systemWord` wherever an answer is private. */
export type Word = () => bigint;

const LARGEST_WORD = 2n ** 64n - 1n;

/** A word of the system's cryptographic randomness (Web Crypto, in browsers and Node). */
export function systemWord(): bigint {
  const words = new BigUint64Array(1);
  crypto.getRandomValues(words);
  return words[0] as bigint;
}

/** The next word of a source, which must be one: a number would flip every answer, or none. */
export function drawn(word: Word): bigint {
  if (typeof word !== "function") throw new RangeError("word must be a function");
  const next = word();
  requireWord("what word returns", next);
  return next;
}

/** An integer, uniform on 0..total-1: words that would favour some are drawn again. */
export function below(total: bigint, word: Word): bigint {
  requireWord("total", total, 1n);
  const wordsEach = LARGEST_WORD / total;
  for (;;) {
    const value = drawn(word) / wordsEach;
    if (value < total) return value;
  }
}

/**
 * `size` different integers of 0..total-1, each set of that size equally likely.
 *
 * Floyd's algorithm (Bentley and Floyd, A sample of brilliance, 1987), as `draw_subsets` in Python.
 */
export function subset(total: number, size: number, word: Word): number[] {
  requireInteger("total", total, 0, Number.MAX_SAFE_INTEGER);
  requireInteger("size", size, 0, total);
  const chosen: number[] = [];
  for (let last = total - size; last < total; last++) {
    const value = Number(below(BigInt(last + 1), word));
    chosen.push(chosen.includes(value) ? last : value);
  }
  return chosen;
}

/** The items in an order drawn uniformly (Fisher and Yates). */
export function shuffled<Item>(items: readonly Item[], word: Word = systemWord): Item[] {
  requireList("items", items);
  const order = [...items];
  for (let last = order.length - 1; last > 0; last--) {
    const other = Number(below(BigInt(last + 1), word));
    [order[last], order[other]] = [order[other] as Item, order[last] as Item];
  }
  return order;
}
