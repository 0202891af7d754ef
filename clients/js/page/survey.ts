/** What the page is told (survey.json), and what it sends. */

import type { PairAnswer } from "./hushrank.js";

export interface Item {
  name: string;
  label: string;
}

/** How people are asked, and how what they say is privatised. */
export type Mode = "pairs" | "ranked-pairs" | "mallows" | "random-pairs" | "test";

export interface About {
  organisation: string;
  contact: string;
  privacyNotice: string | null;
  /** The last day on which answers are taken, such as 2026-12-31, and the moment after it. */
  lastDay: string | null;
  closing: string | null;
}

export interface Survey {
  schema: 1;
  survey: string;
  kind: "comparisons" | "rankings" | "responses";
  mode: Mode;
  url: string;
  items: Item[];
  /** Questions of a respondent; of `ranked-pairs` and `random-pairs` how many pairs are answered. */
  questions: number;
  /** Pairs that are asked, by places of their items, with their shares; none: all pairs alike. */
  pairs?: [number, number, number][];
  /** Items that are put in order. */
  shown: number;
  /** The epsilons among which a person chooses, ascending; one: there is no choice. */
  epsilon: { levels: number[]; start: number };
  hide: "order" | "items";
  noIsRight: string[];
  tokens: boolean;
  /** Who asks; null: the survey does not say it. */
  about: About | null;
  languages: Record<string, { texts: Record<string, string>; items: Record<string, string> }>;
}

export type Answer =
  | (PairAnswer & { epsilon: number })
  | { ranking: string[]; epsilon: number }
  | { answers: PairAnswer[]; length?: number }
  | { item: string; correct: 0 | 1; epsilon: number };

/** What is sent. */
export interface Body {
  schema: 1;
  survey: string;
  kind: Survey["kind"];
  submission: string;
  token?: string;
  answers: Answer[];
}

/** A body as it is sent, to be read by people too: one answer a line. */
export function bodyText(survey: Survey, answers: Answer[], token: string | undefined): string {
  const { survey: name, kind } = survey;
  const start = { schema: 1, survey: name, kind, submission: submission() };
  const head = spaced(token === undefined ? start : { ...start, token });
  return `${head.slice(0, -2)}, "answers": [\n${answers.map(spaced).join(",\n")}\n]}`;
}

/** JSON on one line, with spaces where it may be broken. */
function spaced(value: unknown): string {
  return JSON.stringify(value, null, 1).replace(/\n */g, " "); // no text holds a bare line break
}

/** 128 random bits, so that a sending that is repeated counts once. */
function submission(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
}
