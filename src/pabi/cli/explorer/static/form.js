// The controls: a native box or list for each, with a slider beside numbers, its meaning, and its error.

import { element } from "./elements.js";
import { get, listen, set } from "./state.js";

const NOTCHES = 200;
const GROUPS = {}; // those of the run
const fields = new Map(); // name -> {control, row, box, slider, error}

/** The controls under their headings, for a form. */
export function controls(rows) {
  const groups = new Map();
  for (const control of rows) {
    if (!groups.has(control.group)) groups.set(control.group, []);
    groups.get(control.group).push(field(control));
    if (control.table !== "" || control.field !== "" || control.name === "schedule") GROUPS[control.group] = true;
  }
  return [...groups].map(([group, members]) =>
    element("fieldset", {}, element("legend", {}, group), ...members));
}

function field(control) {
  const id = `c-${control.name}`;
  const error = element("p", { class: "error", id: `${id}-error` });
  const hint = control.hint ? element("p", { class: "hint", id: `${id}-hint` }, control.hint) : null;
  const describe = { id, name: control.name, "aria-describedby": `${id}-hint ${id}-error` };
  const box = boxFor(control, describe);
  box.value = get(control.name);
  box.addEventListener(control.kind === "choice" ? "change" : "input", () => set({ [control.name]: box.value }, box));
  const slider = control.ends ? sliderFor(control, box) : null;
  const row = element("div", { class: "field" },
    element("label", { for: id }, control.label), element("div", { class: "inputs" }, box, slider), hint, error);
  fields.set(control.name, { control, row, box, slider, error });
  return row;
}

function boxFor(control, describe) {
  if (control.kind === "choice") {
    return element("select", describe, control.choices.map(([value, text]) => element("option", { value }, text)));
  }
  if (control.kind === "lines") return element("textarea", { ...describe, rows: 4, spellcheck: "false" });
  const inputmode = control.kind === "whole" ? "numeric" : "decimal";
  return element("input", { ...describe, type: "text", inputmode, spellcheck: "false", autocomplete: "off" });
}

function sliderFor(control, box) {
  const [low, high] = control.ends.map(Math.log);
  const slider = element("input", { type: "range", min: 0, max: NOTCHES, step: 1, "aria-label": `${control.label}, slider` });
  slider.addEventListener("input", () => {
    const value = Math.exp(low + (slider.value / NOTCHES) * (high - low));
    box.value = control.kind === "whole" ? String(round(value, 3)) : tidy(round(value, 3));
    slider.setAttribute("aria-valuetext", box.value);
    set({ [control.name]: box.value }, box);
  });
  return slider;
}

/** To so many significant digits; what a slider says is what is asked for, so that this promises nothing. */
function round(value, digits) {
  return Number(value.toPrecision(digits));
}

/** A number of the slider as answers have it: 0.0001 and 1e-05. */
const tidy = (value) => (value < 1e-4 ? value.toExponential().replace(/e-(\d)$/, "e-0$1") : String(value));

function place({ control, box, slider }) {
  const value = Number(box.value.replace(",", "."));
  const [low, high] = control.ends.map(Math.log);
  if (value > 0) slider.value = Math.round((NOTCHES * (Math.log(value) - low)) / (high - low));
  slider.setAttribute("aria-valuetext", box.value || "empty");
}

/** Shows in every control what is set, and only those that mean something now. */
export function refresh(origin = null) {
  for (const each of fields.values()) {
    const { control, row, box, slider } = each;
    if (box !== origin) box.value = get(control.name);
    if (slider) place(each);
    const meant = control.only.every(([other, values]) => values.includes(get(other)));
    row.hidden = !meant || (alone && control.group in GROUPS && !["delta", "further"].includes(control.name));
  }
  for (const group of document.querySelectorAll("#controls fieldset")) {
    group.hidden = !group.querySelector(".field:not([hidden])");
  }
}

/** The names of the controls that are on the page and mean something now. */
export function meant() {
  return [...fields].filter(([, { row }]) => row.isConnected && !row.hidden).map(([name]) => name);
}

let alone = false;

/** Whether further fields alone say what is done: then the other controls mean nothing, and are hidden. */
export function leaveAlone(whether) {
  if (alone === whether) return;
  alone = whether;
  refresh();
}

/** Puts a sentence beside the control that it is about. Returns whether there is one. */
export function complain(problem) {
  clearErrors();
  const one = fields.get(problem?.control);
  if (!one || one.row.hidden) return false;
  one.error.textContent = problem.message;
  one.box.setAttribute("aria-invalid", "true");
  return true;
}

export function clearErrors() {
  for (const { box, error } of fields.values()) {
    error.textContent = "";
    box.removeAttribute("aria-invalid");
  }
}

listen((_, origin) => refresh(origin));
