// What a Memory keeps, in Node: prints what was asked, and how often something was randomised.
import { pathToFileURL } from "node:url";

const { Memory, inMemoryStore, localStorageStore, privatizeAnswer } = await import(
  pathToFileURL(process.argv[2]).href
);

const texts = new Map();
const storage = {
  getItem: (key) => texts.get(key) ?? null,
  setItem: (key, text) => texts.set(key, text),
};
const report = {};
for (const [name, store] of [["memory", inMemoryStore()], ["local", localStorageStore(storage)]]) {
  let drawn = 0;
  const draw = () => (drawn++, { outcome: privatizeAnswer(1, 0.1) });
  const memory = new Memory("one", store);
  const again = [];
  for (let time = 0; time < 40; time++) again.push((await memory.once(["a", "b"], draw)).outcome);
  const alone = drawn;
  await memory.once(["a", "c"], draw);
  await new Memory("other", store).once(["a", "b"], draw);
  await new Memory("one", store).once(["a", "b"], draw);
  const both = await Promise.all([1, 2].map(() => memory.once(["race"], () => Math.floor(drawn++))));
  report[name] = {
    again: new Set(again).size,
    alone,
    drawn: drawn - 2,
    both: new Set(both).size,
    unknown: (await memory.kept(["nobody"])) === undefined,
  };
}
report.stored = [...texts];
console.log(JSON.stringify(report));
