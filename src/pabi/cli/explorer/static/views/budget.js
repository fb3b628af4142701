// A ledger as a timeline, and what one more release would take.

import { Chart } from "../charts.js";
import { button, download, dropzone, element, section, table } from "../elements.js";
import { clearErrors, complain, controls } from "../form.js";
import { latest } from "../server.js";
import { hero } from "../shared.js";
import { all } from "../state.js";

const question = latest();
const chart = new Chart("ledger");
const head = element("div", { "aria-live": "polite" });
const entries = element("div");
const whatIf = element("div", { "aria-live": "polite" });
const form = element("form", { novalidate: true, onsubmit: (event) => { event.preventDefault(); read("target"); } });
const released = element("input", { type: "file", accept: ".json,application/json", multiple: true, id: "released" });
const opening = element("form", { novalidate: true, onsubmit: (event) => { event.preventDefault(); begin(); } });
const begun = section("No ledger yet? Start one", true,
  element("p", {}, "A budget, and the guarantees (JSON) of what is out already: each becomes an entry. What they cost together is composed, which is another number than the sum of their ε."), opening);
const body = element("div", { hidden: true }, chart.element,
  section("What if there were one more release?", true, form, whatIf),
  section("Entries", true, entries));
let text = null;
let made = null; // the name of a ledger that was started here
let served = null;

export const view = {
  name: "budget",
  title: "Budget",
  element: element("section", { "aria-labelledby": "budget-title" },
    element("h2", { id: "budget-title" }, "What was spent, and what is left"),
    element("p", {}, "A ledger keeps what several releases from the same people may reveal together. One that you drop is only read: nothing is entered."),
    dropzone("Drop a ledger here, or choose it:", "", (content) => { text = content; made = null; read(); }), head, begun, body),
  prepare({ controls: { besides }, ledger }) {
    served = ledger;
    opening.append(...controls(besides.filter((control) => control.group === "Budget")),
      element("p", {}, element("label", { for: "released" }, "guarantees of what is out (any number of files)"), released),
      element("p", { class: "actions" }, element("button", { type: "submit", class: "main" }, "Start a ledger")));
    form.append(...controls(besides.filter((control) => control.group === "What if")),
      element("p", { class: "actions" },
        element("button", { type: "submit", class: "main" }, "A release like this"),
        button("The run of this page", () => read("run"))));
  },
  update(names = null) {
    if ((names === null || names.includes("view")) && (text !== null || served)) read();
  },
  shown: () => chart.later(),
};
view.element.querySelector(".drop").classList.add("large");

async function begin() {
  const files = await Promise.all([...released.files].map(async (file) => [file.name, await file.text()]));
  read("", { released: files });
}

function read(what = "", more = {}) {
  clearErrors();
  const asked = { what, state: all(), ...more };
  if (text !== null && !more.released) asked.text = text;
  question("budget", asked, {
    file(file) { text = file.text; made = file.name; },
    ledger: show,
    curve: ({ series, points }) => chart.series(series, points),
    what: (data) => whatIf.replaceChildren(hero(null,
      element("p", { class: data.fits ? "good" : "alarm", id: "what" },
        data.fits ? `It fits: ${data.what}.` : `It does not fit: ${data.what}${data.reason ? `; ${data.reason}` : ""}.`),
      element("p", {}, data.fits
        ? `It is charged ${data.charge}. Then ε = ${data.spent} is spent, and ε = ${data.left} is left for one release. The ledger would grant ${data.more} of this kind.`
        : `It would be charged ${data.charge}; ε = ${data.left} is left for one release.`))),
    error(problem) {
      const placed = complain(problem);
      (placed ? whatIf : head).replaceChildren(element("p", { class: "alarm", role: "alert" }, problem.message));
    },
  });
}

function show(ledger) {
  body.hidden = false;
  begun.open = false;
  chart.rule = ledger.limit;
  chart.words = () => `${ledger.entries.length} releases have spent ε = ${ledger.spent} of ${ledger.epsilon}.`;
  const pairs = [
    ["budget", `ε = ${ledger.epsilon} at δ = ${ledger.delta}`], ["spent", `ε = ${ledger.spent} so far (a reading)`],
    ["left", `ε = ${ledger.left} for one Gaussian release`], ["protects", `one ${ledger.unit}`], ["adjacency", ledger.adjacency ?? "that of the first entry"]];
  head.replaceChildren(hero(null,
    element("dl", { class: "facts" }, pairs.flatMap(([term, value]) => [element("dt", {}, term), element("dd", {}, value)])),
    element("p", {}, ledger.adding),
    made ? element("p", { class: "actions" }, button("Save the ledger", () => download(made, text))) : null));
  entries.replaceChildren(ledger.entries.length
    ? table(["", "when", "method", ledger.symbol, "ε of all so far", ""], ledger.entries.map((e) => [e.number, e.at, e.method, e.charge, e.epsilon, e.remark]))
    : element("p", {}, "Nothing is entered yet."));
}
