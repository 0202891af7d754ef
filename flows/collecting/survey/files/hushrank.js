// Built by `make js`; the sources, with their comments, are in clients/js.

// src/checks.ts
var WORDS = 2n ** 64n;
function requireEpsilon(epsilon) {
  if (typeof epsilon !== "number" || !(epsilon > 0 && epsilon < Infinity)) {
    throw new RangeError("epsilon must be a number, finite and > 0");
  }
}
function requireInteger(name, value, least, most) {
  if (!Number.isSafeInteger(value) || value < least || value > most) {
    const range = most < Number.MAX_SAFE_INTEGER ? `${least} to ${most}` : `>= ${least}`;
    throw new RangeError(`${name} must be an integer ${range}`);
  }
}
function requireWord(name, value, least = 0n) {
  if (typeof value !== "bigint" || value < least || value >= WORDS) {
    throw new RangeError(`${name} must be a BigInt from ${least} to 2^64 - 1`);
  }
}
function requireText(name, value) {
  if (typeof value !== "string") throw new RangeError(`${name} must be a text`);
}
function requireList(name, values) {
  if (!Array.isArray(values)) throw new RangeError(`${name} must be a list`);
}
function requireTexts(name, values) {
  requireList(name, values);
  for (const value of values) requireText(`each of ${name}`, value);
}

// src/thresholds.ts
var TAYLOR = [1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2, 1, 1];
var WORDS_ROUNDED_UP = 2 ** 64 * (1 + 2 ** -40);
var HALF_OF_WORDS = 2n ** 63n;
var THIRD_OF_WORDS = 2n ** 64n / 3n / 1024n * 1024n;
function expOfMinus(x) {
  if (typeof x !== "number" || !(x >= 0)) throw new RangeError("x must be a number >= 0");
  const scaled = Math.min(x, 45) * -(2 ** -10);
  let exponential = 1 / 40320;
  for (const coefficient of TAYLOR) exponential = exponential * scaled + coefficient;
  for (let halving = 0; halving < 10; halving++) exponential = exponential * exponential;
  return exponential;
}
function threshold(epsilon, others = 1) {
  requireEpsilon(epsilon);
  requireInteger("others", others, 1, 2);
  const exponential = expOfMinus(epsilon);
  const flips = Math.ceil(exponential * WORDS_ROUNDED_UP / (others * exponential + 1));
  const most = others === 1 ? HALF_OF_WORDS : THIRD_OF_WORDS;
  const rounded = BigInt(flips);
  return rounded < most ? rounded : most;
}
function flipProbability(epsilon) {
  return Number(threshold(epsilon)) / 2 ** 64;
}
function shareOf(epsilon, parts) {
  requireEpsilon(epsilon);
  requireInteger("parts", parts, 1, Number.MAX_SAFE_INTEGER);
  const bits = new BigInt64Array(new Float64Array([epsilon / parts]).buffer);
  bits[0] = bits[0] - 1n;
  return new Float64Array(bits.buffer)[0];
}

// src/words.ts
var LARGEST_WORD = 2n ** 64n - 1n;
function systemWord() {
  const words = new BigUint64Array(1);
  crypto.getRandomValues(words);
  return words[0];
}
function drawn(word) {
  if (typeof word !== "function") throw new RangeError("word must be a function");
  const next = word();
  requireWord("what word returns", next);
  return next;
}
function below(total, word) {
  requireWord("total", total, 1n);
  const wordsEach = LARGEST_WORD / total;
  for (; ; ) {
    const value = drawn(word) / wordsEach;
    if (value < total) return value;
  }
}
function subset(total, size, word) {
  requireInteger("total", total, 0, Number.MAX_SAFE_INTEGER);
  requireInteger("size", size, 0, total);
  const chosen = [];
  for (let last = total - size; last < total; last++) {
    const value = Number(below(BigInt(last + 1), word));
    chosen.push(chosen.includes(value) ? last : value);
  }
  return chosen;
}
function shuffled(items, word = systemWord) {
  requireList("items", items);
  const order = [...items];
  for (let last = order.length - 1; last > 0; last--) {
    const other = Number(below(BigInt(last + 1), word));
    [order[last], order[other]] = [order[other], order[last]];
  }
  return order;
}

// src/answers.ts
function privatizeAnswer(answer, epsilon) {
  return answerOfWord(answer, epsilon, systemWord());
}
function answerOfWord(answer, epsilon, word) {
  if (answer !== 0 && answer !== 1) throw new RangeError("answer must be 0 or 1");
  requireWord("word", word);
  return word < threshold(epsilon) ? 1 - answer : answer;
}
function coin(word = systemWord) {
  return Number(drawn(word) & 1n);
}

// src/memory.ts
var Memory = class {
  #survey;
  #store;
  /**
   * @param survey id of the survey: answers of another survey are others.
   * @param store `indexedDBStore()` in browsers: two tabs share it safely.
   */
  constructor(survey, store) {
    requireText("survey", survey);
    this.#survey = survey;
    this.#store = store;
  }
  /**
   * The answer that was kept for `question`; if there is none, what `privatise` returns, kept.
   *
   * `privatise` may run although another tab's answer is kept and returned in the end; what it
   * returned is then forgotten, and must not be used otherwise.
   *
   * @param question names the question: texts in an order of the caller's choice.
   */
  async once(question, privatise) {
    const key = this.#key(question);
    const found = await this.#store.get(key);
    const kept = found ?? await this.#store.keep(key, JSON.stringify(privatise()));
    return JSON.parse(kept);
  }
  /** The answer that was kept for `question`, if there is one. */
  async kept(question) {
    const found = await this.#store.get(this.#key(question));
    return found === void 0 ? void 0 : JSON.parse(found);
  }
  #key(question) {
    requireTexts("question", question);
    return JSON.stringify([this.#survey, ...question]);
  }
};
function inMemoryStore() {
  const texts = /* @__PURE__ */ new Map();
  return {
    get: async (key) => texts.get(key),
    keep: async (key, text) => {
      const kept = texts.get(key) ?? text;
      texts.set(key, kept);
      return kept;
    }
  };
}
function localStorageStore(storage = localStorage) {
  const name = (key) => `hushrank:${key}`;
  return {
    get: async (key) => storage.getItem(name(key)) ?? void 0,
    keep: async (key, text) => {
      const kept = storage.getItem(name(key)) ?? text;
      storage.setItem(name(key), kept);
      return kept;
    }
  };
}
function indexedDBStore(name = "hushrank") {
  const texts = "answers";
  let opening;
  const open = () => opening ??= new Promise((resolve, reject) => {
    const request = indexedDB.open(name, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(texts);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  return {
    get: async (key) => {
      const request = (await open()).transaction(texts).objectStore(texts).get(key);
      return await settled(request);
    },
    keep: async (key, text) => {
      const change = (await open()).transaction(texts, "readwrite", { durability: "strict" });
      const store = change.objectStore(texts);
      const found = await settled(store.get(key));
      if (found === void 0) store.put(text, key);
      await new Promise((resolve, reject) => {
        change.oncomplete = () => resolve();
        change.onabort = () => reject(change.error);
      });
      return found ?? text;
    }
  };
}
function settled(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

// src/rankings.ts
var LARGEST_WEIGHT = 2 ** 44;
var ROUNDED_UP = 1 + 2 ** -40;
var MOST_ITEMS = 2 ** 16;
function insertionWeights(epsilon, nItems) {
  requireEpsilon(epsilon);
  requireInteger("the number of items", nItems, 1, MOST_ITEMS);
  const step = shareOf(epsilon, Math.max(nItems - 1, 1));
  const ratio = Math.min(expOfMinus(step) * ROUNDED_UP, 1);
  const weights = [];
  let current = LARGEST_WEIGHT;
  for (let d = 0; d < nItems; d++) {
    weights.push(BigInt(current));
    current = Math.ceil(current * ratio);
  }
  return weights;
}
function mallows(ranking, epsilon, word = systemWord) {
  requireDifferent("ranking", ranking);
  requireEpsilon(epsilon);
  if (ranking.length < 2) return [...ranking];
  const weights = insertionWeights(epsilon, ranking.length);
  const order = [];
  let total = 0n;
  ranking.forEach((item, t) => {
    total += weights[t];
    order.splice(t === 0 ? 0 : t - displacement(weights, t, total, word), 0, item);
  });
  return order;
}
function displacement(weights, t, total, word) {
  const value = below(total, word);
  let cumulative = 0n;
  for (let d = 0; d < t; d++) {
    cumulative += weights[d];
    if (value < cumulative) return d;
  }
  return t;
}
function concordance(epsilon, nItems, distance = 1) {
  requireEpsilon(epsilon);
  requireInteger("the number of items", nItems, 2, MOST_ITEMS);
  requireInteger("distance", distance, 1, nItems - 1);
  const theta = epsilon / (nItems - 1);
  const part = (k) => k / -Math.expm1(-k * theta);
  return part(distance + 1) - part(distance);
}
function privatizeRanking(ranking, epsilon, pairs = 1, catalogue, word = systemWord) {
  const listed = catalogue === void 0 ? ranking : catalogue;
  requireDifferent("ranking", ranking);
  requireDifferent("catalogue", listed);
  const names = [...listed].sort(byCodePoint);
  const known = new Set(names);
  if (!ranking.every((item) => known.has(item))) {
    throw new RangeError("items must be of the catalogue");
  }
  const share = shareOf(epsilon, pairs);
  const place = new Map(ranking.map((item, at) => [item, at]));
  const total = names.length * (names.length - 1) / 2;
  const asked = subset(total, Math.min(pairs, total), word).map((at) => pairAt(names, at));
  return asked.map(([left, right]) => {
    const [above, below2] = [place.get(left), place.get(right)];
    const ranked = above !== void 0 && below2 !== void 0;
    const truth = ranked ? above < below2 ? 1 : -1 : 0;
    const outcome = catalogue ? turned(truth, share, drawn(word)) : flipped(truth, share, drawn(word));
    return { left, right, outcome };
  });
}
function flipped(truth, epsilon, word) {
  return word < threshold(epsilon) ? -truth : truth;
}
function turned(truth, epsilon, word) {
  const turn = threshold(epsilon, 2);
  const by = word < turn ? 1 : word < 2n * turn ? 2 : 0;
  return (truth + by + 1) % 3 - 1;
}
function pairAt(names, at) {
  let first = 0;
  let rest = at;
  while (rest >= names.length - 1 - first) rest -= names.length - 1 - first++;
  return [names[first], names[first + 1 + rest]];
}
function byCodePoint(a, b) {
  requireText("a name", a);
  requireText("a name", b);
  const [one, other] = [Array.from(a), Array.from(b)];
  for (let at = 0; at < Math.min(one.length, other.length); at++) {
    const step = (one[at]?.codePointAt(0) ?? 0) - (other[at]?.codePointAt(0) ?? 0);
    if (step !== 0) return step;
  }
  return one.length - other.length;
}
function requireDifferent(name, items) {
  requireTexts(name, items);
  if (new Set(items).size < items.length) throw new RangeError("items must be different");
}
export {
  Memory,
  answerOfWord,
  below,
  byCodePoint,
  coin,
  concordance,
  expOfMinus,
  flipProbability,
  inMemoryStore,
  indexedDBStore,
  insertionWeights,
  localStorageStore,
  mallows,
  privatizeAnswer,
  privatizeRanking,
  shareOf,
  shuffled,
  subset,
  systemWord,
  threshold
};
