// What a run costs: ε at once, then everything else as it is known.

import { Charts } from "../charts.js";
import { button, download, dropzone, element, section, table } from "../elements.js";
import { clearErrors, complain, leaveAlone } from "../form.js";
import { ask, latest } from "../server.js";
import { all, get } from "../state.js";
import { age, basis, gains, hero, renew, replace } from "../shared.js";

const question = latest();
const comparing = latest();
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
const saved = element("p", { class: "hint", role: "status" });
const gained = element("p");
const top = hero(null, element("p", { class: "epsilon" }, "ε at most ", number), beside, gained, trouble, warnings, facts, basis([]), status);
const schemes = element("div", { id: "schemes" });
const batches = section("The same noise with other batches", false,
  element("p", { class: "hint" }, "The run as it is, and with its batches drawn in every other way. Your loader has to draw them so; the names are those of the library. “So far” is a guarantee already, and a better proof is being tried."), schemes);
batches.addEventListener("toggle", compareBatches);
const parts = [changes, schemes, attacks, analyses, peers, assumptions];
let loss = null; // of the run before
let waiting = false; // whether other batches were not asked about yet

export const view = {
  name: "run",
  title: "Run",
  element: element("section", { "aria-labelledby": "run-title" },
    element("h2", { id: "run-title" }, "What the run costs"),
    top, batches,
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
      dropzone("Open a run file", ".toml", open)), saved),
  update,
  shown: () => charts.redraw(),
};

function update() {
  charts.begin();
  comparing.drop();
  waiting = false;
  if (loss !== get("loss")) batches.open = get("loss") === "unknown"; // then it is what matters most
  loss = get("loss");
  age([...parts, number, gained, facts]);
  status.textContent = "calculating";
  saved.textContent = "";
  question("run", { state: all() }, {
    number(data) {
      clearErrors();
      trouble.hidden = true;
      leaveAlone(data.rest);
      warn(data);
      renew(number, data.epsilon);
      const share = data.of_one ? ` (${data.of_one} times one over the number of records)` : "";
      beside.textContent = `at δ = ${data.delta}${share}${data.final ? "" : ", so far: better proofs are tried"}`;
      const pairs = [
        ["μ", data.mu ?? "none: the curve is not Gaussian"], ["method", data.method], ["source", data.source],
        ["adjacency", data.adjacency], ["protects", `one ${data.unit}`],
        ["steps", data.steps], ["for comparison", data.composition]];
      renew(facts, ...pairs.filter(([, text]) => text).flatMap(([name, text]) =>
        [element("dt", {}, name), element("dd", {}, text)]));
      const about = basis(data.rows);
      facts.nextElementSibling.replaceWith(about);
      charts.describe(`ε at most ${data.epsilon} at δ = ${data.delta}. ${about.textContent}`);
      if (!data.final) return;
      status.textContent = `ε is at most ${data.epsilon} at δ = ${data.delta}`;
      waiting = true;
      compareBatches();
    },
    gain(data) {
      renew(gained, gains(data, true));
      top.dataset.gain = data.level;
    },
    curve: (data) => charts.add(data),
    attacks: ({ texts }) => renew(attacks, ...texts.map((text) => element("li", {}, text))),
    assumptions: ({ rows }) => renew(assumptions,
      table(["assumption", "who attests it"], rows.map((row) => [row.text, row.who]))),
    analyses: ({ rows }) => renew(analyses,
      table(["proof", "ε", ""], rows.map((row) => [row.method, row.epsilon, row.best ? "the guarantee" : row.reason ?? ""]))),
    peers: ({ rows }) => renew(peers,
      table(["bound", "status", "ε", "note"], rows.map((row) => [row.source, row.status, row.epsilon, row.note]))),
    changes: showChanges,
    warning: ({ messages }) => warnings.append(...messages.map((text) => element("li", {}, text))),
    error(problem) {
      renew(number, "–");
      beside.textContent = "";
      facts.nextElementSibling.replaceWith(basis([]));
      warnings.replaceChildren();
      status.textContent = "";
      for (const part of [gained, facts, ...parts]) renew(part);
      delete top.dataset.gain;
      const placed = complain(problem);
      trouble.textContent = problem.message;
      trouble.hidden = false;
      trouble.classList.toggle("placed", placed);
    },
  }).then(() => charts.end());
}

/** Says where δ allows that whole records are given away. */
function warn({ large, delta }) {
  const text = `δ = ${delta} is above one over the number of records: a release that gives somebody's record away would meet it.`;
  warnings.replaceChildren(...(large ? [element("li", {}, text)] : []));
}

/** Asks about other batches, once the run itself is answered and where somebody looks. */
function compareBatches() {
  if (!waiting || !batches.open) return;
  waiting = false;
  const rows = [];
  comparing("schemes", { state: all() }, {
    scheme(row) { rows[row.place] = row; renew(schemes, schemeTable(rows.filter(Boolean))); },
    none: ({ text }) => renew(schemes, element("p", {}, text)),
    error: (problem) => renew(schemes, element("p", { class: "alarm" }, problem.message)),
  });
}

function schemeTable(rows) {
  return table(["batches", "ε at most", "an attacker gains", "take"], rows.map((row) => [
    [row.batches, element("span", { class: "hint" }, ` ${row.call}`)],
    row.epsilon === null ? row.reason ?? "…" : row.final ? row.epsilon : `${row.epsilon} so far`,
    row.final ? gains(row.gain) : "…",
    row.own ? "this run" : row.state ? button("Take", () => replace(row.state), { "aria-label": `Take these batches: ${row.batches}` }) : "",
  ]));
}

function showChanges({ rows, advice, tried }) {
  const items = rows.map((row) =>
    element("li", {}, button(`ε at most ${row.epsilon} with ${row.what}`, () => replace(row.state)),
      element("span", { class: "hint" }, ` ${row.training}`)));
  const sentences = advice.map((text) => element("li", {}, text));
  const none = element("li", {}, "None of the small changes that are tried here lowers it by 5 %. More noise does.");
  const untried = element("li", {}, "Accounting takes so long that no change was tried. ",
    button("Try some", () => { changes.textContent = "trying"; question("run", { state: all(), patient: true }, { changes: showChanges }); }));
  const last = tried ? (items.length + sentences.length ? [] : [none]) : [untried];
  renew(changes, element("ul", {}, ...items, ...sentences, ...last));
}

function save(job, name) {
  saved.textContent = `writing ${name}`;
  ask(job, { state: all() }, {
    file(file) {
      if (file.name !== name) return;
      download(name, file.text, name.endsWith("html") ? "text/html" : "text/plain");
      saved.textContent = `${name} is saved.`;
    },
    error: refuse,
  });
}

function refuse(problem) {
  saved.textContent = `Nothing was saved: ${problem.message}`;
  trouble.textContent = problem.message;
  trouble.hidden = false;
}

function open(text) {
  ask("import", { text }, {
    state({ state }) {
      replace({ ...state, delta: get("delta") });
      saved.textContent = `The run file is open. It has no δ: ε is read at δ = ${get("delta")}.`;
    },
    error: (problem) => { trouble.textContent = problem.message; trouble.hidden = false; },
  });
}
