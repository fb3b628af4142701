// Figures that answer. A slider and the pointer choose a place, and the list names every curve's value there.
// The slider's spoken text is the whole list, so that nothing depends on seeing the curves.
"use strict";

function elementOf(tag, parts = {}, ...children) {
  const element = Object.assign(document.createElement(tag), parts);
  element.append(...children);
  return element;
}

function swatch(curve) {
  const line = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  line.setAttribute("viewBox", "0 0 34 8");
  line.setAttribute("aria-hidden", "true");
  const stroke = document.createElementNS("http://www.w3.org/2000/svg", "path");
  stroke.setAttribute("d", "M0 4H34");
  stroke.setAttribute("stroke", `var(--curve-${curve.look})`);
  stroke.setAttribute("stroke-width", "3");
  stroke.setAttribute("stroke-dasharray", curve.dashes || "none");
  line.append(stroke);
  return line;
}

function nearest(pixels, across) {
  const distances = pixels.map((pixel) => Math.abs(pixel - across));
  return distances.indexOf(Math.min(...distances));
}

async function show(figure, number) {
  const told = JSON.parse(figure.querySelector("script").textContent);
  const live = figure.querySelector(".interactive-live");
  const chart = live.querySelector(".interactive-chart");
  const place = elementOf("output", { className: "interactive-place" });
  const slider = elementOf("input", {
    type: "range", min: 0, max: told.places.length - 1, value: told.start, id: `interactive-${number}`,
  });
  const label = elementOf("label", { htmlFor: slider.id }, `${told.control}: `, place);
  const cells = told.curves.map((curve) => elementOf("b"));
  const list = elementOf("ul", {}, ...told.curves.map(
    (curve, k) => elementOf("li", {}, swatch(curve), `${curve.name}: `, cells[k])));
  live.append(label, slider, elementOf("p", {}, told.reading), list);
  figure.querySelector(".interactive-still").hidden = true;
  live.hidden = false;

  const parsed = vega.parse(vegaLite.compile(told.specification).spec);
  const view = new vega.View(parsed, { renderer: "svg", container: chart });
  await view.runAsync();
  chart.querySelector("svg").setAttribute("aria-hidden", "true");  // the chart has the figure's text

  const choose = (k) => {
    slider.value = k;
    place.textContent = told.texts[k];
    told.curves.forEach((curve, i) => { cells[i].textContent = curve.texts[k]; });
    const values = told.curves.map((curve) => `${curve.name} ${curve.texts[k]}`).join(", ");
    slider.setAttribute("aria-valuetext", `${told.texts[k]}: ${values}`);
    view.signal("place", told.places[k]).runAsync();
  };
  choose(told.start);
  slider.addEventListener("input", () => choose(Number(slider.value)));
  chart.addEventListener("pointermove", (event) => {
    const picture = chart.querySelector("svg").getBoundingClientRect();
    const across = event.clientX - picture.left - view.origin()[0];
    if (across >= 0 && across <= view.signal("width")) {
      choose(nearest(told.places.map(view.scale("x")), across));
    }
  });
}

document.querySelectorAll(".interactive").forEach((figure, number) => {
  show(figure, number).catch(() => {
    // Without Vega the pictures stay.
    figure.querySelector(".interactive-still").hidden = false;
    figure.querySelector(".interactive-live").hidden = true;
  });
});
