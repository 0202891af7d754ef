/** Elements and texts. Texts only ever become text, never HTML. */

type Attributes = Record<string, string | boolean | ((event: Event) => void)>;

/** An element; an attribute that is a function listens to the event of its name. */
export function make<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

/** Show a screen: its heading takes the focus, so that a screen reader starts there. */
export function show(...content: Node[]): void {
  const main = document.querySelector("main") as HTMLElement;
  main.replaceChildren(...content);
  const heading = main.querySelector<HTMLElement>("h1");
  heading?.setAttribute("tabindex", "-1");
  heading?.focus();
  scrollTo(0, 0);
}

/** Say a sentence to screen readers. */
export function announce(text: string): void {
  const region = document.querySelector("#announcement");
  if (region) region.textContent = text;
}

/** The texts of one language; `{name}` in a text stands for a value. */
export class Words {
  readonly #texts: Record<string, string>;
  readonly language: string;

  constructor(language: string, texts: Record<string, string>) {
    this.language = language;
    this.#texts = texts;
  }

  say(key: string, values: Record<string, string | number> = {}): string {
    return (this.#texts[key] ?? key).replace(/\{(\w+)\}/g, (whole, name: string) => {
      const value = values[name];
      return value === undefined ? whole : typeof value === "number" ? this.number(value) : value;
    });
  }

  number(value: number): string {
    return value.toLocaleString(this.language, { maximumSignificantDigits: 3 });
  }

  /** A share as a percentage; `more` digits than the fewest. */
  percent(share: number, more = 0): string {
    const few = share < 0.0095;
    const digits = few ? { maximumSignificantDigits: 1 + more } : { maximumFractionDigits: more };
    return share.toLocaleString(this.language, { style: "percent", ...digits });
  }
}
