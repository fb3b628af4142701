// What a run costs: ε at once, then everything else as it is known.

import { Charts } from "../charts.js";
import { button, download, dropzone, element, section, table } from "../elements.js";
import { clearErrors, complain, leaveAlone } from "../form.js";
import { ask, latest } from "../server.js";
import { all, get, link, set } from "../state.js";
import { replace } from "../shared.js";

const question = latest();
const number = element("output", { class: "number", id: "epsilon" }, "…");
const beside = element("p", { class: "beside", id: "beside" });
const facts = element("dl", { class: "facts" });
const status = element("p", { class: "status", role: "status", "aria-live": "polite" });
const trouble = element("p", { class: "alarm", role: "alert", hidden: true });
const warnings = element("ul", { class: "warnings" });
const charts = new Charts("epsilon", "tradeoff", "epochs");
const changes = element("div", { class: "changes" });
const attacks = element("ul");
const analyses = element("div");
const peers = element("div");
const assumptions = element("div");

export const view = {
  name: "run",
  title: "Run",
  element: element("section", { "aria-labelledby": "run-title" },
    element("h2", { id: "run-title" }, "What the run costs"),
    element("div", { class: "hero" },
      element("p", { class: "epsilon" }, "ε at most ", number), beside, trouble, warnings, facts, status),
    section("What would lower it most", true, changes),
    charts.element,
    section("What an attacker gains", true, attacks),
    section("What the proofs say", false, analyses),
    section("Published bounds", false, peers),
    section("What it rests on", false, assumptions),
    element("div", { class: "actions files" },
      button("Run file (TOML)", () => save("export", "run.toml")),
      button("Guarantee (JSON)", () => save("export", "guarantee.json")),
      button("Report", () => save("report", "report.html")),
      button("Copy link", copy),
      dropzone("Open a run file", ".toml", open))),
  update,
  shown: () => charts.redraw(),
};

function update() {
  charts.begin();
  status.textContent = "calculating";
  question("run", { state: all() }, {
    number(data) {
      clearErrors();
      trouble.hidden = true;
      leaveAlone(data.rest);
      warnings.replaceChildren();
      number.textContent = data.epsilon;
      beside.textContent = `at δ = ${data.delta}` + (data.final ? "" : ", so far: better proofs are tried");
      const pairs = [
        ["μ", data.mu ?? "none: the curve is not Gaussian"], ["method", data.method], ["source", data.source],
        ["adjacency", data.adjacency], ["protects", `one ${data.unit}`],
        ["steps", data.steps], ["for comparison", data.composition]];
      facts.replaceChildren(...pairs.filter(([, text]) => text).flatMap(([name, text]) =>
        [element("dt", {}, name), element("dd", {}, text)]));
      if (data.final) status.textContent = `ε is at most ${data.epsilon} at δ = ${data.delta}`;
    },
    curve: (data) => charts.add(data),
    attacks: ({ texts }) => attacks.replaceChildren(...texts.map((text) => element("li", {}, text))),
    assumptions: ({ rows }) => assumptions.replaceChildren(
      table(["assumption", "who attests it"], rows.map((row) => [row.text, row.who]))),
    analyses: ({ rows }) => analyses.replaceChildren(
      table(["proof", "ε", ""], rows.map((row) => [row.method, row.epsilon, row.best ? "the guarantee" : row.reason ?? ""]))),
    peers: ({ rows }) => peers.replaceChildren(
      table(["bound", "status", "ε", "note"], rows.map((row) => [row.source, row.status, row.epsilon, row.note]))),
    changes: showChanges,
    warning: ({ messages }) => warnings.replaceChildren(...messages.map((text) => element("li", {}, text))),
    error(problem) {
      number.textContent = "–";
      beside.textContent = "";
      facts.replaceChildren();
      status.textContent = "";
      for (const part of [changes, attacks, analyses, peers, assumptions]) part.replaceChildren();
      const placed = complain(problem);
      trouble.textContent = problem.message;
      trouble.hidden = false;
      trouble.classList.toggle("placed", placed);
    },
  }).then(() => charts.end());
}

function showChanges({ rows, advice }) {
  const items = rows.map((row) =>
    element("li", {}, button(`ε at most ${row.epsilon} with ${row.what}`, () => replace(row.state)),
      element("span", { class: "hint" }, ` ${row.training}`)));
  const sentences = advice.map((text) => element("li", {}, text));
  const none = element("li", {}, "No small change lowers it by a twentieth. More noise or fewer records a step always do.");
  changes.replaceChildren(element("ul", {}, items.length + sentences.length ? [...items, ...sentences] : none));
}

function save(job, name) {
  ask(job, { state: all() }, {
    file: (file) => { if (file.name === name) download(name, file.text, name.endsWith("html") ? "text/html" : "text/plain"); },
    error: (problem) => { trouble.textContent = problem.message; trouble.hidden = false; },
  });
}

async function copy() {
  try {
    await navigator.clipboard.writeText(link());
    status.textContent = "The link is copied.";
  } catch {
    status.textContent = link();
  }
}

function open(text) {
  ask("import", { text }, {
    state: ({ state }) => replace({ ...state, delta: get("delta") }),
    error: (problem) => { trouble.textContent = problem.message; trouble.hidden = false; },
  });
}
