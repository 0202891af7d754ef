// Reads cases that Python made and prints how many come out otherwise, and the first few of them.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [library, folder] = process.argv.slice(2);
const { answerOfWord, insertionWeights, mallows, privatizeRanking, shareOf, threshold } =
  await import(pathToFileURL(library).href);

const wrong = {};
const found = (kind, detail) => (wrong[kind] ??= []).push(detail);

// epsilon (float64), word, threshold of one other, of two others (uint64), answer, expected (bytes)
const cases = readFileSync(`${folder}/answers.bin`);
const view = new DataView(cases.buffer, cases.byteOffset, cases.byteLength);
let answers = 0;
for (let at = 0; at < cases.length; at += 34, answers++) {
  const epsilon = view.getFloat64(at, true);
  const word = view.getBigUint64(at + 8, true);
  if (threshold(epsilon) !== view.getBigUint64(at + 16, true)) found("threshold", epsilon);
  if (threshold(epsilon, 2) !== view.getBigUint64(at + 24, true)) found("of three", epsilon);
  const [answer, expected] = [cases[at + 32], cases[at + 33]];
  if (answerOfWord(answer, epsilon, word) !== expected) found("answer", [epsilon, String(word)]);
}

const rankings = JSON.parse(readFileSync(`${folder}/rankings.json`, "utf8"));
const wordsOf = (texts) => {
  const left = texts.map(BigInt);
  const word = () => {
    if (left.length === 0) throw new Error("more words are drawn than by Python");
    return left.shift();
  };
  return [word, left];
};
for (const { epsilon, items, words, expected, weights } of rankings.mallows) {
  const [word, left] = wordsOf(words);
  const same = JSON.stringify(mallows(items, epsilon, word)) === JSON.stringify(expected);
  if (!same || left.length > 0) found("mallows", [epsilon, items.length]);
  const table = insertionWeights(epsilon, items.length).map(String);
  if (JSON.stringify(table) !== JSON.stringify(weights)) found("weights", [epsilon, items.length]);
}
for (const { epsilon, pairs, items, catalogue, words, expected } of rankings.pairs) {
  const [word, left] = wordsOf(words);
  const made = privatizeRanking(items, epsilon, pairs, catalogue ?? undefined, word);
  const same = JSON.stringify(made.map((each) => [each.left, each.right, each.outcome]));
  if (same !== JSON.stringify(expected) || left.length > 0) found("pairs", [epsilon, items.length]);
}
for (const [epsilon, parts, share] of rankings.shares) {
  if (shareOf(epsilon, parts) !== share) found("share", [epsilon, parts]);
}
const counts = { answers, mallows: rankings.mallows.length, pairs: rankings.pairs.length };
const first = Object.fromEntries(Object.entries(wrong).map(([kind, all]) => [kind, all.slice(0, 3)]));
console.log(JSON.stringify({ counts, wrong: first }));
