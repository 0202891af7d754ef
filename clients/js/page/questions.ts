/** Two items or yes and no at a time; or items to be put in order. */

import { coin, type Bit } from "./hushrank.js";
import { announce, make, show, type Words } from "./dom.js";
import type { Item } from "./survey.js";

interface Question {
  text: string;
  /** Names of the buttons: what stands for 1, and what for 0. */
  choices: [string, string];
}

/**
 * Ask questions one by one. Resolves to an answer for each: 1 for its first choice, 0 for the
 * second. Who has no preference gets a fair coin.
 */
export function askEach(questions: Question[], words: Words, undecided: boolean): Promise<Bit[]> {
  return new Promise((resolve) => {
    const given: Bit[] = [];
    const ask = () => {
      const at = given.length;
      const question = questions[at];
      if (question === undefined) return resolve(given);
      const take = (answer: Bit) => () => {
        if (given.length === at) given.push(answer); // a second click changes nothing
        ask();
      };
      const back = () => {
        given.pop();
        ask();
      };
      const place = { number: at + 1, count: questions.length };
      const choices = question.choices.map((text, choice) =>
        make("button", { type: "button", class: "choice", click: take((1 - choice) as Bit) }, text),
      );
      const rest = make("div", { class: "rest" });
      if (at > 0) rest.append(button(words.say("back"), back));
      if (undecided) rest.append(button(words.say("no_preference"), () => take(coin())()));
      const progress = make("progress", {
        max: String(questions.length),
        value: String(at),
        "aria-label": words.say("progress", place),
      });
      show(
        make("p", { class: "number" }, words.say("progress", place)),
        progress,
        make("h1", { class: "small" }, question.text),
        make("div", { class: "choices" }, ...choices),
        rest,
      );
    };
    ask();
  });
}

export function button(text: string, click: () => void, kind = "quiet"): HTMLButtonElement {
  return make("button", { type: "button", class: kind, click }, text);
}

/** Let items be put in order, by buttons or by drawing them; resolves to them, best first. */
export function askOrder(items: Item[], words: Words): Promise<Item[]> {
  return new Promise((resolve) => {
    const list = make("ol", { class: "ranking" });
    const lines = new Map<HTMLLIElement, Item>();
    const renew = () => number(list, lines, words);
    for (const item of items) {
      const line = lineOf(item, list, words, renew);
      lines.set(line, item);
      list.append(line);
    }
    renew();
    const done = () =>
      resolve([...list.children].map((line) => lines.get(line as HTMLLIElement) as Item));
    show(
      make("h1", { class: "small" }, words.say("ranking_heading")),
      make("p", { id: "how" }, words.say("ranking_how")),
      list,
      button(words.say("ranking_done"), done, "main"),
    );
  });
}

function lineOf(
  item: Item,
  list: HTMLOListElement,
  words: Words,
  renew: () => void,
): HTMLLIElement {
  const line = make("li");
  const move = (by: -1 | 1) => (event: Event) => {
    const other = by < 0 ? line.previousElementSibling : line.nextElementSibling;
    if (!other) return;
    by < 0 ? other.before(line) : other.after(line);
    renew();
    const place = [...list.children].indexOf(line) + 1;
    announce(words.say("moved", { item: item.label, place, count: list.children.length }));
    focusAfter(line, event.currentTarget as HTMLButtonElement);
  };
  const grip = make("span", { class: "grip", "aria-hidden": "true" }, "⠿");
  line.append(
    grip,
    make("span", { class: "place", "aria-hidden": "true" }),
    make("span", { class: "label" }, item.label),
    make("button", { type: "button", class: "up", click: move(-1) }, "↑"),
    make("button", { type: "button", class: "down", click: move(1) }, "↓"),
  );
  dragBy(grip, line, list, renew);
  return line;
}

/** Names of the buttons, and which of them can do nothing. */
function number(list: HTMLOListElement, lines: Map<HTMLLIElement, Item>, words: Words): void {
  const count = list.children.length;
  [...list.children].forEach((line, at) => {
    const item = lines.get(line as HTMLLIElement)?.label ?? "";
    (line.querySelector(".place") as HTMLElement).textContent = String(at + 1);
    const place = { item, place: at + 1, count };
    for (const [name, last] of [["up", at === 0], ["down", at === count - 1]] as const) {
      const button = line.querySelector(`.${name}`) as HTMLButtonElement;
      button.setAttribute("aria-label", words.say(name, place));
      button.setAttribute("aria-disabled", String(last));
    }
  });
}

/** The focus stays on the button that moved its line. */
function focusAfter(line: HTMLLIElement, used: HTMLButtonElement): void {
  used.focus();
  line.scrollIntoView({ block: "nearest" });
}

/** Drawing by mouse, pen or finger: the line takes the place that it is drawn over. */
function dragBy(
  grip: HTMLElement,
  line: HTMLLIElement,
  list: HTMLOListElement,
  renew: () => void,
): void {
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
