// One question of a survey in React. The true answer stays on the device: what is sent was privatised.
import { useState } from "react";
import { createRoot } from "react-dom/client";
import { Memory, indexedDBStore, privatizeAnswer } from "hushrank";

const SURVEY = "campus-choice"; // `name` of the collector's YAML file
const COLLECTOR = "/answers"; // `hushrank collect` answers there; its `collect.url` names this page's host
const EPSILON = 1; // of this answer; the YAML file's `epsilon_range` or `epsilon_levels` has to hold it
const PAIR = ["London", "Paris"] as const;

interface Sent {
  left: string;
  right: string;
  outcome: 1 | -1;
  epsilon: number;
}

const memory = new Memory(SURVEY, indexedDBStore());

/** Privatise an answer once: asked again, this device gives the same private answer. */
async function privatised(leftWon: boolean): Promise<Sent> {
  const [left, right] = PAIR;
  return memory.once([left, right], () => {
    const outcome = privatizeAnswer(leftWon ? 1 : 0, EPSILON) === 1 ? 1 : -1;
    return { left, right, outcome, epsilon: EPSILON };
  });
}

/** 128 random bits, so that the collector counts a repeated sending once. */
function submission(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const text = btoa(String.fromCharCode(...bytes));
  return text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

async function send(answer: Sent): Promise<void> {
  const body = { schema: 1, survey: SURVEY, kind: "comparisons", submission: submission() };
  const response = await fetch(COLLECTOR, {
    method: "POST",
    credentials: "omit",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ...body, answers: [answer] }),
  });
  if (!response.ok) throw new Error(`the collector answered ${response.status}`);
}

function Question() {
  const [answer, setAnswer] = useState<Sent | null>(null);
  const [told, setTold] = useState("");

  function onSend(sent: Sent): void {
    send(sent).then(
      () => setTold("Thank you. Your private answer was sent."),
      (error: unknown) => setTold(`Not sent: ${String(error)}`),
    );
  }

  if (answer === null) {
    return (
      <fieldset>
        <legend>Which city would you rather visit?</legend>
        {PAIR.map((name, place) => (
          <button key={name} onClick={() => void privatised(place === 0).then(setAnswer)}>
            {name}
          </button>
        ))}
      </fieldset>
    );
  }
  return (
    <section>
      <p>This is sent, and nothing else. Chance may have turned it round:</p>
      <pre>{JSON.stringify(answer, null, 1)}</pre>
      <button disabled={told !== ""} onClick={() => onSend(answer)}>
        Send
      </button>
      <p role="status">{told}</p>
    </section>
  );
}

const place = document.querySelector("#survey");
if (place !== null) createRoot(place).render(<Question />);
