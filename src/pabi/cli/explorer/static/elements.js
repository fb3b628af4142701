// Elements of the page, made of text: nothing that a file or the address says is ever read as HTML.

/** An element with attributes, listeners ("onclick") and children (elements or texts; null is left out). */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

/** A table with a header row; cells are texts or elements, or several of them. */
export function table(header, rows, caption = null) {
  const head = element("tr", {}, header.map((text) => element("th", { scope: "col" }, text)));
  const body = rows.map((row) =>
    element("tr", {}, row.map((cell, k) => element(k ? "td" : "th", k ? {} : { scope: "row" }, ...[cell ?? "–"].flat()))));
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption ?? header.join(", ") },
    element("table", {}, caption ? element("caption", {}, caption) : null,
      element("thead", {}, head), element("tbody", {}, body)));
}

/** A section under a heading, folded where `open` is false. */
export function section(title, open, ...children) {
  return element("details", { class: "section", open }, element("summary", {}, element("h3", {}, title)), ...children);
}

export function button(text, onclick, attributes = {}) {
  return element("button", { type: "button", onclick, ...attributes }, text);
}

/** Hands a text or Blob to the browser as a file. */
export function download(name, content, type = "text/plain") {
  const blob = content instanceof Blob ? content : new Blob([content], { type });
  const address = URL.createObjectURL(blob);
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** A place where a file can be dropped or chosen; `taken(text, name)` gets it. */
export function dropzone(label, accept, taken) {
  const input = element("input", { type: "file", accept, onchange: () => read(input.files[0]) });
  const zone = element("label", { class: "drop" }, element("span", {}, label), input);
  const read = async (file) => {
    if (file) taken(await file.text(), file.name);
    input.value = "";
  };
  zone.addEventListener("dragover", (event) => { event.preventDefault(); zone.classList.add("over"); });
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    read(event.dataTransfer.files[0]);
  });
  return zone;
}
