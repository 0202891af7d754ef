// Calls that must be refused: prints those that are not.
import { pathToFileURL } from "node:url";

const library = await import(pathToFileURL(process.argv[2]).href);
const { insertionWeights, mallows, privatizeAnswer, privatizeRanking, shareOf, threshold } = library;

const wrong = {
  "answer 2": () => privatizeAnswer(2, 1),
  "answer true": () => privatizeAnswer(true, 1),
  "epsilon 0": () => privatizeAnswer(1, 0),
  "epsilon below 0": () => privatizeAnswer(1, -1),
  "epsilon without end": () => privatizeAnswer(1, Infinity),
  "epsilon NaN": () => privatizeAnswer(1, NaN),
  "epsilon missing": () => privatizeAnswer(1),
  "epsilon as text": () => threshold("x"),
  "an item twice": () => mallows(["a", "b", "a"], 1),
  "mallows at 0": () => mallows(["a"], 0),
  "no items": () => insertionWeights(1, 0),
  "an item twice in pairs": () => privatizeRanking(["a", "a"], 1),
  "an item of no catalogue": () => privatizeRanking(["a", "x"], 1, 1, ["a", "b"]),
  "a catalogue with an item twice": () => privatizeRanking(["a"], 1, 1, ["a", "b", "b"]),
  "no pairs": () => privatizeRanking(["a", "b"], 1, 0),
  "half a pair": () => privatizeRanking(["a", "b"], 1, 0.5),
  "a share of nothing": () => shareOf(0, 2),
};

// Values that are not of a kind: numbers as text, and everything that JavaScript makes a number of.
const objects = [{}, new Date(0), Symbol("x"), Promise.resolve(1)];
const notNumbers = ["1", "", "x", true, false, null, 1n, [], [1], () => 1, new Number(1), ...objects];
const kinds = {
  number: [...notNumbers, NaN],
  integer: [...notNumbers, NaN, Infinity, 1.5, 2 ** 60],
  word: ["1", "x", 1, 0.5, NaN, true, null, [1n], [], () => 1n, -1n, 2n ** 64n, ...objects],
  source: ["x", 1, true, null, 1n, [], () => 1, () => "1", () => 0.5, () => null, () => -1n,
    () => 2n ** 64n, ...objects],
  text: [1, 0, NaN, true, null, undefined, 1n, [], ["a"], () => "a", ...objects],
  texts: ["ab", "", 1, NaN, true, null, 1n, new Set(["a"]), { length: 1, 0: "a" }, ["a", 1],
    ["a", null], ["a", ["b"]], ["a", 1n], ["a", undefined], () => ["a"], ...objects],
  list: ["ab", "", 1, true, null, undefined, 1n, new Set([1]), { length: 1 }, () => [1], ...objects],
};
const source = () => 7n;
const memory = (survey) => new library.Memory(survey, library.inMemoryStore());
// Of each function: arguments that it takes, and their kinds.
const calls = {
  answerOfWord: [library.answerOfWord, [1, 1, 7n], ["integer", "number", "word"]],
  coin: [library.coin, [source], ["source"]],
  privatizeAnswer: [privatizeAnswer, [1, 1], ["integer", "number"]],
  byCodePoint: [library.byCodePoint, ["a", "b"], ["text", "text"]],
  concordance: [library.concordance, [1, 4, 2], ["number", "integer", "integer"]],
  insertionWeights: [insertionWeights, [1, 4], ["number", "integer"]],
  mallows: [mallows, [["a", "b"], 1, source], ["texts", "number", "source"]],
  privatizeRanking: [
    privatizeRanking,
    [["a", "b"], 1, 1, ["a", "b", "c"], source],
    ["texts", "number", "integer", "texts", "source"],
  ],
  expOfMinus: [library.expOfMinus, [1], ["number"]],
  flipProbability: [library.flipProbability, [1], ["number"]],
  shareOf: [shareOf, [1, 2], ["number", "integer"]],
  threshold: [threshold, [1, 2], ["number", "integer"]],
  below: [library.below, [5n, source], ["word", "source"]],
  subset: [library.subset, [5, 2, source], ["integer", "integer", "source"]],
  shuffled: [library.shuffled, [[1, 2], source], ["list", "source"]],
  Memory: [memory, ["x"], ["text"]],
  "Memory.once": [(question) => memory("x").once(question, () => 1), [["q"]], ["texts"]],
  "Memory.kept": [(question) => memory("x").kept(question), [["q"]], ["texts"]],
};
const elsewhere = ["inMemoryStore", "localStorageStore", "indexedDBStore", "systemWord"];
const missing = Object.keys(library).filter((name) => !(name in calls || elsewhere.includes(name)));
for (const [name, [call, good, each]] of Object.entries(calls)) {
  await call(...good); // what is refused below is refused for one argument alone
  each.forEach((kind, place) => {
    kinds[kind].forEach((value, number) => {
      const given = good.map((one, at) => (at === place ? value : one));
      wrong[`${name}, argument ${place}, ${kind} ${number}`] = () => call(...given);
    });
  });
}
const taken = [];
for (const [name, call] of Object.entries(wrong)) {
  try {
    await call();
    taken.push(name);
  } catch (error) {
    if (!(error instanceof RangeError)) taken.push(`${name}: ${error}`);
  }
}
console.log(JSON.stringify({ taken, missing, tried: Object.keys(wrong).length }));
