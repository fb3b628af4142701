// What somebody else needs to see the same: everything that is set, as a command for their own machine. The
// address of this page would be of no use there.

import { button, element } from "./elements.js";
import { meant } from "./form.js";
import { LONGEST, get } from "./state.js";

const command = element("output", { id: "command" });
const status = element("p", { class: "hint", role: "status" });

export const share = element("details", { id: "share", ontoggle: show },
  element("summary", {}, "Share"),
  element("p", {}, "On a machine that has pabi, this command opens what you see and calculates it there:"), command,
  element("p", { class: "actions" }, button("Copy the command", copy)), status,
  element("p", { class: "hint" }, "Files that you dropped are not in it: send them as well."));

/** All that means something in this view, whether or not it is what the page begins with. */
function query() {
  const compared = get("view") === "plan" ? ["a", "b"].filter((name) => get(name)) : [];
  return new URLSearchParams(["view", ...meant(), ...compared].map((name) => [name, get(name)])).toString();
}

function show() {
  const text = query();
  status.textContent = "";
  command.textContent = text.length > LONGEST ? "This is too long for a command: save the run file, and send that."
    : `pabi explore --open "${text}"`;
}

async function copy() {
  show();
  try {
    await navigator.clipboard.writeText(command.textContent);
    status.textContent = "The command is copied.";
  } catch {
    getSelection().selectAllChildren(command);
    status.textContent = "The command is selected.";
  }
}
