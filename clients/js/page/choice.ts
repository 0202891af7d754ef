/** The choice of an epsilon, and what it means in plain words. */

import { concordance, flipProbability, shareOf, threshold } from "./hushrank.js";
import { make, type Words } from "./dom.js";
import type { Survey } from "./survey.js";

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

/** The chances of a change at each level, with as many digits as tell the levels apart. */
function chances(survey: Survey, words: Words): string[] {
  const shares = survey.epsilon.levels.map((epsilon) => chanceOfChange(survey, epsilon));
  const written = (more: number) => shares.map((share) => words.percent(share, more));
  const apart = [0, 1, 2].find((more) => new Set(written(more)).size === shares.length);
  return written(apart ?? 3);
}

/** A few levels, or where one epsilon is for all a sentence; and what the chosen epsilon means. */
export function chooser(
  survey: Survey,
  chosen: { epsilon: number },
  words: Words,
): HTMLElement {
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
  const ends = new Map([
    [levels[0], words.say("more_private")],
    [levels[levels.length - 1], words.say("more_exact")],
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
      },
    });
    const percent = percents[place] as string;
    const end = ends.get(epsilon);
    const text = words.say(changed, { percent });
    return make("label", {}, radio, " ", end === undefined ? text : `${text} (${end})`);
  });
  const group = make("fieldset", { class: "levels" }, make("legend", {}, words.say("slider")), ...options);
  return make("section", { class: "choice" }, heading, group, explained);
}
