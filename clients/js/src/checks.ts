/**
 * Checks of arguments: the types of TypeScript are gone in the browser, and JavaScript would take a
 * text for a number.
 */

const WORDS = 2n ** 64n;

export function requireEpsilon(epsilon: number): void {
  if (typeof epsilon !== "number" || !(epsilon > 0 && epsilon < Infinity)) {
    throw new RangeError("epsilon must be a number, finite and > 0");
  }
}

/** `value` must be an integer (of type number) from `least` to `most`. */
export function requireInteger(name: string, value: number, least: number, most: number): void {
  if (!Number.isSafeInteger(value) || value < least || value > most) {
    const range = most < Number.MAX_SAFE_INTEGER ? `${least} to ${most}` : `>= ${least}`;
    throw new RangeError(`${name} must be an integer ${range}`);
  }
}

/** `value` must be of type bigint, from `least` to 2^64 - 1. */
export function requireWord(name: string, value: bigint, least = 0n): void {
  if (typeof value !== "bigint" || value < least || value >= WORDS) {
    throw new RangeError(`${name} must be a BigInt from ${least} to 2^64 - 1`);
  }
}

export function requireText(name: string, value: string): void {
  if (typeof value !== "string") throw new RangeError(`${name} must be a text`);
}

export function requireList(name: string, values: readonly unknown[]): void {
  if (!Array.isArray(values)) throw new RangeError(`${name} must be a list`);
}

export function requireTexts(name: string, values: readonly string[]): void {
  requireList(name, values);
  for (const value of values) requireText(`each of ${name}`, value);
}
