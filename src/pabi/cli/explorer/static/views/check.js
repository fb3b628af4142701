// Whether a file is to be trusted.

import { Charts } from "../charts.js";
import { button, download, dropzone, element, section, table } from "../elements.js";
import { ask, latest } from "../server.js";
import { gains, hero } from "../shared.js";

const question = latest();
const charts = new Charts("epsilon", "tradeoff");
const verdict = element("div", { "aria-live": "polite" });
const attest = element("div");
const attacks = element("ul");
const training = element("div");
let described = false;
const rest = element("div", { hidden: true },
  section("The training that it describes", true,
    element("p", {}, "Everything is proven from this. Whether the model was trained so no file can show: it is the first thing to be attested."), training),
  section("To be attested by people", true,
    element("p", {}, "A proof cannot show these. Tick what you know to be true; nothing is stored."), attest),
  charts.element, section("What an attacker gains", true, attacks));

export const view = {
  name: "check",
  title: "Check",
  element: element("section", { "aria-labelledby": "check-title" },
    element("h2", { id: "check-title" }, "Is this file to be trusted?"),
    element("p", {}, "A guarantee (JSON) says what a model reveals, and carries a proof. The proof is checked here, by code that shares nothing with what found it."),
    dropzone("Drop a guarantee here, or choose it:", ".json,application/json", check), verdict, rest),
  update() {},
  shown: () => charts.redraw(),
};
view.element.querySelector(".drop").classList.add("large");

function check(text, name) {
  verdict.replaceChildren(element("p", { class: "status" }, `checking ${name}`));
  rest.hidden = true;
  charts.begin();
  question("check", { text }, {
    verdict(data) {
      const kind = data.ok ? "good" : "alarm";
      const pairs = data.epsilon
        ? [[data.ok ? "ε at most" : "states, unproven, ε", `${data.epsilon} at δ = ${data.delta}`], ["μ", data.mu ?? "none"], ["protects", data.protects],
          ["method", data.method], ["source", data.source], ["checked", data.scope]] : [];
      const report = button("Save the report", () => save(text));
      verdict.replaceChildren(hero(data.gain ?? { level: 3 },
        element("p", { class: kind, id: "verdict" }, data.ok ? `The proof in ${name} is accepted.` : `Do not rely on ${name}: its proof is refused. ${sentence(data.reason)}`),
        data.ok ? element("p", {}, "What it promises holds if everything below that people have to attest is true. A file is not signed: ask whom you have it from.") : null,
        data.gain ? element("p", {}, gains(data.gain, true)) : null,
        element("dl", { class: "facts" }, pairs.flatMap(([term, text]) => [element("dt", {}, term), element("dd", {}, text)])),
        data.epsilon ? element("p", { class: "actions" }, report) : null));
    },
    training: ({ rows }) => showTraining(rows),
    assumptions: ({ rows }) => { rest.hidden = false; showAssumptions(rows); },
    attacks: ({ texts }) => attacks.replaceChildren(...texts.map((text) => element("li", {}, text))),
    curve: (data) => charts.add(data),
    error: (problem) => verdict.replaceChildren(element("p", { class: "alarm", role: "alert" }, problem.message)),
  }).then(() => charts.end());
}

const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

function save(text) {
  ask("report", { text }, {
    file: (file) => download(file.name, file.text, "text/html"),
    error: (problem) => verdict.append(element("p", { class: "alarm", role: "alert" }, problem.message)),
  });
}

function showTraining(rows) {
  described = rows.length > 0;
  training.replaceChildren(described ? table(["", "as described"], rows)
    : element("p", {}, "The file holds no run: only what it states of every step was checked."));
}

function showAssumptions(assumed) {
  const trained = { text: "the model was trained exactly as described above", who: "whoever trained it" };
  const rows = described ? [trained, ...assumed] : assumed;
  const left = element("p", { role: "status" });
  const boxes = rows.map(({ text, who, word }, k) => {
    const box = element("input", { type: "checkbox", id: `attest-${k}`, onchange: count });
    return element("li", {}, box, element("label", { for: `attest-${k}` }, text, element("span", { class: "hint" }, ` (${who}${word ? "; only the file says so" : ""})`)));
  });
  const list = element("ul", { class: "attest" }, boxes);
  function count() {
    const open = list.querySelectorAll("input:not(:checked)").length;
    left.textContent = open ? `${open} of ${rows.length} not attested yet` : "All are attested.";
  }
  count();
  attest.replaceChildren(list, left);
}
