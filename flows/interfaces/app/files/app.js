// The page of `hushrank app`. Texts of files and of people only ever become text, never HTML.

const STEPS = [
  ["file", "1 File"],
  ["questions", "2 Questions"],
  ["budget", "3 Budget"],
  ["run", "4 Run"],
  ["past", "5 What was done"],
];
const LATER = ["privacy.epsilon"]; // questions that a later step asks
const SETTLE = 150; // milliseconds without a change before a setting is predicted
const state = {
  file: "", kind: null, roles: null, head: null, shown: false, answers: {}, at: 0,
  survey: "", digest: "", written: null, people: "", epsilon: null, bound: null, running: null,
};

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== false && value != null) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

async function ask(path, body, method = body === undefined ? "GET" : "POST") {
  const options = { method };
  if (body instanceof Blob) options.body = body;
  else if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers = { "content-type": "application/json" };
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error("The page's server does not answer. Is hushrank app still running in its terminal?");
  }
  const found = await response.json();
  if (!response.ok) throw new Error(found.error);
  return found;
}

const of = (survey, more = {}) => new URLSearchParams({ survey, ...more });

function announce(text) {
  document.querySelector("#announcement").textContent = text;
}

function show(title, ...content) {
  const main = document.querySelector("main");
  const heading = make("h1", { tabindex: "-1" }, title);
  main.replaceChildren(heading, ...content.filter((each) => each != null));
  heading.focus();
  scrollTo(0, 0);
}

function problem(error) {
  return make("p", { class: "note problem", role: "alert" }, error.message ?? error);
}

/** Do something that may be refused; a refusal is shown below `place`. */
async function attempt(place, work, button = null) {
  place.parentElement?.querySelectorAll(".problem").forEach((each) => each.remove());
  if (button) button.disabled = true;
  try {
    return await work();
  } catch (error) {
    place.after(problem(error));
    return undefined;
  } finally {
    if (button) button.disabled = false;
  }
}

function actions(...buttons) {
  return make("p", { class: "actions" }, ...buttons);
}

function button(text, click, attributes = {}) {
  return make("button", { type: "button", click, ...attributes }, text);
}

const reachable = () => ({
  file: true,
  questions: state.head !== null && state.head.kind !== null,
  budget: state.survey !== "",
  run: state.survey !== "",
  past: state.survey !== "",
});

function go(step) {
  const hash = state.survey && step !== "file" && step !== "questions" ? `${step}/${encodeURIComponent(state.survey)}` : step;
  if (location.hash === `#${hash}`) visit();
  else location.hash = hash;
}

async function visit() {
  const [step, survey] = location.hash.slice(1).split("/");
  if (survey) setSurvey(decodeURIComponent(survey));
  const now = reachable()[step] ? step : "file";
  const list = STEPS.map(([name, text]) =>
    make("li", {}, button(text, () => go(name), {
      "aria-current": name === now ? "step" : false, disabled: !reachable()[name],
    })),
  );
  document.querySelector("#steps").replaceChildren(...list);
  await VISITS[now]();
}

function setSurvey(name) {
  if (name === state.survey) return;
  Object.assign(state, { survey: name, digest: "", epsilon: null, bound: null });
}

// 1. File

async function visitFile() {
  const found = await ask("api/folder");
  document.querySelector("#folder").textContent = `in ${found.folder}`;
  const place = make("p", { class: "quiet" }, "Answers that people gave: a CSV, Excel, Parquet, JSON Lines or PrefLib file, or a folder of such files.");
  const files = make("ul", { class: "names" }, ...found.files.map((name) =>
    make("li", {}, button(name, (event) => attempt(place, () => choose(name), event.target))),
  ));
  const surveys = make("ul", { class: "names" }, ...found.surveys.map((name) =>
    make("li", {}, button(name, () => { setSurvey(name); go("budget"); })),
  ));
  show("Which file holds the answers?", place,
    found.files.length ? files : make("p", {}, "The folder has no such file yet."), dropZone(place),
    ...(found.surveys.length ? [make("h2", {}, "Or continue with a job that is there already"), surveys] : []),
    make("div", { id: "seen" }));
  if (state.head) showHead();
}

function dropZone(place) {
  const picker = make("input", { type: "file", id: "picker", change: () => take(picker.files[0]) });
  const zone = make("div", {
    class: "drop",
    dragover: (event) => { event.preventDefault(); zone.classList.add("over"); },
    dragleave: () => zone.classList.remove("over"),
    drop: (event) => { event.preventDefault(); zone.classList.remove("over"); take(event.dataTransfer.files[0]); },
  }, make("label", { for: "picker" }, "Drop a file here, or pick one. It is copied into the folder."), picker);
  async function take(file) {
    if (!file) return;
    await attempt(place, async () => {
      announce(`Copying ${file.name}.`);
      const { file: name } = await ask(`api/files/${encodeURIComponent(file.name)}`, file, "PUT");
      await choose(name);
    }, picker);
  }
  return zone;
}

async function choose(file) {
  Object.assign(state, { file, kind: null, roles: null, head: null, shown: false, answers: {}, at: 0, written: null });
  await look();
}

async function look() {
  const { file, kind, roles, shown } = state;
  const rows = state.head?.rows ?? null; // asked for once, because a job's ledger may record it
  state.head = await ask("api/head", { file, kind, roles, confidential: shown && rows === null });
  state.head.rows ??= rows;
  await visitFile();
  document.querySelector("#seen h2")?.scrollIntoView({ block: "start" });
  announce(`${file} was read. ${state.head.summary[0]}`);
}

function showHead() {
  const { head } = state;
  const place = document.querySelector("#seen");
  const kinds = make("select", { id: "kind", change: () => { state.kind = kinds.value; state.roles = null; again(); } },
    ...(head.kind ? [] : [make("option", { value: "" }, "choose what the rows are")]),
    ...head.kinds.map((each) => make("option", { value: each.answer, selected: each.answer === head.kind }, KINDS[each.answer])));
  const note = make("p", {}, "Each row of the file is one of these. ", head.kind ? "" : "Nothing shows which: please choose.");
  async function again() {
    await attempt(note, look);
  }
  const next = button("Next: questions", () => go("questions"), { class: "main", disabled: !head.kind });
  place.replaceChildren(
    make("h2", { tabindex: "-1" }, `${head.file}: what it was taken for, and why`),
    make("ul", {}, ...head.summary.map((line) => make("li", {}, line))),
    make("label", { class: "field" }, make("span", {}, "Rows are"), kinds), note,
    make("ul", { class: "quiet" }, ...head.kinds.map((each) => make("li", {}, RESULTS[each.answer]))),
    ...(head.columns.length ? [roleTable(head, again), head.rows ? null : confirmRows()] : []).filter(Boolean),
    actions(next),
  );
  visitSteps();
}

const KINDS = {
  comparisons: "comparisons: two items, and which of them won",
  responses: "answers to a test, right or wrong",
  rankings: "rankings of several items",
};

const RESULTS = {
  comparisons: "Of comparisons, items are ranked by how often they win, and against whom where that differs.",
  responses: "Of answers to a test, its items are ranked by difficulty, the hardest first.",
  rankings: "Of rankings, items are ranked by the places that people gave them, or as an election counts votes.",
};

function roleTable(head, again) {
  const rows = head.columns.map((column, place) => {
    const id = `role-${place}`;
    const menu = make("select", { id, disabled: column.menu.length < 2, change: () => {
      state.roles = Object.fromEntries(head.columns.map((each, k) => [each.name, document.querySelector(`#role-${k}`).value]));
      again();
    } }, ...column.menu.map((each) => make("option", { value: each.role, selected: each.role === column.role }, each.means)));
    const cells = head.rows ? [make("td", {}, head.rows.map((row) => row[place]).join(" · "))] : [];
    return make("tr", {}, make("th", { scope: "row" }, make("label", { for: id }, column.name)), make("td", {}, menu), ...cells);
  });
  const headings = ["column", "what it holds", ...(head.rows ? ["first rows"] : [])];
  const caption = head.rows ? "CONFIDENTIAL: the first rows are exact answers of real people. Show them to nobody." : "Change what is wrong; the first rows are not shown yet.";
  return make("div", { class: head.rows ? "scroll note confidential" : "scroll", tabindex: "0", role: "region", "aria-label": "Columns" },
    make("table", { class: "roles" }, make("caption", {}, caption),
      make("thead", {}, make("tr", {}, ...headings.map((each) => make("th", { scope: "col" }, each)))),
      make("tbody", {}, ...rows)));
}

function confirmRows() {
  const agreed = make("input", { type: "checkbox", id: "agreed", change: () => { more.disabled = !agreed.checked; } });
  const more = button("Show the first rows", () => attempt(more, () => { state.shown = true; return look(); }, more), { disabled: true });
  return make("div", { class: "note confidential" },
    make("p", {}, "The first rows are confidential: exact answers of real people, without noise. What you see must not decide epsilon, bounds, items or method of a release."),
    make("label", { class: "check" }, agreed, "I hold these answers and may see them"), more);
}

function visitSteps() {
  document.querySelectorAll("#steps button").forEach((each, place) => {
    each.disabled = !reachable()[STEPS[place][0]];
  });
}

// 2. Questions

const asked = () => state.head.questions.filter((each) => !LATER.includes(each.key));

async function visitQuestions() {
  const questions = asked();
  if (state.at >= questions.length) state.at = Math.max(questions.length - 1, 0);
  const question = questions[state.at];
  if (!question) {
    const done = button("Write the job's file", () => attempt(done, writeSurvey, done), { class: "main" });
    show("No question is open", make("p", {}, "The file says everything but how well people are protected."), actions(done));
    return;
  }
  const last = state.at === questions.length - 1;
  const field = fieldOf(question);
  const next = button(last ? "Write the job's file" : "Next", () => {
    const typed = field.value();
    if (!typed) { field.element.after(problem("Please answer first: a guess could change the result.")); return; }
    state.answers[question.key] = typed;
    if (!last) { state.at += 1; visitQuestions(); return; }
    attempt(field.element, writeSurvey, next);
  }, { class: "main" });
  const back = button("Back", () => { if (state.at) { state.at -= 1; visitQuestions(); } else go("file"); });
  show(`Question ${state.at + 1} of ${questions.length}: ${question.short}`,
    make("p", {}, sentence(field.plain ? question.asks.split(", for example")[0] : question.asks)),
    question.because ? make("p", { class: "quiet" }, `Why this is asked: ${question.because}.`) : null,
    field.element, actions(back, next));
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

function fieldOf(question) {
  const known = state.answers[question.key] ?? "";
  if (question.columns.length) return menuField(question, known);
  if (question.choices.length) return choiceField(question, known);
  return question.key.startsWith("items") ? itemsField(question, known) : textField(question, known);
}

// A choice in plain words: clauses that name a key are for those who write the file by hand.
const plain = (when) => sentence(when.replace(/^\((.*)\)$/, "$1").replace(/[;,] [^;,]*\b(input|privacy|model|items)\.[a-z_]+[^;]*/g, ""));

function menuField(question, known) {
  const select = make("select", {}, make("option", { value: "" }, "choose a column"),
    ...question.columns.map((each) => make("option", { value: each, selected: each === known }, each)));
  return { element: make("label", { class: "field" }, make("span", {}, sentence(question.short)), select), value: () => select.value };
}

function choiceField(question, known) {
  const written = make("input", { type: "text", "aria-label": "Another answer", value: question.choices.some((each) => each.answer === known) ? "" : known });
  const options = question.choices.map((each) => make("label", { class: "choice" },
    make("input", { type: "radio", name: "choice", value: each.answer, checked: each.answer === known, change: () => { written.value = ""; } }),
    make("span", {}, make("strong", {}, plain(each.when) || each.answer), each.does ? make("span", {}, each.does) : null,
      make("span", { class: "quiet" }, "In the job's file: ", make("code", {}, each.answer)))));
  const element = make("fieldset", {}, make("legend", {}, "Choose one"), ...options);
  written.addEventListener("input", () => { element.querySelectorAll("input[type=radio]").forEach((each) => { each.checked = false; }); });
  if (question.open) element.append(make("label", { class: "field" }, make("span", {}, "or write another answer"), written));
  return { element, value: () => element.querySelector("input[type=radio]:checked")?.value || written.value.trim() };
}

function itemsField(question, known) {
  const area = make("textarea", { spellcheck: "false" });
  area.value = state.answers[`${question.key} as typed`] ?? known;
  const element = make("label", { class: "field" }, make("span", {}, "One item a line, or names with commas"), area,
    make("span", { class: "quiet" }, "Write all that could be chosen, also what nobody chose: a list that is taken from the answers would leak who answered. Or write the name of a file in the folder that lists them, such as items.txt, or a number n if rows hold 0 to n - 1."));
  function value() {
    const text = area.value.trim();
    state.answers[`${question.key} as typed`] = text;
    const lines = text.split("\n").map((each) => each.trim()).filter(Boolean);
    if (lines.length < 2) return text;
    const names = `[${lines.map((each) => JSON.stringify(each)).join(", ")}]`;
    return question.key === "items.names" ? names : `{names: ${names}}`;
  }
  return { element, value, plain: true };
}

function textField(question, known) {
  const number = question.key === "privacy.max_contributions";
  const input = make("input", number ? { type: "number", min: "1", max: "1000", value: known } : { type: "text", value: known, spellcheck: "false" });
  return { element: make("label", { class: "field" }, make("span", {}, sentence(question.short)), input), value: () => input.value.trim() };
}

async function writeSurvey() {
  const { file, kind, roles, written } = state;
  const answers = Object.fromEntries(asked().filter((each) => each.key in state.answers).map((each) => [each.key, state.answers[each.key]]));
  const found = await ask("api/survey", { file, kind, roles, answers, ...written });
  if (found.wrong) {
    const questions = asked();
    state.at = questions.findIndex((each) => each.key in found.wrong);
    await visitQuestions();
    throw new Error(Object.values(found.wrong).join("\n"));
  }
  state.written = { survey: found.survey, digest: found.digest };
  setSurvey(found.survey);
  state.digest = "";
  go("budget");
}

// 3. Budget

async function visitBudget() {
  let found;
  try {
    found = await ask(`api/budget?${of(state.survey)}`);
  } catch (error) {
    show("This file cannot be used", problem(error), actions(button("Back", () => go("file"))));
    return;
  }
  state.digest = found.digest;
  state.epsilon ??= found.epsilon;
  state.bound ??= found.answers;
  const start = found.stops.indexOf(state.epsilon);
  const people = make("input", { type: "number", min: "1", id: "people", value: state.people, input: changed });
  const slider = make("input", { type: "range", id: "epsilon", min: "0", max: `${found.stops.length - 1}`, step: "1", value: `${start < 0 ? 3 : start}`, input: pick });
  const bound = make("input", { type: "range", id: "bound", min: "1", max: `${Math.max(found.most_answers, state.bound ?? 1)}`, step: "1", value: `${state.bound ?? 1}`, input: pickBound });
  const epsilonText = make("output", { for: "epsilon" });
  const boundText = make("output", { for: "bound" });
  const says = make("ul", { id: "says" });
  const picture = make("img", { class: "picture", hidden: true, load: () => { picture.hidden = picture.dataset.key !== predict.last; },
    alt: "Accuracy against epsilon: how often the best item comes first, and the error of scores" });
  const cost = make("p", {});
  const save = button("Save and check", () => attempt(save, () => saveBudget(), save), { class: "main" });
  const checked = make("div", {});
  let timer = 0;
  function pick() { state.epsilon = found.stops[Number(slider.value)]; changed(); }
  function pickBound() { state.bound = Number(bound.value); changed(); }
  function changed() {
    state.people = people.value;
    checked.replaceChildren();
    says.replaceChildren(); // nothing of another setting stays beside this one
    picture.hidden = true;
    predict.last = "";
    label();
    clearTimeout(timer);
    timer = setTimeout(predict, SETTLE);
  }
  function label() {
    const chosen = state.epsilon !== null;
    epsilonText.textContent = chosen ? `${state.epsilon}` : "not chosen yet: move the slider";
    slider.setAttribute("aria-valuetext", epsilonText.textContent);
    boundText.textContent = `${state.bound}`;
    save.disabled = !chosen;
    cost.textContent = `${chosen ? `This release costs epsilon ${state.epsilon}. ` : ""}The budget of ${found.population} has epsilon ${found.left} left. Every release of these people's answers is paid from it, and nothing is paid before you press Run.`;
  }
  async function predict() {
    const count = Number(people.value);
    if (state.epsilon === null || !(count >= 1)) return;
    const answers = found.answers === null ? {} : { answers: state.bound };
    const setting = of(state.survey, { people: count, epsilon: state.epsilon, ...answers });
    const key = `${setting}`;
    predict.last = key;
    const list = (found) => says.replaceChildren(...found.says.map((each) => make("li", {}, each)));
    const draw = (more) => { picture.dataset.key = key; picture.src = `plan.svg?${setting}${more}`; };
    try {
      const expected = await ask(`api/formula?${setting}`); // at once; simulated surveys take longer
      if (predict.last !== key) return;
      list(expected);
      draw("&at_once");
      const predicted = await ask(`api/plan?${setting}`);
      if (predict.last !== key) return;
      list(predicted);
      draw("");
    } catch (error) {
      if (predict.last === key) says.replaceChildren(make("li", {}, error.message));
    }
  }
  async function saveBudget() {
    checked.replaceChildren(make("p", {}, "Checking ..."));
    const body = { survey: state.survey, digest: state.digest, epsilon: state.epsilon, answers: found.answers === null ? null : state.bound };
    try {
      state.digest = (await ask("api/budget", body)).digest;
      if (state.written?.survey === state.survey) state.written.digest = state.digest;
      const { good, lines } = await ask("api/check", { survey: state.survey, what: "validate" });
      checked.replaceChildren(
        make("h2", { tabindex: "-1" }, good ? "Ready" : "Not yet"),
        make("pre", { tabindex: "0", role: "region", "aria-label": "What was checked" }, lines.join("\n")),
        good ? actions(button("Run", (event) => attempt(checked, startRun, event.target), { class: "main", id: "start" })) : "",
      );
      checked.querySelector("h2").focus();
      announce(good ? "The job is valid." : "The job cannot run yet.");
    } catch (error) {
      checked.replaceChildren();
      throw error;
    }
  }
  label();
  const whose = found.unit === "user" ? "one person's answers together" : "one answer";
  show("How well are people protected, and how exact is the ranking?",
    make("p", {}, `hushrank adds noise to what it counts, to hide ${whose}. Epsilon is how much the result may still say of that: a small epsilon is strong protection and much noise, a large one is weak protection and little noise. 1 is strong, 2 to 4 is usual.`),
    make("label", { class: "field" }, make("span", {}, "About how many people were asked?"), people, make("span", { class: "quiet" }, " From how the survey was made; the file is not counted. It is used for the prediction only.")),
    make("label", { class: "field", for: "epsilon" }, make("span", {}, "Epsilon: ", epsilonText), slider),
    found.answers === null ? null : make("label", { class: "field", for: "bound" }, make("span", {}, "Answers of one person that count at most: ", boundText), bound, make("span", { class: "quiet" }, "From how the survey was made, never from the answers. More need more noise.")),
    make("h2", {}, "What this would give"),
    make("p", { class: "quiet" }, "First by a formula, then from simulated surveys. No answer is read."),
    make("div", { class: "beside", "aria-live": "polite" }, says, picture), cost, actions(save), checked);
  predict();
}

// 4. Run

async function startRun() {
  await ask("api/run", { survey: state.survey, digest: state.digest });
  go("run");
}

async function visitRun() {
  const steps = make("ol", { class: "steps", "aria-live": "polite" });
  const status = make("p", {}, "Asking for the last run ...");
  const result = make("div", {});
  const folded = make("details", { open: true }, make("summary", {}, "Steps of the run"), steps);
  show("Run", status, folded, result);
  state.running?.close();
  const events = new EventSource("api/run/events");
  state.running = events;
  events.onerror = () => { status.textContent = "The page's server does not answer. The run goes on; start hushrank app again to see it."; };
  events.onmessage = async (event) => {
    const run = JSON.parse(event.data);
    if (run.survey !== state.survey && !run.going_on) {
      status.textContent = `${state.survey} was not run from this page yet.`;
      result.replaceChildren(actions(button("To the budget", () => go("budget"))));
      events.close();
      return;
    }
    steps.replaceChildren(...run.steps.map((each) => make("li", {}, each)));
    status.textContent = run.going_on ? `${run.survey} is being run. You may close this tab: the run goes on.` : "";
    if (run.going_on) return;
    events.close();
    folded.open = Boolean(run.result?.error);
    await attempt(result, () => showResult(run, status, result));
  };
}

async function showResult(run, status, result) {
  const { error } = run.result;
  if (error) {
    status.textContent = "The run stopped.";
    const refused = error.kind === "BudgetRefused";
    result.replaceChildren(
      make("p", { class: "note problem", role: "alert" }, error.message),
      refused ? make("p", {}, "What can be done: choose a smaller epsilon, look at an earlier release (it costs nothing to read), or ask whoever keeps the budget to raise ledger.epsilon. Nothing was read or spent.") : "",
      actions(button("To the budget", () => go("budget"), { class: "main" }), button("Run again", (event) => attempt(result, () => {
        state.digest = run.digest; // of the file as it was shown then
        return startRun();
      }, event.target))),
    );
    return;
  }
  const { release, spent, budget } = run.result;
  const cost = spent ? `Spent epsilon ${Number(release.epsilon).toLocaleString("en", { maximumSignificantDigits: 3 })}.` : "Nothing was spent: this release was drawn before.";
  status.textContent = `Done. ${cost} Left: epsilon ${budget.left.toLocaleString("en", { maximumSignificantDigits: 3 })} of ${budget.epsilon}.`;
  announce(release.says);
  const past = await ask(`api/past?${of(state.survey)}`);
  const shown = past.releases.find((each) => each.release_id === release.release_id);
  result.replaceChildren(make("h2", {}, release.says), downloads(shown), reportFrame(shown), actions(button("What was done", () => go("past"))));
}

const address = (release, file) => `released/${encodeURIComponent(state.survey)}/${release.release_id}/${encodeURIComponent(file)}`;

function downloads(release) {
  const wanted = ["report.html", "ranking.csv", "ranking.svg", "certificate.json", "release.json"];
  const links = release.files.filter((file) => wanted.includes(file)).map((file) =>
    make("li", {}, make("a", { href: `${address(release, file)}?download`, download: true }, file)));
  const notebook = state.survey.replace(/\.ya?ml$/i, ".ipynb");
  for (const file of [state.survey, notebook]) {
    links.push(make("li", {}, make("a", { href: `download/${encodeURIComponent(file)}?${of(state.survey)}`, download: true }, file)));
  }
  return make("ul", { class: "names", "aria-label": "Downloads" }, ...links);
}

function reportFrame(release) {
  return make("iframe", { src: address(release, "report.html"), title: `Report of release ${release.release_id}`, sandbox: "allow-scripts allow-downloads" });
}

// 5. What was done

async function visitPast() {
  const place = make("p", {}, "Reading the releases ...");
  show(`What was done with ${state.survey}`, place);
  await attempt(place, async () => {
    const { releases } = await ask(`api/past?${of(state.survey)}`);
    place.textContent = releases.length ? "Each release, the last one first. To look at one again costs nothing." : "There is no release yet.";
    const main = document.querySelector("main");
    if (releases.length) main.append(releaseTable(releases), make("h2", {}, releases.length === 1 ? "The ranking" : "Ranks over time"),
      make("img", { class: "picture", src: `history.svg?${of(state.survey)}`, alt: releases.length === 1 ? "Ranking with intervals" : "Ranks over time" }));
    main.append(checkSection("The budget", "ledger", "Show the budget"));
    if (releases.length) main.append(checkSection("Is the last release what it says?", "verify", "Verify"));
  });
}

function releaseTable(releases) {
  const report = make("div", {});
  const rows = releases.map((each) => make("tr", {},
    make("th", { scope: "row", class: "day" }, each.day), make("td", {}, `${each.epsilon}`), make("td", {}, each.says),
    make("td", {}, button("Show", () => { report.replaceChildren(downloads(each), reportFrame(each)); report.scrollIntoView(); }, { "aria-label": `Show the release of ${each.day}, ${each.release_id}` }))));
  return make("div", {}, make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Releases" },
    make("table", {}, make("caption", {}, "Releases"), make("thead", {}, make("tr", {}, ...["day", "epsilon", "what it says", "report"].map((each) => make("th", { scope: "col" }, each)))), make("tbody", {}, ...rows))), report);
}

function checkSection(title, what, text) {
  const output = make("div", {});
  const start = button(text, () => attempt(output, async () => {
    output.replaceChildren(make("p", {}, "One moment ..."));
    const { lines } = await ask("api/check", { survey: state.survey, what });
    output.replaceChildren(make("pre", { tabindex: "0", role: "region", "aria-label": title }, lines.join("\n")));
  }, start));
  return make("section", {}, make("h2", {}, title), start, output);
}

const VISITS = { file: visitFile, questions: visitQuestions, budget: visitBudget, run: visitRun, past: visitPast };

async function begin() {
  try {
    const { folder, run } = await ask("api/folder");
    document.querySelector("#folder").textContent = `in ${folder}`;
    if (run.going_on && run.survey) {
      setSurvey(run.survey);
      go("run");
      if (location.hash.startsWith("#run")) return;
    }
    await visit();
  } catch (error) {
    show("Something went wrong", problem(error));
  }
}

addEventListener("hashchange", () => visit().catch((error) => show("Something went wrong", problem(error))));
begin();
