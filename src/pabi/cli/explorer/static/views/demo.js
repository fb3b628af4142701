// A training on public data, with a bar that shows steps and time and nothing of the model.

import { button, element, section, table } from "../elements.js";
import { clearErrors, complain, controls } from "../form.js";
import { latest } from "../server.js";
import { all, set } from "../state.js";
import { gains, hero, replace } from "../shared.js";

const question = latest();
const bar = element("progress", { max: 1, value: 0, "aria-label": "steps of the training", hidden: true });
const status = element("p", { class: "status", role: "status" });
const answer = element("div", { "aria-live": "polite" });
const assumptions = element("div");
const rest = section("What it rests on", false, assumptions);
rest.hidden = true;
const form = element("form", { novalidate: true, onsubmit: (event) => { event.preventDefault(); train(); } });

export const view = {
  name: "demo",
  title: "Demo",
  element: element("section", { "aria-labelledby": "demo-title" },
    element("h2", { id: "demo-title" }, "Train on public data"),
    element("p", {}, "A logistic regression is planned for the ε and δ below, and trained on this machine. The bar shows steps and time only: what the model looks like on the way has to stay hidden."),
    form, bar, status, answer, rest),
  prepare({ controls: { besides } }) {
    form.append(...controls(besides.filter((control) => control.group === "Demo")),
      element("p", { class: "actions" }, element("button", { type: "submit", class: "main" }, "Train")));
  },
  update() {},
};

function train() {
  clearErrors();
  bar.hidden = false;
  bar.removeAttribute("value");
  answer.replaceChildren();
  rest.hidden = true;
  question("demo", { state: all() }, {
    progress({ over, steps, text }) {
      if (steps) { bar.max = steps; bar.value = over; }
      status.textContent = text;
    },
    trained(data) {
      bar.hidden = true;
      status.textContent = "trained";
      answer.replaceChildren(hero(data.gain,
        element("p", { class: "epsilon" }, "right in ", element("output", { class: "number", id: "accuracy" }, data.accuracy), ` of ${data.tested} records that it never saw`),
        element("p", {}, `ε is at most ${data.epsilon} at δ = ${data.delta}, for each of ${data.records} records. The same model without any privacy: ${data.without}.`),
        element("p", {}, gains(data.gain, true)),
        element("p", { class: "hint" }, `${data.epochs} epochs, ${data.method}. The records it was tested on are not protected.`),
        data.before ? element("p", { class: "hint" }, "A first release of noisy second moments shares the ε. The run that the button shows is the training alone, which costs less.") : null,
        button("Show this run", () => { replace(data.state); set({ view: "run" }); }, { class: "main" })));
    },
    assumptions({ rows }) {
      rest.hidden = false;
      assumptions.replaceChildren(table(["assumption", "who attests it"], rows.map((row) => [row.text, row.who])));
    },
    error(problem) {
      bar.hidden = true;
      status.textContent = "";
      complain(problem);
      answer.replaceChildren(element("p", { class: "alarm", role: "alert" }, problem.message));
    },
  });
}
