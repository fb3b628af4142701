// The setting that meets a target; and two runs side by side.

import { Charts } from "../charts.js";
import { button, element, section, table } from "../elements.js";
import { clearErrors, complain, controls } from "../form.js";
import { latest } from "../server.js";
import { all, get, set } from "../state.js";
import { basis, replace, runOf } from "../shared.js";

const planning = latest();
const comparing = latest();
const form = element("form", { novalidate: true, onsubmit: (event) => { event.preventDefault(); plan(); } });
const answer = element("div", { "aria-live": "polite" });
const sides = element("div");
const charts = new Charts("epsilon", "tradeoff");

export const view = {
  name: "plan",
  title: "Plan",
  element: element("section", { "aria-labelledby": "plan-title" },
    element("h2", { id: "plan-title" }, "Meet a target"),
    element("p", {}, "What has to change for the run to meet a target of yours? Everything else stays as the controls have it."),
    form, answer,
    section("Two runs side by side", true,
      element("p", { class: "actions" },
        button("Keep the controls as run A", () => keep("a")), button("Keep the controls as run B", () => keep("b")),
        button("Forget both", () => set({ a: "", b: "" }))),
      sides, charts.element)),
  prepare({ controls: { besides } }) {
    form.append(...controls(besides.filter((control) => control.group === "Target")),
      element("p", { class: "actions" }, element("button", { type: "submit", class: "main" }, "Find it")));
  },
  update(names = null) {
    if (names === null || names.some((name) => !["view", "a", "b"].includes(name))) answer.replaceChildren();
    if (names === null || names.some((name) => ["view", "a", "b"].includes(name))) compare();
  },
  shown: () => charts.redraw(),
};

function plan() {
  clearErrors();
  answer.replaceChildren(element("p", { class: "status", role: "status" }, "searching"));
  planning("plan", { state: all() }, {
    plan(data) {
      answer.replaceChildren(element("div", { class: "hero" },
        element("p", { class: "epsilon" }, `${data.label}: `, element("output", { class: "number", id: "planned" }, data.value)),
        data.parameter === "noise" ? element("p", {}, `That is: ${data.noise}.`) : null,
        element("p", {}, `Then ${data.bounded} is at most ${data.reached}; the target is ${data.target}. Method: ${data.method}.`),
        data.bounded === "ε" ? null : element("p", {}, `ε is at most ${data.epsilon} at δ = ${data.delta}.`),
        basis(data.rows),
        button("Put it into the run", () => { replace(data.state); set({ view: "run" }); }, { class: "main" })));
    },
    error(problem) {
      complain(problem);
      answer.replaceChildren(element("p", { class: "alarm", role: "alert" }, problem.message));
    },
  });
}

function keep(side) {
  set({ [side]: new URLSearchParams(runOf()).toString() });
}

function compare() {
  const [a, b] = ["a", "b"].map((side) => Object.fromEntries(new URLSearchParams(get(side))));
  if (!get("a") || !get("b")) {
    charts.begin();
    charts.end();
    sides.replaceChildren(element("p", { class: "hint" },
      get("a") || get("b") ? "One run is kept. Change the controls, and keep the other one." : "Keep two runs to see them side by side."));
    return;
  }
  const columns = {};
  charts.begin();
  comparing("compare", { a, b }, {
    side: (data) => { columns[data.side] = data; show(columns); },
    curve: (data) => charts.add(data),
    error: (problem) => sides.replaceChildren(element("p", { class: "alarm", role: "alert" }, problem.message)),
  }).then(() => charts.end());
}

function show({ a, b }) {
  const cell = (side, read) => (side ? read(side) : "…");
  const names = Object.keys(a?.readings ?? {});
  const rows = [
    ["ε at most", (side) => side.number.epsilon], ["at δ", (side) => side.number.delta], ["μ", (side) => side.number.mu ?? "none"],
    ["method", (side) => side.number.method], ["adjacency", (side) => side.number.adjacency], ["steps", (side) => side.number.steps ?? "–"],
    ...names.map((name) => [name, (side) => side.readings[name]]),
    ["what differs", (side) => side.differs],
  ].map(([name, read]) => [name, cell(a, read), cell(b, read)]);
  sides.replaceChildren(table(["", "run A", "run B"], rows, "Two runs"));
}
