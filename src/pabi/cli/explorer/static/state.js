// Everything that is set on the page, as texts by their names; the address of the page has what differs from
// the defaults, so that reloading and sharing it work.

const listeners = new Set();
const values = new Map();
const defaults = new Map();
export const LONGEST = 6000; // characters of an address
const PAUSE = 120; // ms: browsers refuse addresses that change a hundred times a second

/** Sets the defaults, and reads the address on top of `start`. */
export function begin(controls, start) {
  for (const { name, default: text } of controls) defaults.set(name, text);
  for (const [name, text] of Object.entries(start)) values.set(name, text);
  defaults.set("view", "run");
  read();
}

function read() {
  for (const [name, text] of new URLSearchParams(location.search)) values.set(name, text);
}

export const get = (name) => values.get(name) ?? defaults.get(name) ?? "";

/** All controls' texts, for the server. */
export function all() {
  return Object.fromEntries([...new Set([...defaults.keys(), ...values.keys()])].map((name) => [name, get(name)]));
}

/** Changes some values, writes the address, and tells everybody who listens. */
export function set(changes, origin = null) {
  const turned = changes.view !== undefined && changes.view !== get("view");
  if (turned) write(0); // what the view before it had is what Back returns to
  for (const [name, text] of Object.entries(changes)) values.set(name, text);
  if (turned) history.pushState(null, "", location.pathname + location.search);
  write(turned ? 0 : PAUSE);
  for (const listener of listeners) listener(Object.keys(changes), origin);
}

/** Puts a run in place of another: every control that `run` does not name takes its default. */
export function replaceRun(names, run, origin = null) {
  const plain = Object.fromEntries(names.map((name) => [name, defaults.get(name) ?? ""]));
  set({ ...plain, ...run }, origin);
}

export function listen(listener) {
  listeners.add(listener);
}

function query() {
  const kept = new URLSearchParams();
  for (const [name, text] of values) if (text !== (defaults.get(name) ?? "")) kept.set(name, text);
  return kept.toString();
}

function link() {
  const text = query();
  return location.origin + location.pathname + (text ? `?${text}` : "");
}

let timer = null;

/** Writes the address after so many milliseconds, at once after none. */
function write(pause) {
  clearTimeout(timer);
  if (pause) {
    timer = setTimeout(write, pause, 0);
    return;
  }
  const address = link();
  if (address.length <= LONGEST) history.replaceState(null, "", address);
}

addEventListener("popstate", () => {
  const names = [...new Set([...defaults.keys(), ...values.keys()])];
  values.clear();
  read();
  for (const listener of listeners) listener(names, null);
});
