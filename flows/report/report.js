"use strict";
// Search, filter and sort one table, and step through its lines by keyboard. Without this script the
// page has the same content. Texts are read and compared, and never become markup.
(() => {
  const table = document.querySelector("table[data-tools]");
  const tools = document.querySelector("form.tools");
  if (!table || !tools) return;
  const body = table.tBodies[0];
  const headings = [...table.tHead.rows[0].cells];
  const { decimal, group } = document.documentElement.dataset;
  const plain = (text) => text.replaceAll(group, "").replaceAll(decimal, ".");
  const numbers = (text) => (plain(text).match(/[+-]?\d+(\.\d+)?/g) || []).map(Number);
  const folded = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLocaleLowerCase();
  const column = (word) => headings.findIndex((heading) => heading.dataset.sort === word);
  const [named, ranked] = [column("text"), column("ranks")];
  const lines = [...body.rows].map((row, place) => {
    const texts = [...row.cells].map((cell) => (cell.firstChild ? cell.firstChild.textContent : ""));
    const words = folded(`${texts[named]} ${row.dataset.id || ""}`);
    return { row, place, texts, words, best: numbers(texts[ranked])[0] };
  });
  const byName = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
  const width = (text) => {
    const ends = numbers(text);
    return ends.length < 2 ? Infinity : Math.abs(ends[1] - ends[0]);
  };
  const last = (text) => numbers(text).at(-1);
  const chance = (text) => {
    const [percent] = numbers(text);
    return text.startsWith("<") ? percent - 0.5 : text.startsWith(">") ? percent + 0.5 : percent;
  };
  const orders = {
    place: () => (a, b) => a.place - b.place,
    text: (i) => (a, b) => byName.compare(a.texts[i], b.texts[i]),
    width: (i) => (a, b) => {
      const [one, other] = [width(a.texts[i]), width(b.texts[i])];
      return one === other ? 0 : one - other;
    },
    ranks: (i) => (a, b) => a.best - b.best || last(a.texts[i]) - last(b.texts[i]),
    chance: (i) => (a, b) => chance(b.texts[i]) - chance(a.texts[i]) || a.place - b.place,
    count: (i) => (a, b) => numbers(b.texts[i])[0] - numbers(a.texts[i])[0],
  };

  const sort = (heading) => {
    const reverse = heading.getAttribute("aria-sort") === "ascending";
    for (const each of headings) each.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", reverse ? "descending" : "ascending");
    const order = orders[heading.dataset.sort](headings.indexOf(heading));
    const sign = reverse ? -1 : 1;
    lines.sort((a, b) => sign * order(a, b) || a.place - b.place);
    body.append(...lines.map((line) => line.row));
    show();
  };

  const show = () => {
    const wanted = folded(tools.elements.search.value.trim());
    const best = Number(tools.elements.best.value) || Infinity;
    let shown = 0;
    for (const line of lines) {
      line.row.hidden = !(line.words.includes(wanted) && line.best <= best);
      shown += line.row.hidden ? 0 : 1;
    }
    const inPlace = lines.every((line, place) => line.place === place);
    table.classList.toggle("rearranged", shown < lines.length || !inPlace);
    const said = document.querySelector("main").dataset.textShown;
    tools.querySelector("output").textContent = said.replace("$1", shown).replace("$2", lines.length);
    reach(visible()[0]);
  };

  const visible = () => lines.filter((line) => !line.row.hidden);
  const reach = (line) => {
    for (const each of lines) each.row.tabIndex = each === line ? 0 : -1;
  };
  const steps = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity };
  body.addEventListener("keydown", (event) => {
    if (!(event.key in steps) || event.target.parentNode !== body) return;
    event.preventDefault();
    const there = visible();
    const now = there.findIndex((line) => line.row === event.target);
    const next = there[Math.min(Math.max(now + steps[event.key], 0), there.length - 1)];
    reach(next);
    next.row.focus();
  });
  body.addEventListener("focusin", (event) => {
    const line = lines.find((each) => each.row === event.target);
    if (line) reach(line);
  });

  for (const heading of headings.filter((each) => each.dataset.sort)) {
    // No button element, because Chromium omits buttons in the repeated headings of printed pages.
    const button = document.createElement("span");
    button.role = "button";
    button.tabIndex = 0;
    button.className = "sort";
    button.append(...heading.childNodes);
    button.addEventListener("click", () => sort(heading));
    button.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      sort(heading);
    });
    heading.append(button);
  }
  tools.addEventListener("input", show);
  tools.addEventListener("submit", (event) => event.preventDefault());
  tools.addEventListener("reset", () => {
    for (const each of headings) each.removeAttribute("aria-sort");
    lines.sort((a, b) => a.place - b.place);
    body.append(...lines.map((line) => line.row));
    setTimeout(show);
  });
  tools.hidden = false;
  show();
})();

// A chart as PNG, for programs that do not open SVG. It is drawn from the link's own content.
(() => {
  const ZOOM = 2;
  const saved = (address, name) => {
    const link = document.createElement("a");
    link.href = address;
    link.download = name;
    link.click();
  };
  for (const link of document.querySelectorAll("a[data-chart]")) {
    const name = link.download.replace(/\.svg$/, ".png");
    const button = document.createElement("button");
    button.type = "button";
    const said = document.querySelector("main").dataset;
    button.textContent = said.textPng;
    button.setAttribute("aria-label", said.textSave.replace("$1", () => name));
    button.addEventListener("click", async () => {
      const picture = new Image();
      picture.src = link.href;
      await picture.decode();
      const canvas = document.createElement("canvas");
      canvas.width = ZOOM * picture.naturalWidth;
      canvas.height = ZOOM * picture.naturalHeight;
      canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
      saved(canvas.toDataURL("image/png"), name);
    });
    link.parentElement.append(" ", button);
  }
})();

// A summary of one page: the style sheet hides the rest while the page is printed.
(() => {
  const root = document.documentElement;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = document.querySelector("main").dataset.textSummary;
  button.addEventListener("click", () => {
    root.classList.add("summary");
    window.print();
  });
  window.addEventListener("afterprint", () => root.classList.remove("summary"));
  document.querySelector("p.downloads:has([data-chart])").append(" ", button);
})();
