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
