/** What is sent, in words. */

import type { PairAnswer } from "./hushrank.js";
import { make, type Words } from "./dom.js";
import type { Answer, Body, Survey } from "./survey.js";

/** A line for each answer of a body. */
export function inWords(survey: Survey, body: Body, words: Words): HTMLLIElement[] {
  const labels = new Map(survey.items.map(({ name, label }) => [name, label]));
  const label = (name: string) => labels.get(name) ?? name;
  const pair = ({ left, right, outcome }: PairAnswer) => {
    const [first, second] = outcome < 0 ? [right, left] : [left, right];
    const key = outcome === 0 ? "sent_unranked" : "sent_pair";
    return words.say(key, { first: label(first), second: label(second) });
  };
  const lines = (answer: Answer): string[] => {
    if ("ranking" in answer) return [answer.ranking.map(label).join(" › ")];
    if ("answers" in answer) return answer.answers.map(pair);
    if ("left" in answer) return [pair(answer)];
    const key = answer.correct === 1 ? "sent_right" : "sent_wrong";
    return [words.say(key, { item: label(answer.item) })];
  };
  return body.answers.flatMap(lines).map((text) => make("li", {}, text));
}
