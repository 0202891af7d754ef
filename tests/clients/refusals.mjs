// Calls that must be refused: prints those that are not.
import { pathToFileURL } from "node:url";

const { insertionWeights, mallows, privatizeAnswer, privatizeRanking, shareOf, threshold } =
  await import(pathToFileURL(process.argv[2]).href);

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
const taken = [];
for (const [name, call] of Object.entries(wrong)) {
  try {
    call();
    taken.push(name);
  } catch (error) {
    if (!(error instanceof RangeError)) taken.push(`${name}: ${error}`);
  }
}
console.log(JSON.stringify({ taken, tried: Object.keys(wrong).length }));
