/** The choice of an epsilon, and what it means in plain words. */

import { concordance, flipProbability, shareOf, threshold } from "./hushrank.js";
import { make, type Words } from "./dom.js";
import type { Survey } from "./survey.js";

const STEPS = 100;

/** Epsilons of the slider: evenly spaced by ratio, of three digits, within the range. */
export function epsilonAt(step: number, low: number, high: number): number {
  if (step <= 0) return low;
  if (step >= STEPS) return high;
  const epsilon = Number((low * (high / low) ** (step / STEPS)).toPrecision(3));
  return Math.min(Math.max(epsilon, low), high);
}

function stepOf(epsilon: number, low: number, high: number): number {
  return high > low ? Math.round((STEPS * Math.log(epsilon / low)) / Math.log(high / low)) : 0;
}

/** Probability with which an answer that is sent is not the true one. */
export function chanceOfChange(survey: Survey, epsilon: number): number {
  switch (survey.mode) {
    case "mallows":
      return 1 - concordance(epsilon, survey.shown);
    case "random-pairs": {
      const share = shareOf(epsilon, survey.questions);
      const others = survey.hide === "items" ? 2 : 1;
      return (others * Number(threshold(share, others))) / 2 ** 64;
    }
    case "test":
      return flipProbability(shareOf(epsilon, survey.questions));
    default:
      return flipProbability(epsilon);
  }
}

/** What an epsilon means, in sentences. */
export function meaning(survey: Survey, epsilon: number, words: Words): string[] {
  const chance = chanceOfChange(survey, epsilon);
  const values = { percent: words.percent(chance), kept: words.percent(1 - chance) };
  const first = survey.mode === "mallows" ? "swapped" : "flipped";
  const whole = survey.mode === "mallows" ? (epsilon * survey.shown) / 2 : wholeOf(survey, epsilon);
  return [
    words.say(first, values),
    words.say(first === "swapped" ? "swapped_guess" : "flipped_guess", values),
    words.say("epsilon_together", { epsilon, whole, questions: survey.questions }),
  ];
}

function wholeOf(survey: Survey, epsilon: number): number {
  const each = survey.mode === "pairs" || survey.mode === "ranked-pairs";
  return each ? survey.questions * epsilon : epsilon;
}

/** A slider, or where one epsilon is for all a sentence; and what the chosen epsilon means. */
export function chooser(
  survey: Survey,
  chosen: { epsilon: number },
  words: Words,
): HTMLElement {
  const { low, high } = survey.epsilon;
  const explained = make("div", { class: "meaning", id: "meaning" });
  const slider = make("input", {
    type: "range",
    id: "epsilon",
    min: "0",
    max: String(STEPS),
    value: String(stepOf(chosen.epsilon, low, high)),
    "aria-describedby": "meaning",
  });
  const explain = () => {
    const sentences = meaning(survey, chosen.epsilon, words);
    explained.replaceChildren(...sentences.map((text) => make("p", {}, text)));
    slider.setAttribute("aria-valuetext", sentences[0] as string);
  };
  slider.addEventListener("input", () => {
    chosen.epsilon = epsilonAt(slider.valueAsNumber, low, high);
    explain();
  });
  explain();
  const heading = make("h2", {}, words.say("choice_heading"));
  if (low === high) {
    return make("section", { class: "choice" }, heading, make("p", {}, words.say("fixed")), explained);
  }
  const ends = make(
    "p",
    { class: "ends", "aria-hidden": "true" },
    make("span", {}, words.say("more_private")),
    make("span", {}, words.say("more_exact")),
  );
  const label = make("label", { for: "epsilon" }, words.say("slider"));
  return make("section", { class: "choice" }, heading, label, slider, ends, explained);
}
