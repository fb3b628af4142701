// Charts, drawn by Vega-Lite, each with its data as a table and as files.

import { button, download, element, table } from "./elements.js";

const KINDS = {
  epsilon: { title: "ε at every δ", x: "δ", y: "ε at most", logX: true, format: "~e" },
  tradeoff: { title: "What an attacker must accept", x: "share of false alarms", y: "members missed, at least" },
  epochs: { title: "ε after so many epochs", x: "epochs", y: "ε at most", logX: true },
  ledger: { title: "What was spent", x: "release", y: "ε of all so far", steps: true },
  forget: { title: "ε of forgetting", x: "epochs after the request", y: "ε at most", logY: true },
};
const PAUSE = 120; // ms between two drawings of one chart
const charts = new Set();

/** A chart of one kind. `series(name, points)` adds or replaces a curve, `clear()` takes all off. */
export class Chart {
  constructor(kind, { rule = null } = {}) {
    this.kind = { ...KINDS[kind] };
    this.name = kind;
    this.rule = rule;
    this.curves = new Map();
    this.plot = element("div", { class: "plot" });
    this.rows = element("div");
    this.element = element("figure", { class: "chart", "data-chart": kind, hidden: true },
      element("figcaption", {}, this.kind.title), this.plot,
      element("details", { ontoggle: () => this.tabulate() }, element("summary", {}, "The numbers as a table"), this.rows),
      element("p", { class: "actions" },
        button("SVG", () => this.save("svg"), { "aria-label": `${this.kind.title}: save as SVG` }),
        button("PNG", () => this.save("png"), { "aria-label": `${this.kind.title}: save as PNG` })));
    charts.add(this);
  }

  series(name, points) {
    this.curves.set(name, points);
    this.stale = false;
    this.element.hidden = false;
    this.element.classList.remove("stale");
    this.later();
  }

  /** What is drawn belongs to an earlier question until the next points arrive. */
  age() {
    this.element.classList.add("stale");
    this.stale = true;
    this.old = new Set(this.curves.keys());
  }

  /** Takes off what no answer has renewed. */
  settle(names) {
    for (const name of [...this.curves.keys()]) if (!names.has(name)) this.curves.delete(name);
    this.element.hidden = this.curves.size === 0;
    if (this.curves.size) this.later();
  }

  clear() {
    this.curves.clear();
    this.element.hidden = true;
  }

  later() {
    this.timer ??= setTimeout(() => {
      this.timer = null;
      this.draw();
    }, PAUSE);
  }

  draw() {
    if (!this.plot.isConnected || this.element.hidden || this.plot.clientWidth === 0) return;
    const view = new vega.View(vega.parse(vegaLite.compile(this.spec(this.plot.clientWidth)).spec, null, { ast: true }),
      { renderer: "svg", expr: vega.expressionInterpreter, logLevel: vega.Error });
    this.view?.finalize();
    this.view = view;
    view.initialize(this.plot).runAsync();
    this.plot.setAttribute("role", "img");
    this.plot.setAttribute("aria-label", this.words());
    if (this.element.querySelector("details").open) this.tabulate();
  }

  /** The chart in a sentence. */
  words() {
    const each = [...this.curves].map(([name, points]) => {
      const first = points[0], last = points[points.length - 1];
      return `${name}: from ${first.yText} at ${first.xText} to ${last.yText} at ${last.xText}`;
    });
    return `${this.kind.title}. ${this.kind.y} against ${this.kind.x}. ${each.join("; ")}.`;
  }

  spec(width, colours = palette()) {
    const { x, y, logX, logY, steps, format = "~g" } = this.kind;
    const names = [...this.curves.keys()];
    const values = names.flatMap((series) =>
      this.curves.get(series).filter((p) => p.y !== null && (!logX || p.x > 0) && (!logY || p.y > 0)).map((p) => ({ ...p, series })));
    const axis = { grid: true, labelColor: colours.ink, titleColor: colours.ink, gridColor: colours.line, domainColor: colours.neutral, tickColor: colours.neutral };
    const place = {
      x: { field: "x", type: "quantitative", title: x, scale: logX ? { type: "log", nice: false } : { nice: false }, axis: { ...axis, tickCount: width < 420 ? 5 : 8, ...(logX ? { format } : {}), ...(steps ? { tickMinStep: 1, format: "d" } : {}) } },
      y: { field: "y", type: "quantitative", title: y, scale: logY ? { type: "log" } : { zero: true }, axis: { ...axis, ...(logY ? { format: "~g" } : {}) } },
      color: { field: "series", type: "nominal", sort: names, scale: { domain: names, range: colours.cycle }, legend: names.length > 1 ? { title: null, orient: "bottom", direction: width < 420 ? "vertical" : "horizontal", labelColor: colours.ink, labelLimit: 400, symbolType: "stroke" } : null },
      strokeDash: { field: "series", type: "nominal", sort: names, scale: { domain: names, range: [[1, 0], [6, 4], [2, 3]] }, legend: null },
    };
    const tooltip = [{ field: "xText", title: x }, { field: "yText", title: y }];
    const layer = [
      { mark: { type: "line", strokeWidth: 2.5, interpolate: steps ? "step-after" : "linear" }, encoding: place },
      { mark: { type: "point", filled: true, size: steps || values.length < 40 ? 40 : 60, opacity: steps || values.length < 40 ? 1 : 0 }, encoding: { x: place.x, y: place.y, color: place.color, tooltip } },
    ];
    if (this.rule !== null) layer.push({ data: { values: [{ y: this.rule }] }, mark: { type: "rule", strokeDash: [4, 3], color: colours.ink }, encoding: { y: { field: "y", type: "quantitative" } } });
    return {
      data: { values }, width, height: Math.min(320, Math.max(220, width * 0.62)), background: colours.paper,
      autosize: { type: "fit", contains: "padding" }, padding: 4, layer,
      config: { font: "system-ui, sans-serif", view: { stroke: null }, axis: { labelFontSize: 12, titleFontSize: 13, titleFontWeight: "normal" }, legend: { labelFontSize: 12.5, symbolStrokeWidth: 2.5, symbolSize: 200 } },
    };
  }

  tabulate() {
    if (!this.element.querySelector("details").open) return;
    this.rows.replaceChildren(...[...this.curves].map(([name, points]) =>
      table([this.kind.x, this.kind.y], points.map((p) => [p.xText, p.yText]), name)));
  }

  async save(form) {
    if (!this.view) return;
    if (form === "svg") download(`pabi-${this.name}.svg`, await this.view.toSVG(), "image/svg+xml");
    else (await this.view.toCanvas(2)).toBlob((blob) => download(`pabi-${this.name}.png`, blob));
  }
}

function palette() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  return { paper: of("paper"), ink: of("ink"), neutral: of("neutral"), line: of("line"), cycle: [of("ours"), of("other"), of("third")] };
}

const again = () => { for (const chart of charts) chart.later(); };
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
let widths = null;
addEventListener("resize", () => { clearTimeout(widths); widths = setTimeout(again, 150); });
document.addEventListener("toggle", again, true);

/** Charts of several kinds, filled by "curve" events of one question after another. */
export class Charts {
  constructor(...kinds) {
    this.all = new Map(kinds.map((kind) => [kind, new Chart(kind)]));
    this.element = element("div", { class: "charts" }, ...[...this.all.values()].map((chart) => chart.element));
  }

  begin() {
    this.seen = new Map([...this.all.keys()].map((kind) => [kind, new Set()]));
    for (const chart of this.all.values()) chart.age();
  }

  add({ chart, series, points }) {
    this.seen.get(chart)?.add(series);
    this.all.get(chart)?.series(series, points);
  }

  end() {
    for (const [kind, chart] of this.all) chart.settle(this.seen.get(kind));
  }

  redraw() {
    for (const chart of this.all.values()) chart.later();
  }
}
