// Charts, drawn by Vega-Lite, each with its data as a table and as files.

import { button, download, element, table } from "./elements.js";

const KINDS = {
  epsilon: { title: "ε at every δ", x: "δ", y: "ε at most", logX: true, logY: true, powers: true },
  tradeoff: { title: "What an attacker must accept", x: "share of false alarms", y: "members missed, at least" },
  // Nothing is drawn between the numbers of these: it is not known there.
  epochs: { title: "ε after so many epochs", x: "epochs", y: "ε at most", logX: true, logY: true, dots: true },
  forget: { title: "ε of forgetting", x: "epochs after the request", y: "ε at most", logY: true, dots: true },
  ledger: { title: "What was spent", x: "release", y: "ε of all so far", dots: true, steps: true },
};
const POWER = "replace(format(datum.value, '.0e'), regexp('e-(.)$'), 'e-0$1')"; // as in texts: 1e-05
const WIDE = 640; // pixels of a saved picture
const PAUSE = 120; // ms between two drawings of one chart
const charts = new Set();
let library = null;

/** Vega, once it is loaded: when there is something to draw, so that the first number does not wait for it. */
function loaded() {
  const names = ["vega", "vega-lite", "vega-interpreter"]; // each needs those before it
  library ??= names.reduce((before, name) => before.then(() => script(`/vega/${name}.min.js`)), Promise.resolve());
  return library;
}

function script(src) {
  return new Promise((resolve, reject) => document.head.append(element("script", { src, onload: resolve, onerror: reject })));
}

/** A chart of one kind. `series(name, points)` adds or replaces a curve, `clear()` takes all off. */
export class Chart {
  constructor(kind, { rule = null } = {}) {
    this.kind = { ...KINDS[kind] };
    this.name = kind;
    this.rule = rule;
    this.about = ""; // what it is drawn for
    this.curves = new Map();
    this.lines = new Map();
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

  /** `line`: the corners of what is drawn between the points; without it nothing is. */
  series(name, points, line = null) {
    this.curves.set(name, points);
    this.lines.set(name, line);
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
    this.timer ??= setTimeout(async () => {
      const there = await loaded().then(() => true, () => false); // not where the server has ended
      this.timer = null;
      if (there) this.draw();
    }, PAUSE);
  }

  draw() {
    if (!this.plot.isConnected || this.element.hidden || this.plot.clientWidth === 0) return;
    const view = drawing(this.spec(this.plot.clientWidth), { renderer: "svg" });
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
    const { x, y, logX, logY, dots, steps, powers } = this.kind;
    const names = [...this.curves.keys()];
    const drawable = (p) => p.y !== null && (!logX || p.x > 0) && (!logY || p.y > 0);
    const of = (series) => this.curves.get(series).filter(drawable).map((p) => ({ ...p, series }));
    const points = names.flatMap(of);
    const corners = steps ? points : names.flatMap((series) =>
      (this.lines.get(series) ?? []).map(([x, y]) => ({ x, y, series })).filter(drawable));
    const narrow = width < 420;
    const axis = {
      grid: true, labelColor: colours.ink, titleColor: colours.ink, gridColor: colours.line,
      domainColor: colours.neutral, tickColor: colours.neutral, labelOverlap: true,
    };
    const key = {
      title: null, orient: "top", direction: narrow ? "vertical" : "horizontal", labelColor: colours.ink, labelLimit: 400,
      ...(dots ? { symbolSize: 90 } : { symbolType: "stroke", symbolStrokeWidth: 2.5, symbolSize: 600 }),
      symbolOpacity: 1, columns: narrow ? 1 : 2,
    };
    const legend = names.length > 1 ? key : null;
    const each = { field: "series", type: "nominal", sort: names };
    const across = {
      field: "x", type: "quantitative", title: x, scale: { nice: false, ...(logX ? { type: "log" } : {}) },
      axis: {
        ...axis, tickCount: narrow ? 4 : 7, ...(powers ? { labelExpr: POWER } : { format: steps ? "d" : logX ? "~g" : "~f" }),
        ...(steps ? { tickMinStep: 1 } : {}),
      },
    };
    const up = {
      field: "y", type: "quantitative", title: y, scale: logY ? { type: "log" } : { zero: true },
      axis: { ...axis, format: logY ? "~g" : "~f", tickCount: 6 },
    };
    const color = { ...each, scale: { domain: names, range: colours.cycle }, legend };
    const strokeDash = { ...each, scale: { domain: names, range: [[1, 0], [6, 4], [2, 3]] }, legend };
    const shape = { ...each, scale: { domain: names, range: ["circle", "diamond", "square"] }, legend };
    const tooltip = [{ field: "xText", title: x }, { field: "yText", title: y }];
    const line = { type: "line", strokeWidth: 2.5, interpolate: steps ? "step-after" : "linear" };
    // Where there is a line the points are not seen: they are where a pointer finds the numbers.
    const point = { type: "point", filled: true, size: dots ? 55 : 45, opacity: dots ? 1 : 0 };
    const layer = [{ data: { values: points }, mark: point, encoding: { x: across, y: up, color, tooltip, ...(dots ? { shape } : {}) } }];
    if (corners.length) layer.unshift({ data: { values: corners }, mark: line, encoding: { x: across, y: up, color, strokeDash } });
    if (this.rule !== null) {
      const line = { type: "rule", strokeDash: [4, 3], color: colours.ink };
      layer.push({ data: { values: [{ y: this.rule }] }, mark: line, encoding: { y: { field: "y", type: "quantitative" } } });
    }
    return {
      width, height: Math.min(360, Math.max(270, width * 0.66)), background: colours.paper, layer,
      autosize: { type: "fit", contains: "padding" }, padding: 4,
      config: {
        font: "system-ui, sans-serif", view: { stroke: null }, legend: { labelFontSize: 12.5 },
        axis: { labelFontSize: 12, titleFontSize: 13, titleFontWeight: "normal" },
      },
    };
  }

  tabulate() {
    if (!this.element.querySelector("details").open) return;
    this.rows.replaceChildren(...[...this.curves].map(([name, points]) =>
      table([this.kind.x, this.kind.y], points.map((p) => [p.xText, p.yText]), name)));
  }

  async save(form) {
    if (!this.view) return;
    // Out of the page it has to say what it shows.
    const spec = { ...this.spec(WIDE), title: { text: this.kind.title, subtitle: lines(this.about), anchor: "start" } };
    const view = drawing(spec, { renderer: "none" });
    if (form === "svg") download(`pabi-${this.name}.svg`, await view.toSVG(), "image/svg+xml");
    else (await view.toCanvas(3)).toBlob((blob) => download(`pabi-${this.name}.png`, blob));
  }
}

function drawing(spec, how) {
  const parsed = vega.parse(vegaLite.compile(spec).spec, null, { ast: true });
  return new vega.View(parsed, { expr: vega.expressionInterpreter, logLevel: vega.Error, ...how });
}

/** A text in lines of a picture's width. */
function lines(text) {
  return text.match(/.{1,90}(?=\s|$)\s?/g) ?? [];
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

  add({ chart, series, points, line }) {
    this.seen.get(chart)?.add(series);
    this.all.get(chart)?.series(series, points, line);
  }

  end() {
    for (const [kind, chart] of this.all) chart.settle(this.seen.get(kind));
  }

  /** Says what all of them are drawn for. */
  describe(text) {
    for (const chart of this.all.values()) chart.about = text;
  }

  redraw() {
    for (const chart of this.all.values()) chart.later();
  }
}
