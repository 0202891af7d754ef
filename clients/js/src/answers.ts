/** Randomised response on one answer. */

import { requireWord } from "./checks.js";
import { threshold } from "./thresholds.js";
import { drawn, systemWord, type Word } from "./words.js";

export type Bit = 0 | 1;

/**
 * Return `answer` (0 or 1), flipped with probability about 1 / (e^epsilon + 1).
 *
 * Guarantee: epsilon-DP for this answer; k answers of one person together are (k * epsilon)-DP.
 * Send the returned value and epsilon. Never send `answer`, and never privatise the same answer
 * twice: keep what was returned (`Memory`).
 *
 * @throws RangeError where the answer is not 0 or 1, or epsilon is not finite and above 0.
 */
export function privatizeAnswer(answer: Bit, epsilon: number): Bit {
  return answerOfWord(answer, epsilon, systemWord());
}

/** What `privatizeAnswer` returns if it draws `word`. Private only if nobody knows the word. */
export function answerOfWord(answer: Bit, epsilon: number, word: bigint): Bit {
  if (answer !== 0 && answer !== 1) throw new RangeError("answer must be 0 or 1");
  requireWord("word", word);
  return word < threshold(epsilon) ? ((1 - answer) as Bit) : answer;
}

/** A fair coin, for somebody who has no preference: decided before it is privatised. */
export function coin(word: Word = systemWord): Bit {
  return Number(drawn(word) & 1n) as Bit;
}
