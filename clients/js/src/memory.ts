/**
 * Private answers are kept: the same question is never randomised twice.
 *
 * Only what was returned by a mechanism is stored, never the true answer. Who asks the same
 * question again gets the same private answer, so asking often gives nothing more away. This does
 * not protect against another question about the same thing, another device or browser, or a
 * device whose storage was cleared: there the next answer costs its epsilon again.
 */

import { requireText, requireTexts } from "./checks.js";

/** Where a `Memory` keeps its texts. */
export interface Store {
  /** The text at `key`, or undefined. */
  get(key: string): Promise<string | undefined>;
  /** Keep `text` unless the key has one already; resolve to what is kept then. */
  keep(key: string, text: string): Promise<string>;
}

/** Private answers of one survey on this device. */
export class Memory {
  readonly #survey: string;
  readonly #store: Store;

  /**
   * @param survey id of the survey: answers of another survey are others.
   * @param store `indexedDBStore()` in browsers: two tabs share it safely.
   */
  constructor(survey: string, store: Store) {
    requireText("survey", survey);
    this.#survey = survey;
    this.#store = store;
  }

  /**
   * The answer that was kept for `question`; if there is none, what `privatise` returns, kept.
   *
   * `privatise` may run although another tab's answer is kept and returned in the end; what it
   * returned is then forgotten, and must not be used otherwise.
   *
   * @param question names the question: texts in an order of the caller's choice.
   */
  async once<Answer>(question: readonly string[], privatise: () => Answer): Promise<Answer> {
    const key = this.#key(question);
    const found = await this.#store.get(key);
    const kept = found ?? (await this.#store.keep(key, JSON.stringify(privatise())));
    return JSON.parse(kept) as Answer;
  }

  /** The answer that was kept for `question`, if there is one. */
  async kept<Answer>(question: readonly string[]): Promise<Answer | undefined> {
    const found = await this.#store.get(this.#key(question));
    return found === undefined ? undefined : (JSON.parse(found) as Answer);
  }

  #key(question: readonly string[]): string {
    requireTexts("question", question); // a text would be taken for a list of its letters
    return JSON.stringify([this.#survey, ...question]);
  }
}

/** A store that lasts as long as the page or process. */
export function inMemoryStore(): Store {
  const texts = new Map<string, string>();
  return {
    get: async (key) => texts.get(key),
    keep: async (key, text) => {
      const kept = texts.get(key) ?? text;
      texts.set(key, kept);
      return kept;
    },
  };
}

/**
 * A store in `localStorage`, where IndexedDB is not at hand. Not safe for two tabs that privatise
 * the same answer in the same instant.
 */
export function localStorageStore(storage: Storage = localStorage): Store {
  const name = (key: string) => `hushrank:${key}`;
  return {
    get: async (key) => storage.getItem(name(key)) ?? undefined,
    keep: async (key, text) => {
      const kept = storage.getItem(name(key)) ?? text;
      storage.setItem(name(key), kept);
      return kept;
    },
  };
}

/** A store in IndexedDB. What it keeps is decided in one transaction: tabs agree. */
export function indexedDBStore(name = "hushrank"): Store {
  const texts = "answers";
  let opening: Promise<IDBDatabase> | undefined;
  const open = () =>
    (opening ??= new Promise((resolve, reject) => {
      const request = indexedDB.open(name, 1);
      request.onupgradeneeded = () => request.result.createObjectStore(texts);
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => reject(request.error);
    }));
  return {
    get: async (key) => {
      const request = (await open()).transaction(texts).objectStore(texts).get(key);
      return (await settled(request)) as string | undefined;
    },
    keep: async (key, text) => {
      const change = (await open()).transaction(texts, "readwrite", { durability: "strict" });
      const store = change.objectStore(texts);
      const found = (await settled(store.get(key))) as string | undefined;
      if (found === undefined) store.put(text, key);
      await new Promise<void>((resolve, reject) => {
        change.oncomplete = () => resolve();
        change.onabort = () => reject(change.error);
      });
      return found ?? text;
    },
  };
}

function settled<Result>(request: IDBRequest<Result>): Promise<Result> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
