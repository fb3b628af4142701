// What several views need.

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

/** A term, with what it means as the browser shows it. */
const MEANINGS = {
  "μ": "the parameter of Gaussian differential privacy: it says everything where there is one",
  adjacency: "how the two data sets differ that nobody can tell apart",
};

export function glossary(term) {
  if (!(term in MEANINGS)) return term;
  const made = document.createElement("abbr");
  made.title = MEANINGS[term];
  made.textContent = term;
  return made;
}
