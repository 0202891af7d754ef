// Built by `make js`; the sources, with their comments, are in clients/js.

// page/page.ts
import {
  Memory,
  byCodePoint,
  indexedDBStore,
  mallows,
  privatizeAnswer,
  privatizeRanking,
  shareOf as shareOf2,
  shuffled,
  subset,
  systemWord
} from "./hushrank.js";

// page/choice.ts
import { concordance, flipProbability, shareOf, threshold } from "./hushrank.js";

// page/dom.ts
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}
function show(...content) {
  const main = document.querySelector("main");
  main.replaceChildren(...content);
  const heading = main.querySelector("h1");
  heading?.setAttribute("tabindex", "-1");
  heading?.focus();
  scrollTo(0, 0);
}
function announce(text) {
  const region = document.querySelector("#announcement");
  if (region) region.textContent = text;
}
var Words = class {
  #texts;
  language;
  constructor(language, texts) {
    this.language = language;
    this.#texts = texts;
  }
  say(key, values = {}) {
    return (this.#texts[key] ?? key).replace(/\{(\w+)\}/g, (whole, name) => {
      const value = values[name];
      return value === void 0 ? whole : typeof value === "number" ? this.number(value) : value;
    });
  }
  number(value) {
    return value.toLocaleString(this.language, { maximumSignificantDigits: 3 });
  }
  /** A share as a percentage; `more` digits than the fewest. */
  percent(share, more = 0) {
    const few = share < 95e-4;
    const digits = few ? { maximumSignificantDigits: 1 + more } : { maximumFractionDigits: more };
    return share.toLocaleString(this.language, { style: "percent", ...digits });
  }
};

// page/choice.ts
function chanceOfChange(survey, epsilon) {
  switch (survey.mode) {
    case "mallows":
      return 1 - concordance(epsilon, survey.shown);
    case "random-pairs": {
      const share = shareOf(epsilon, survey.questions);
      const others = survey.hide === "items" ? 2 : 1;
      return others * Number(threshold(share, others)) / 2 ** 64;
    }
    case "test":
      return flipProbability(shareOf(epsilon, survey.questions));
    default:
      return flipProbability(epsilon);
  }
}
function meaning(survey, epsilon, words) {
  const chance = chanceOfChange(survey, epsilon);
  const values = { percent: words.percent(chance), kept: words.percent(1 - chance) };
  const first = survey.mode === "mallows" ? "swapped" : "flipped";
  const whole = survey.mode === "mallows" ? epsilon * survey.shown / 2 : wholeOf(survey, epsilon);
  return [
    words.say(first, values),
    words.say(first === "swapped" ? "swapped_guess" : "flipped_guess", values),
    words.say("epsilon_together", { epsilon, whole, questions: survey.questions })
  ];
}
function wholeOf(survey, epsilon) {
  const each = survey.mode === "pairs" || survey.mode === "ranked-pairs";
  return each ? survey.questions * epsilon : epsilon;
}
function chances(survey, words) {
  const shares = survey.epsilon.levels.map((epsilon) => chanceOfChange(survey, epsilon));
  const written = (more) => shares.map((share) => words.percent(share, more));
  const apart = [0, 1, 2].find((more) => new Set(written(more)).size === shares.length);
  return written(apart ?? 3);
}
function chooser(survey, chosen, words) {
  const { levels } = survey.epsilon;
  const explained = make("div", { class: "meaning", id: "meaning", "aria-live": "polite" });
  const explain = () => {
    const sentences = meaning(survey, chosen.epsilon, words);
    explained.replaceChildren(...sentences.map((text) => make("p", {}, text)));
  };
  explain();
  const heading = make("h2", {}, words.say("choice_heading"));
  if (levels.length === 1) {
    return make("section", { class: "choice" }, heading, make("p", {}, words.say("fixed")), explained);
  }
  const changed = survey.mode === "mallows" ? "level_swapped" : "level_flipped";
  const ends = /* @__PURE__ */ new Map([
    [levels[0], words.say("more_private")],
    [levels[levels.length - 1], words.say("more_exact")]
  ]);
  const percents = chances(survey, words);
  const options = levels.map((epsilon, place) => {
    const radio = make("input", {
      type: "radio",
      name: "epsilon",
      value: String(epsilon),
      checked: epsilon === chosen.epsilon,
      change: () => {
        chosen.epsilon = epsilon;
        explain();
      }
    });
    const percent = percents[place];
    const end = ends.get(epsilon);
    const text = words.say(changed, { percent });
    return make("label", {}, radio, " ", end === void 0 ? text : `${text} (${end})`);
  });
  const group = make("fieldset", { class: "levels" }, make("legend", {}, words.say("slider")), ...options);
  return make("section", { class: "choice" }, heading, group, explained);
}

// page/questions.ts
import { coin } from "./hushrank.js";
function askEach(questions, words, undecided) {
  return new Promise((resolve) => {
    const given = [];
    const ask2 = () => {
      const at = given.length;
      const question = questions[at];
      if (question === void 0) return resolve(given);
      const take = (answer) => () => {
        if (given.length === at) given.push(answer);
        ask2();
      };
      const back = () => {
        given.pop();
        ask2();
      };
      const place = { number: at + 1, count: questions.length };
      const choices = question.choices.map(
        (text, choice) => make("button", { type: "button", class: "choice", click: take(1 - choice) }, text)
      );
      const rest = make("div", { class: "rest" });
      if (at > 0) rest.append(button(words.say("back"), back));
      if (undecided) rest.append(button(words.say("no_preference"), () => take(coin())()));
      const progress = make("progress", {
        max: String(questions.length),
        value: String(at),
        "aria-label": words.say("progress", place)
      });
      show(
        make("p", { class: "number" }, words.say("progress", place)),
        progress,
        make("h1", { class: "small" }, question.text),
        make("div", { class: "choices" }, ...choices),
        rest
      );
    };
    ask2();
  });
}
function button(text, click, kind = "quiet") {
  return make("button", { type: "button", class: kind, click }, text);
}
function askOrder(items, words) {
  return new Promise((resolve) => {
    const list = make("ol", { class: "ranking" });
    const lines = /* @__PURE__ */ new Map();
    const renew = () => number(list, lines, words);
    for (const item of items) {
      const line = lineOf(item, list, words, renew);
      lines.set(line, item);
      list.append(line);
    }
    renew();
    const done = () => resolve([...list.children].map((line) => lines.get(line)));
    show(
      make("h1", { class: "small" }, words.say("ranking_heading")),
      make("p", { id: "how" }, words.say("ranking_how")),
      list,
      button(words.say("ranking_done"), done, "main")
    );
  });
}
function lineOf(item, list, words, renew) {
  const line = make("li");
  const move = (by) => (event) => {
    const other = by < 0 ? line.previousElementSibling : line.nextElementSibling;
    if (!other) return;
    by < 0 ? other.before(line) : other.after(line);
    renew();
    const place = [...list.children].indexOf(line) + 1;
    announce(words.say("moved", { item: item.label, place, count: list.children.length }));
    focusAfter(line, event.currentTarget);
  };
  const grip = make("span", { class: "grip", "aria-hidden": "true" }, "⠿");
  line.append(
    grip,
    make("span", { class: "place", "aria-hidden": "true" }),
    make("span", { class: "label" }, item.label),
    make("button", { type: "button", class: "up", click: move(-1) }, "↑"),
    make("button", { type: "button", class: "down", click: move(1) }, "↓")
  );
  dragBy(grip, line, list, renew);
  return line;
}
function number(list, lines, words) {
  const count = list.children.length;
  [...list.children].forEach((line, at) => {
    const item = lines.get(line)?.label ?? "";
    line.querySelector(".place").textContent = String(at + 1);
    const place = { item, place: at + 1, count };
    for (const [name, last] of [["up", at === 0], ["down", at === count - 1]]) {
      const button2 = line.querySelector(`.${name}`);
      button2.setAttribute("aria-label", words.say(name, place));
      button2.setAttribute("aria-disabled", String(last));
    }
  });
}
function focusAfter(line, used) {
  used.focus();
  line.scrollIntoView({ block: "nearest" });
}
function dragBy(grip, line, list, renew) {
  grip.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    event.preventDefault();
    grip.setPointerCapture(event.pointerId);
    line.classList.add("drawn");
  });
  grip.addEventListener("pointermove", (event) => {
    if (!grip.hasPointerCapture(event.pointerId)) return;
    for (const other of list.children) {
      const { top, bottom } = other.getBoundingClientRect();
      if (other === line || event.clientY < top || event.clientY > bottom) continue;
      const below = line.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_FOLLOWING;
      below ? other.after(line) : other.before(line);
      if (!grip.hasPointerCapture(event.pointerId)) grip.setPointerCapture(event.pointerId);
      renew();
      break;
    }
  });
  const stop = () => line.classList.remove("drawn");
  grip.addEventListener("pointerup", stop);
  grip.addEventListener("pointercancel", stop);
}

// page/survey.ts
function bodyText(survey, answers, token) {
  const { survey: name, kind } = survey;
  const start2 = { schema: 1, survey: name, kind, submission: submission() };
  const head = spaced(token === void 0 ? start2 : { ...start2, token });
  return `${head.slice(0, -2)}, "answers": [
${answers.map(spaced).join(",\n")}
]}`;
}
function spaced(value) {
  return JSON.stringify(value, null, 1).replace(/\n */g, " ");
}
function submission() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

// page/sentences.ts
function inWords(survey, body, words) {
  const labels = new Map(survey.items.map(({ name, label: label2 }) => [name, label2]));
  const label = (name) => labels.get(name) ?? name;
  const pair = ({ left, right, outcome }) => {
    const [first, second] = outcome < 0 ? [right, left] : [left, right];
    const key = outcome === 0 ? "sent_unranked" : "sent_pair";
    return words.say(key, { first: label(first), second: label(second) });
  };
  const lines = (answer) => {
    if ("ranking" in answer) return [answer.ranking.map(label).join(" › ")];
    if ("answers" in answer) return answer.answers.map(pair);
    if ("left" in answer) return [pair(answer)];
    const key = answer.correct === 1 ? "sent_right" : "sent_wrong";
    return [words.say(key, { item: label(answer.item) })];
  };
  return body.answers.flatMap(lines).map((text) => make("li", {}, text));
}

// page/page.ts
var QUESTIONNAIRE = ["answers"];
var SENT = ["sent"];
async function start() {
  const survey = await settings();
  const token = takeToken();
  const memory = new Memory(survey.survey, indexedDBStore());
  const chosen = { epsilon: survey.epsilon.start };
  const run = async (language) => {
    const words = speak(survey, language, run);
    if (await memory.kept(SENT)) return thank(words);
    if (isClosed(survey)) return refuse(words.say("closed", { day: lastDay(survey, words) }), words);
    const made = await memory.kept(QUESTIONNAIRE);
    if (made !== void 0) return review(survey, made, memory, words);
    if (survey.tokens && token === void 0) return refuse(words.say("no_token"), words);
    const sent = survey.tokens ? token : void 0;
    welcome(survey, chosen, words, async () => {
      const answers = await ask(survey, words);
      const privatise = () => bodyText(survey, answers(chosen.epsilon), sent);
      await review(survey, await memory.once(QUESTIONNAIRE, privatise), memory, words);
    });
  };
  await run(languageOf(survey));
}
async function settings() {
  const integrity = document.documentElement.dataset["settings"] ?? "";
  const found = await fetch("survey.json", { integrity, credentials: "omit" });
  if (!found.ok) throw new Error(`survey.json: ${found.status}`);
  return await found.json();
}
function takeToken() {
  const token = new URLSearchParams(location.hash.slice(1)).get("t") ?? void 0;
  if (location.hash) history.replaceState(null, "", location.pathname + location.search);
  return token;
}
function languageOf(survey) {
  const known = Object.keys(survey.languages);
  const wanted = navigator.languages.flatMap((each) => [each, each.split("-")[0] ?? each]);
  return wanted.find((each) => known.includes(each)) ?? known[0];
}
function speak(survey, language, change) {
  const found = survey.languages[language];
  const words = new Words(language, found.texts);
  for (const item of survey.items) item.label = found.items[item.name] ?? item.label ?? item.name;
  document.documentElement.lang = language;
  document.title = words.say("title");
  const others = Object.entries(survey.languages).filter(([code]) => code !== language);
  const buttons = others.map(
    ([code, { texts }]) => make("button", { type: "button", lang: code, click: () => change(code) }, texts["language"] ?? code)
  );
  const bar = document.querySelector("nav");
  bar.setAttribute("aria-label", words.say("languages"));
  bar.hidden = buttons.length === 0;
  bar.replaceChildren(...buttons);
  return words;
}
function isClosed({ about }) {
  return about?.closing != null && Date.now() >= Date.parse(about.closing);
}
function lastDay({ about }, words) {
  const noon = /* @__PURE__ */ new Date(`${about?.lastDay}T12:00:00Z`);
  return noon.toLocaleDateString(words.language, { dateStyle: "long", timeZone: "UTC" });
}
function asker(survey, words) {
  const { about } = survey;
  if (about === null) return [];
  const { organisation, contact, privacyNotice } = about;
  const lines = [make("p", {}, words.say("asker", { organisation, contact }))];
  if (about.lastDay !== null) {
    lines.push(make("p", {}, words.say("closes", { day: lastDay(survey, words) })));
  }
  if (privacyNotice !== null) {
    const link = { href: privacyNotice, target: "_blank", rel: "noopener noreferrer" };
    lines.push(make("p", {}, make("a", link, words.say("privacy_notice"))));
  }
  return [make("section", { class: "asker" }, ...lines)];
}
function welcome(survey, chosen, words, begin) {
  const steps = ["promise_device", "promise_see", "promise_name", "promise_once"];
  const promises = steps.map((key) => make("li", {}, words.say(key)));
  const started = () => {
    document.querySelector("nav").hidden = true;
    begin().catch((error) => broken(error, words));
  };
  show(
    make("h1", {}, words.say("title")),
    make("p", {}, words.say("introduction", { questions: survey.questions, shown: survey.shown })),
    ...asker(survey, words),
    make("h2", {}, words.say("promise_heading")),
    make("ul", {}, ...promises),
    chooser(survey, chosen, words),
    button(words.say("begin"), started, "main")
  );
}
async function ask(survey, words) {
  if (survey.mode === "pairs") return askPairs(survey, words);
  if (survey.mode === "test") return askTest(survey, words);
  const items = shuffled(survey.items).slice(0, survey.shown);
  const ranking = (await askOrder(items, words)).map((item) => item.name);
  if (survey.mode === "mallows") {
    return (epsilon) => [{ ranking: mallows(ranking, epsilon), epsilon }];
  }
  if (survey.mode === "random-pairs") {
    const catalogue = survey.hide === "items" ? survey.items.map((item) => item.name) : void 0;
    const length = catalogue ? {} : { length: ranking.length };
    return (epsilon) => [
      { answers: privatizeRanking(ranking, epsilon, survey.questions, catalogue), ...length }
    ];
  }
  return (epsilon) => {
    const whole = epsilon * survey.questions;
    const answers = privatizeRanking(ranking, whole, survey.questions);
    return answers.map((answer) => ({ ...answer, epsilon }));
  };
}
async function askPairs(survey, words) {
  const asked = shuffled(drawPairs(survey)).map((pair) => shuffled(pair));
  const questions = asked.map(([left, right]) => ({
    text: words.say("pair"),
    choices: [left.label, right.label]
  }));
  const given = await askEach(questions, words, true);
  return (epsilon) => asked.map(([one, other], at) => {
    const outcome = privatizeAnswer(given[at], epsilon) === 1 ? 1 : -1;
    const inOrder = byCodePoint(one.name, other.name) < 0;
    const [left, right] = inOrder ? [one.name, other.name] : [other.name, one.name];
    return { left, right, outcome: inOrder ? outcome : -outcome, epsilon };
  });
}
function drawPairs(survey) {
  if (survey.pairs) return drawByShare(survey.pairs, survey.questions, survey.items);
  const n = survey.items.length;
  return subset(n * (n - 1) / 2, survey.questions, systemWord).map((at) => {
    let second = Math.floor((1 + Math.sqrt(1 + 8 * at)) / 2);
    while (second * (second - 1) / 2 > at) second--;
    while (second * (second + 1) / 2 <= at) second++;
    const first = at - second * (second - 1) / 2;
    return [survey.items[first], survey.items[second]];
  });
}
function drawByShare(pairs, questions, items) {
  return pairs.map(([one, other, share]) => {
    const uniform = (Number(systemWord() >> 11n) + 0.5) / 2 ** 53;
    return { one, other, rings: -Math.log(uniform) / share };
  }).sort((a, b) => a.rings - b.rings).slice(0, questions).map(({ one, other }) => [items[one], items[other]]);
}
async function askTest(survey, words) {
  const asked = shuffled(survey.items).slice(0, survey.questions);
  const choices = [words.say("yes"), words.say("no")];
  const given = await askEach(asked.map(({ label: text }) => ({ text, choices })), words, false);
  return (whole) => {
    const epsilon = shareOf2(whole, asked.length);
    return asked.map(({ name: item }, at) => {
      const yes = given[at];
      const right = survey.noIsRight.includes(item) ? 1 - yes : yes;
      return { item, correct: privatizeAnswer(right, epsilon), epsilon };
    });
  };
}
async function review(survey, body, memory, words) {
  const problem = make("p", { class: "problem", role: "alert" });
  const send = button(words.say("send"), async () => {
    send.disabled = true;
    problem.textContent = "";
    const refused = await post(survey.url, body, words);
    if (refused === void 0) {
      await memory.once(SENT, () => true);
      return thank(words);
    }
    problem.textContent = refused;
    send.disabled = false;
  }, "main");
  const where = new URL(survey.url, document.baseURI).href;
  show(
    make("h1", { class: "small" }, words.say("review_heading")),
    make("p", {}, words.say("review", { url: where })),
    make("ul", { class: "sent" }, ...inWords(survey, JSON.parse(body), words)),
    make("h2", {}, words.say("review_text")),
    make("pre", { id: "body", tabindex: "0", "aria-label": words.say("review_text") }, body),
    make("p", {}, words.say("review_network")),
    problem,
    send
  );
}
async function post(url, body, words) {
  try {
    const answered = await fetch(url, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body,
      credentials: "omit",
      referrerPolicy: "no-referrer",
      redirect: "error",
      cache: "no-store"
    });
    if (answered.ok) return void 0;
    const said = await answered.json().catch(() => ({}));
    return words.say("refused", { why: said.error ?? String(answered.status) });
  } catch {
    return words.say("not_reached");
  }
}
function thank(words) {
  show(make("h1", { class: "small" }, words.say("thanks_heading")), make("p", {}, words.say("thanks")));
}
function refuse(text, words) {
  show(make("h1", {}, words.say("title")), make("p", { class: "problem", role: "alert" }, text));
}
function broken(error, words) {
  console.error(error);
  const text = words?.say("broken") ?? document.documentElement.dataset["broken"] ?? "";
  const heading = make("h1", {}, document.title);
  show(heading, make("p", { class: "problem", role: "alert" }, text));
}
start().catch((error) => broken(error));
