// The setting that meets a target; and two runs side by side.

import { Charts } from "../charts.js";
import { button, element, section, table } from "../elements.js";
import { clearErrors, complain, controls } from "../form.js";
import { latest } from "../server.js";
import { all, get, set } from "../state.js";
import { age, basis, gains, hero, renew, replace, runOf } from "../shared.js";

const planning = latest(150);
const comparing = latest();
const form = element("form", { novalidate: true, onsubmit: (event) => event.preventDefault() });
const status = element("p", { class: "status", role: "status" });
const answer = element("div", { "aria-live": "polite" });
let planned = null; // what the run becomes
const sides = element("div");
const charts = new Charts("epsilon", "tradeoff");

export const view = {
  name: "plan",
  title: "Plan",
  element: element("section", { "aria-labelledby": "plan-title" },
    element("h2", { id: "plan-title" }, "Meet a target"),
    element("p", {}, "What has to change for the run to meet a target of yours? Everything else stays as the controls have it."),
    form, status, answer,
    section("Two runs side by side", true,
      element("p", { class: "actions" },
        button("Keep the controls as run A", () => keep("a")), button("Keep the controls as run B", () => keep("b")),
        button("The controls and the plan", () => set({ a: "", b: "" }))),
      sides, charts.element)),
  prepare({ controls: { besides } }) {
    form.append(...controls(besides.filter((control) => control.group === "Target")));
  },
  update(names = null) {
    if (names !== null && names.every((name) => ["a", "b"].includes(name))) compare();
    else plan();
  },
  shown: () => charts.redraw(),
};

function plan() {
  planned = null;
  charts.begin();
  age([answer, sides]);
  status.textContent = "searching";
  planning("plan", { state: all() }, {
    plan(data) {
      clearErrors();
      planned = new URLSearchParams(data.state).toString();
      age([answer], false);
      status.textContent = "";
      answer.replaceChildren(hero(data.gain,
        element("p", { class: "epsilon" }, `${data.label}: `, element("output", { class: "number", id: "planned" }, data.value)),
        data.parameter === "noise" ? element("p", {}, `That is: ${data.noise}.`) : null,
        element("p", {}, `Then ${data.bounded} is at most ${data.reached}; the target is ${data.target}. Method: ${data.method}.`),
        data.bounded === "ε" ? null : element("p", {}, `ε is at most ${data.epsilon} at δ = ${data.delta}.`),
        element("p", {}, gains(data.gain, true)),
        basis(data.rows),
        button("Put it into the run", () => { replace(data.state); set({ view: "run" }); }, { class: "main" })));
    },
    error(problem) {
      complain(problem);
      age([answer], false);
      status.textContent = "";
      answer.replaceChildren(element("p", { class: "alarm", role: "alert" }, problem.message));
    },
  }).then(compare);
}

function keep(side) {
  set({ [side]: new URLSearchParams(runOf()).toString() });
}

/** The two runs that are kept, and in place of one that is not: the controls, and what the plan makes of them. */
function compare() {
  const kept = [get("a"), get("b")];
  const [a, b] = [kept[0] || new URLSearchParams(runOf()).toString(), kept[1] || planned];
  if (!b) {
    comparing.drop();
    charts.begin();
    charts.end();
    renew(sides, element("p", { class: "hint" }, "There is no plan to compare with. Keep a run as B."));
    return;
  }
  const names = [`A, ${kept[0] ? "kept" : "the controls"}`, `B, ${kept[1] ? "kept" : "the plan"}`];
  const columns = {};
  charts.begin();
  comparing("compare", { a: runIn(a), b: runIn(b) }, {
    side: (data) => { columns[data.side] = data; show(columns, names); },
    curve: (data) => charts.add(data),
    error: (problem) => renew(sides, element("p", { class: "alarm", role: "alert" }, problem.message)),
  }).then(() => charts.end());
}

const runIn = (text) => Object.fromEntries(new URLSearchParams(text));

function show({ a, b }, columns) {
  const cell = (side, read) => (side ? read(side) : "…");
  const names = Object.keys(a?.readings ?? {});
  const rows = [
    ["ε at most", (side) => side.number.epsilon], ["an attacker gains", (side) => gains(side.gain)], ["at δ", (side) => side.number.delta], ["μ", (side) => side.number.mu ?? "none"],
    ["method", (side) => side.number.method], ["adjacency", (side) => side.number.adjacency], ["steps", (side) => side.number.steps ?? "–"],
    ...names.map((name) => [name, (side) => side.readings[name]]),
    ["what differs", (side) => side.differs],
  ].map(([name, read]) => [name, cell(a, read), cell(b, read)]);
  renew(sides, table(["", ...columns], rows, "Two runs"));
}
