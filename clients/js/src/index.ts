/** Privatise answers and rankings where they are given. See README.md. */

export { answerOfWord, coin, privatizeAnswer, type Bit } from "./answers.js";
export { Memory, indexedDBStore, inMemoryStore, localStorageStore, type Store } from "./memory.js";
export {
  byCodePoint,
  concordance,
  insertionWeights,
  mallows,
  privatizeRanking,
  type PairAnswer,
} from "./rankings.js";
export { expOfMinus, flipProbability, shareOf, threshold } from "./thresholds.js";
export { below, shuffled, subset, systemWord, type Word } from "./words.js";
