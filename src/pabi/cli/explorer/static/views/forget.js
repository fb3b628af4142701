// What forgetting takes: epochs after a request against ε.

import { Chart } from "../charts.js";
import { element } from "../elements.js";
import { clearErrors, complain, controls } from "../form.js";
import { latest } from "../server.js";
import { age, hero } from "../shared.js";
import { all } from "../state.js";

const question = latest();
const chart = new Chart("forget");
const answer = element("div", { "aria-live": "polite" });
const status = element("p", { class: "status", role: "status" });
const form = element("form", { novalidate: true, onsubmit: (event) => event.preventDefault() });

export const view = {
  name: "forget",
  title: "Forget",
  element: element("section", { "aria-labelledby": "forget-title" },
    element("h2", { id: "forget-title" }, "What does forgetting people take?"),
    element("p", {}, "Some people withdraw. Training goes on without their records until nobody can tell the model from one that was retrained without them, up to an ε. A model that is out already does not change: what it reveals of them stays its own ε."),
    form, status, answer, chart.element),
  prepare({ controls: { besides } }) {
    form.append(...controls(besides.filter((control) => control.group === "Request")));
  },
  update,
  shown: () => chart.later(),
};

function update() {
  chart.age();
  age([answer]);
  status.textContent = "calculating";
  question("forget", { state: all() }, {
    forget(data) {
      clearErrors();
      age([answer], false);
      status.textContent = "";
      const people = data.records === "1" ? "1 record" : `${data.records} records`;
      chart.rule = data.limit;
      answer.replaceChildren(element("div", {}, hero(null,
        element("p", { class: "epsilon" }, data.epochs === null ? "Not proven: " : [element("output", { class: "number", id: "forgetting" }, data.epochs), data.epochs === "1" ? " epoch " : " epochs "],
          data.epochs === null ? data.text : `to forget ${people} at ε = ${data.target}, δ = ${data.delta}`),
        data.epochs === null ? null : element("p", {}, `That is ${data.steps} steps; ${data.text}.`)),
        data.dear ? element("p", { class: "alarm", role: "alert" }, "Those who stay lose by going on: retrain without the records instead.") : null,
        data.staying.length ? element("h3", {}, "What it costs those who stay") : null,
        data.staying.length ? element("ul", { id: "staying" }, data.staying.map((line) => element("li", {}, line))) : null));
    },
    curve: ({ series, points }) => chart.series(series, points),
    error(problem) {
      complain(problem);
      chart.clear();
      age([answer], false);
      status.textContent = "";
      answer.replaceChildren(element("p", { class: "alarm", role: "alert" }, problem.message));
    },
  });
}
