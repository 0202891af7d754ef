/** The page of a survey: promise, choice of epsilon, questions, what leaves the device, sending. */

import {
  Memory,
  byCodePoint,
  indexedDBStore,
  mallows,
  privatizeAnswer,
  privatizeRanking,
  shareOf,
  shuffled,
  subset,
  systemWord,
} from "./hushrank.js";
import { chooser } from "./choice.js";
import { Words, make, show } from "./dom.js";
import { askEach, askOrder, button } from "./questions.js";
import { bodyText, type Answer, type Body, type Item, type Survey } from "./survey.js";
import { inWords } from "./sentences.js";

const QUESTIONNAIRE = ["answers"]; // all answers of a person are kept, and sent, as one
const SENT = ["sent"];

async function start(): Promise<void> {
  const survey = await settings();
  const token = takeToken();
  const memory = new Memory(survey.survey, indexedDBStore());
  const chosen = { epsilon: survey.epsilon.start };
  const run = async (language: string) => {
    const words = speak(survey, language, run);
    if (await memory.kept(SENT)) return thank(words);
    if (isClosed(survey)) return refuse(words.say("closed", { day: lastDay(survey, words) }), words);
    const made = await memory.kept<string>(QUESTIONNAIRE);
    if (made !== undefined) return review(survey, made, memory, words);
    if (survey.tokens && token === undefined) return refuse(words.say("no_token"), words);
    const sent = survey.tokens ? token : undefined; // a survey without tokens refuses one
    welcome(survey, chosen, words, async () => {
      const answers = await ask(survey, words);
      const privatise = () => bodyText(survey, answers(chosen.epsilon), sent);
      await review(survey, await memory.once(QUESTIONNAIRE, privatise), memory, words);
    });
  };
  await run(languageOf(survey));
}

async function settings(): Promise<Survey> {
  const integrity = document.documentElement.dataset["settings"] ?? "";
  const found = await fetch("survey.json", { integrity, credentials: "omit" });
  if (!found.ok) throw new Error(`survey.json: ${found.status}`);
  return (await found.json()) as Survey;
}

/** The one-time token with which the page was opened; it leaves the address bar. */
function takeToken(): string | undefined {
  const token = new URLSearchParams(location.hash.slice(1)).get("t") ?? undefined;
  if (location.hash) history.replaceState(null, "", location.pathname + location.search);
  return token;
}

/** The first language of the browser that the survey has, else the survey's first. */
function languageOf(survey: Survey): string {
  const known = Object.keys(survey.languages);
  const wanted = navigator.languages.flatMap((each) => [each, each.split("-")[0] ?? each]);
  return wanted.find((each) => known.includes(each)) ?? (known[0] as string);
}

/** Set the page's language, and the buttons that change it. */
function speak(survey: Survey, language: string, change: (language: string) => void): Words {
  const found = survey.languages[language] as Survey["languages"][string];
  const words = new Words(language, found.texts);
  for (const item of survey.items) item.label = found.items[item.name] ?? item.label ?? item.name;
  document.documentElement.lang = language;
  document.title = words.say("title");
  const others = Object.entries(survey.languages).filter(([code]) => code !== language);
  const buttons = others.map(([code, { texts }]) =>
    make("button", { type: "button", lang: code, click: () => change(code) }, texts["language"] ?? code),
  );
  const bar = document.querySelector("nav") as HTMLElement;
  bar.setAttribute("aria-label", words.say("languages"));
  bar.hidden = buttons.length === 0;
  bar.replaceChildren(...buttons);
  return words;
}

function isClosed({ about }: Survey): boolean {
  return about?.closing != null && Date.now() >= Date.parse(about.closing);
}

/** The last day in the words of the language, whatever the time zone of the device. */
function lastDay({ about }: Survey, words: Words): string {
  const noon = new Date(`${about?.lastDay}T12:00:00Z`);
  return noon.toLocaleDateString(words.language, { dateStyle: "long", timeZone: "UTC" });
}

/** Who asks, until when, and a link to the privacy notice. */
function asker(survey: Survey, words: Words): HTMLElement[] {
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

function welcome(
  survey: Survey,
  chosen: { epsilon: number },
  words: Words,
  begin: () => Promise<void>,
): void {
  const steps = ["promise_device", "promise_see", "promise_name", "promise_once"];
  const promises = steps.map((key) => make("li", {}, words.say(key)));
  const started = () => {
    (document.querySelector("nav") as HTMLElement).hidden = true; // no other words half-way
    begin().catch((error: unknown) => broken(error, words));
  };
  show(
    make("h1", {}, words.say("title")),
    make("p", {}, words.say("introduction", { questions: survey.questions, shown: survey.shown })),
    ...asker(survey, words),
    make("h2", {}, words.say("promise_heading")),
    make("ul", {}, ...promises),
    chooser(survey, chosen, words),
    button(words.say("begin"), started, "main"),
  );
}

/** Ask; returns the answers as a function of epsilon, which privatises them. */
async function ask(survey: Survey, words: Words): Promise<(epsilon: number) => Answer[]> {
  if (survey.mode === "pairs") return askPairs(survey, words);
  if (survey.mode === "test") return askTest(survey, words);
  const items = shuffled(survey.items).slice(0, survey.shown);
  const ranking = (await askOrder(items, words)).map((item) => item.name);
  if (survey.mode === "mallows") {
    return (epsilon) => [{ ranking: mallows(ranking, epsilon), epsilon }];
  }
  if (survey.mode === "random-pairs") {
    const catalogue = survey.hide === "items" ? survey.items.map((item) => item.name) : undefined;
    const length = catalogue ? {} : { length: ranking.length };
    return (epsilon) => [
      { answers: privatizeRanking(ranking, epsilon, survey.questions, catalogue), ...length },
    ];
  }
  return (epsilon) => {
    const whole = epsilon * survey.questions;
    const answers = privatizeRanking(ranking, whole, survey.questions);
    return answers.map((answer) => ({ ...answer, epsilon }));
  };
}

async function askPairs(survey: Survey, words: Words): Promise<(epsilon: number) => Answer[]> {
  const asked = shuffled(drawPairs(survey)).map((pair) => shuffled(pair) as [Item, Item]);
  const questions = asked.map(([left, right]) => ({
    text: words.say("pair"),
    choices: [left.label, right.label] as [string, string],
  }));
  const given = await askEach(questions, words, true);
  return (epsilon) =>
    asked.map(([one, other], at) => {
      const outcome = privatizeAnswer(given[at] as 0 | 1, epsilon) === 1 ? 1 : -1;
      const inOrder = byCodePoint(one.name, other.name) < 0;
      const [left, right] = inOrder ? [one.name, other.name] : [other.name, one.name];
      return { left, right, outcome: inOrder ? outcome : (-outcome as 1 | -1), epsilon };
    });
}

/** So many pairs of items as are asked, drawn by chance. */
function drawPairs(survey: Survey): [Item, Item][] {
  const n = survey.items.length;
  return subset((n * (n - 1)) / 2, survey.questions, systemWord).map((at) => {
    let second = Math.floor((1 + Math.sqrt(1 + 8 * at)) / 2);
    while ((second * (second - 1)) / 2 > at) second--;
    while ((second * (second + 1)) / 2 <= at) second++;
    const first = at - (second * (second - 1)) / 2;
    return [survey.items[first] as Item, survey.items[second] as Item];
  });
}

async function askTest(survey: Survey, words: Words): Promise<(epsilon: number) => Answer[]> {
  const asked = shuffled(survey.items).slice(0, survey.questions);
  const choices: [string, string] = [words.say("yes"), words.say("no")];
  const given = await askEach(asked.map(({ label: text }) => ({ text, choices })), words, false);
  return (whole) => {
    const epsilon = shareOf(whole, asked.length);
    return asked.map(({ name: item }, at) => {
      const yes = given[at] as 0 | 1;
      const right = survey.noIsRight.includes(item) ? ((1 - yes) as 0 | 1) : yes;
      return { item, correct: privatizeAnswer(right, epsilon), epsilon };
    });
  };
}

/** Show exactly what leaves the device, and send it when told to. */
async function review(survey: Survey, body: string, memory: Memory, words: Words): Promise<void> {
  const problem = make("p", { class: "problem", role: "alert" });
  const send = button(words.say("send"), async () => {
    send.disabled = true;
    problem.textContent = "";
    const refused = await post(survey.url, body, words);
    if (refused === undefined) {
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
    make("ul", { class: "sent" }, ...inWords(survey, JSON.parse(body) as Body, words)),
    make("h2", {}, words.say("review_text")),
    make("pre", { id: "body", tabindex: "0", "aria-label": words.say("review_text") }, body),
    make("p", {}, words.say("review_network")),
    problem,
    send,
  );
}

/** Send; what went wrong as a sentence, if something did. */
async function post(url: string, body: string, words: Words): Promise<string | undefined> {
  try {
    const answered = await fetch(url, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body,
      credentials: "omit",
      referrerPolicy: "no-referrer",
      redirect: "error",
      cache: "no-store",
    });
    if (answered.ok) return undefined;
    const said = (await answered.json().catch(() => ({}))) as { error?: string };
    return words.say("refused", { why: said.error ?? String(answered.status) });
  } catch {
    return words.say("not_reached");
  }
}

function thank(words: Words): void {
  show(make("h1", { class: "small" }, words.say("thanks_heading")), make("p", {}, words.say("thanks")));
}

function refuse(text: string, words: Words): void {
  show(make("h1", {}, words.say("title")), make("p", { class: "problem", role: "alert" }, text));
}

function broken(error: unknown, words?: Words): void {
  console.error(error);
  const text = words?.say("broken") ?? document.documentElement.dataset["broken"] ?? "";
  const heading = make("h1", {}, document.title);
  show(heading, make("p", { class: "problem", role: "alert" }, text));
}

start().catch((error: unknown) => broken(error));
