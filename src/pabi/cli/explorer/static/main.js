// The page: tabs, controls, and the view that is open.

import { button, element } from "./elements.js";
import { controls, refresh } from "./form.js";
import { replace, setRunNames } from "./shared.js";
import { ask, opening } from "./server.js";
import { share } from "./share.js";
import { begin, get, listen, set } from "./state.js";
import { view as budget } from "./views/budget.js";
import { view as check } from "./views/check.js";
import { view as demo } from "./views/demo.js";
import { view as forget } from "./views/forget.js";
import { view as plan } from "./views/plan.js";
import { view as run } from "./views/run.js";

const VIEWS = [run, plan, check, budget, forget, demo];
const main = document.querySelector("#main");
const form = document.querySelector("#controls");
const more = document.querySelector("#more");
const tabs = document.querySelector("#tabs");
const trouble = document.querySelector("#trouble");

function tab(view) {
  return element("li", {}, element("a", {
    href: `?view=${view.name}`,
    "data-view": view.name,
    onclick: (event) => {
      event.preventDefault();
      set({ view: view.name });
      scrollTo(0, 0);
      main.focus({ preventScroll: true });
    },
  }, view.title));
}

function current() {
  return VIEWS.find((view) => view.name === get("view")) ?? run;
}

function show() {
  const now = current();
  for (const link of tabs.querySelectorAll("a")) {
    if (link.dataset.view === now.name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${now.title} – pabi explore`;
  if (main.firstElementChild !== now.element) main.replaceChildren(now.element);
  document.body.dataset.view = now.name;
  share.open = false;
  now.shown?.();
}

async function start() {
  let given;
  try {
    given = await opening();
  } catch (problem) {
    trouble.textContent = problem.message;
    trouble.hidden = false;
    return;
  }
  const all = [...given.controls.run, ...given.controls.besides];
  setRunNames(given.controls.run.map((control) => control.name));
  begin(all, {});
  await openStart(given.start);
  form.append(element("p", { class: "actions begin" }, "Begin with",
    ...Object.entries(given.beginnings).map(([name, run]) => button(name, () => replace(run)))), ...controls(given.controls.run));
  for (const group of form.children) sizes.observe(group);
  for (const view of VIEWS) view.prepare?.(given);
  tabs.append(...VIEWS.map(tab));
  document.querySelector("header").append(share);
  refresh();
  show();
  current().update();
  listen((names) => {
    if (names.includes("view")) show();
    current().update(names);
  });
}

/** Fills the controls with the run file that the command was given. */
async function openStart({ text }) {
  if (!text || location.search.length > 1) return;
  await ask("import", { text }, {
    state: ({ state }) => set(state),
    error: (problem) => { trouble.textContent = problem.message; trouble.hidden = false; },
  });
}

form.addEventListener("submit", (event) => event.preventDefault());
/** Whether some of the controls are below the edge, where no scroll bar may show it. */
function tellMore() {
  more.hidden = form.scrollHeight - form.scrollTop - form.clientHeight < 8;
}

form.addEventListener("scroll", tellMore);
const sizes = new ResizeObserver(tellMore);
sizes.observe(form);

// Esc folds what lies over the page, and returns to where it was opened.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !share.open) return;
  share.open = false;
  share.querySelector("summary").focus();
});

if (matchMedia("(max-width: 760px)").matches) document.querySelector("#drawer").open = false;
start();
