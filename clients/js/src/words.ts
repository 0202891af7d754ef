/** Secret 64-bit words, and integers from them. No other randomness is used in this package. */

/** A source of 64-bit words; `systemWord` wherever an answer is private. */
export type Word = () => bigint;

const LARGEST_WORD = 2n ** 64n - 1n;

/** A word of the system's cryptographic randomness (Web Crypto, in browsers and Node). */
export function systemWord(): bigint {
  const words = new BigUint64Array(1);
  crypto.getRandomValues(words);
  return words[0] as bigint;
}

/** An integer, uniform on 0..total-1: words that would favour some are drawn again. */
export function below(total: bigint, word: Word): bigint {
  const wordsEach = LARGEST_WORD / total;
  for (;;) {
    const drawn = word() / wordsEach;
    if (drawn < total) return drawn;
  }
}

/**
 * `size` different integers of 0..total-1, each set of that size equally likely.
 *
 * Floyd's algorithm (Bentley and Floyd, A sample of brilliance, 1987), as `draw_subsets` in Python.
 */
export function subset(total: number, size: number, word: Word): number[] {
  const drawn: number[] = [];
  for (let last = total - size; last < total; last++) {
    const value = Number(below(BigInt(last + 1), word));
    drawn.push(drawn.includes(value) ? last : value);
  }
  return drawn;
}

/** The items in an order drawn uniformly (Fisher and Yates). */
export function shuffled<Item>(items: readonly Item[], word: Word = systemWord): Item[] {
  const order = [...items];
  for (let last = order.length - 1; last > 0; last--) {
    const other = Number(below(BigInt(last + 1), word));
    [order[last], order[other]] = [order[other] as Item, order[last] as Item];
  }
  return order;
}
