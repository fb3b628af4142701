// What several views need.

import { element } from "./elements.js";
import { get, replaceRun } from "./state.js";

let runNames = [];

/** Tells which names are those of a run's controls. */
export function setRunNames(names) {
  runNames = names;
}

/** Puts another run into the controls. */
export function replace(run) {
  replaceRun(runNames, run);
}

/** What stands in the run's controls, without the empty ones. */
export function runOf() {
  return Object.fromEntries(runNames.map((name) => [name, get(name)]));
}

/** Whether parts of a view belong to an earlier question: then they are pale, and no button in them works. */
export function age(parts, whether = true) {
  for (const part of parts) {
    // Whoever is in it by the keyboard is not sent back to the top of the page.
    if (whether && part.contains(document.activeElement)) document.querySelector("#main").focus({ preventScroll: true });
    part.classList.toggle("stale", whether);
    part.inert = whether;
  }
}

/** Fills a part with what belongs to the newest question. */
export function renew(part, ...children) {
  age([part], false);
  part.replaceChildren(...children);
}

/** What an attacker gains: a word, how far up it is among four, and with `whole` the number behind it. */
export function gains(gain, whole = false) {
  if (!gain) return null;
  const dots = "●".repeat(gain.level + 1) + "○".repeat(3 - gain.level);
  return element("span", { class: "gain", "data-gain": gain.level, title: whole ? null : gain.text },
    element("span", { "aria-hidden": "true" }, `${dots} `), whole ? `An attacker gains ${gain.word}: ${gain.text}.` : gain.word);
}

/** A box for an answer, in the colour of what an attacker gains. */
export function hero(gain, ...children) {
  return element("div", { class: "hero", "data-gain": gain?.level }, ...children);
}

/** What an answer holds for, in a sentence. */
export function basis(rows) {
  return element("p", { class: "hint basis" }, rows.length ? `For: ${rows.map(([label, text]) => `${label} ${text}`).join("; ")}.` : null);
}
