"use strict";
// What a report checks in the browser: the hash of the file that it holds, the statements about it, and the δ of
// Gaussian curves. It asks nobody anything. Bounds are above the truth: whatever is rounded is rounded up.

// The normal tail Q(x) = 1 - Φ(x), x ≥ 0: [a lower bound, an upper bound]. Up to 1 its series, all of whose terms
// are positive; beyond that two successive convergents of Laplace's continued fraction, which enclose it.
const ULP = 2 ** -53;

function density(x) {
  return Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI);
}

function tail(x) {
  if (x < 0) {
    const [low, high] = tail(-x);
    return [(1 - high) * (1 - 4 * ULP), (1 - low) * (1 + 4 * ULP)];
  }
  if (x > 37) return [0, 1e-290]; // its value lies below 1e-299
  if (x < 1) {
    let term = x;
    let sum = x;
    let k = 1;
    for (; k < 60; k += 1) {
      term *= (x * x) / (2 * k + 1);
      sum += term;
    }
    const half = density(x) * sum; // what follows the last term is below 1e-40
    return [0.5 - half - 200 * ULP, 0.5 - half + 200 * ULP];
  }
  const terms = 20 + Math.ceil(400 / (x * x));
  const mills = (last) => {
    let value = x;
    for (let k = last; k > 0; k -= 1) value = x + k / value;
    return 1 / value;
  };
  const [a, b] = [mills(terms), mills(terms + 1)];
  const margin = (4 * terms + 2 * x * x + 100) * ULP;
  return [Math.min(a, b) * density(x) * (1 - margin), Math.max(a, b) * density(x) * (1 + margin)];
}

// An upper bound on δ(ε) = Φ(-ε/μ + μ/2) - e^ε Φ(-ε/μ - μ/2) (Dong, Roth, Su 2022, Cor. 2.13).
function gaussianDelta(mu, epsilon) {
  if (mu === 0) return epsilon >= 0 ? 0 : 1;
  if (!(mu > 0 && mu < 1e6 && Math.abs(epsilon) < 700)) return 1;
  const ratio = epsilon / mu;
  const off = 8 * ULP * (Math.abs(ratio) + mu);
  const above = tail(ratio - mu / 2 - off)[1];
  const below = tail(ratio + mu / 2 + off)[0];
  const value = above - Math.exp(epsilon) * below * (1 - 40 * ULP);
  return Math.min(1, Math.max(0, value + 4 * ULP * above) * (1 + 4 * ULP) + 1e-300);
}

// An upper bound on δ at ε of a curve as files have it; null for one that takes more than closed forms.
async function deltaOf(curve, epsilon) {
  if (curve.kind === "gaussian") {
    return typeof curve.mu === "number" ? gaussianDelta(curve.mu, epsilon) : 1;
  }
  if (curve.kind === "mixture") {
    const [mus, weights] = [await numbers(curve.mus), await numbers(curve.weights)];
    if (mus.length !== weights.length || weights.some((w) => !(w >= 0))) return null;
    const sum = mus.reduce((total, mu, j) => total + weights[j] * gaussianDelta(mu, epsilon), 0);
    // Of mass that is in no case, more than rounding leaves, nothing is known.
    const lacking = 1 - weights.reduce((total, w) => total + Number(w), 0) - 4 * (mus.length + 4) * ULP;
    return Math.min(1, sum * (1 + 4 * (mus.length + 4) * ULP) + Math.max(0, lacking));
  }
  if (curve.kind === "best") {
    const every = await Promise.all(curve.parts.map((part) => deltaOf(part, epsilon)));
    const found = every.filter((one) => one !== null);
    return found.length ? Math.min(...found) : null;
  }
  if (curve.kind !== "product" || curve.factors.length !== 1 || (curve.factors[0].count ?? 1) !== 1) return null;
  // One release that is computed, and not exact (docs, "Theory", 9, Theorem 59), or that may fail.
  const [r, failure] = [curve.rounding ?? 0, curve.failure ?? 0];
  if (!(r >= 0 && failure >= 0)) return null;
  const s = r * Math.max(17 + r, Math.sqrt(200 + 2 * Math.max(epsilon, 0))) * (1 + 16 * ULP);
  const shifted = epsilon - 2 * s - 4 * ULP * (Math.abs(epsilon) + 2 * s);
  const own = await deltaOf(curve.factors[0], r > 0 ? shifted : epsilon);
  if (own === null) return null;
  const widened = r > 0 ? (own * Math.exp(s) + 1e-39 * r) * (1 + 40 * ULP) : own;
  return Math.min(1, (widened + failure) * (1 + 4 * ULP));
}

async function numbers(value) {
  if (Array.isArray(value)) return value;
  const packed = Uint8Array.from(atob(value.f8), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const view = new DataView(await new Response(stream).arrayBuffer());
  return Array.from({ length: view.byteLength / 8 }, (_, k) => view.getFloat64(8 * k, true));
}

// The statements about a file, by the same grammar as in `pabi.show.signatures`.
const STATEMENT = new RegExp(
  "^pabi\\.statement 1\\nfile sha256 ([0-9a-f]{64})\\nname ([^\\n]+)\\nrole (officer|engineer|publisher)\\n" +
    "date ([0-9]{4}-[0-9]{2}-[0-9]{2})\\n((?:sentence [^\\n]+\\n)*)$",
);

function bytesOf(digits) {
  return Uint8Array.from(digits.match(/../g), (two) => parseInt(two, 16));
}

// [whether it holds, true, false or null for what cannot be told here; in words]
async function statementChecked(row, sha256) {
  const match = STATEMENT.exec(row.statement);
  if (!match || /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u.test(row.statement.replaceAll("\n", ""))) return [false, "A statement that is none of pabi’s."];
  const [, about, name, role, date, sentences] = match;
  const count = sentences.split("\n").length - 1;
  const what = `“${name}”, ${role}, ${date}, ${count} sentence${count === 1 ? "" : "s"}`;
  if (about !== sha256) return [false, `${what}: this is about another file, or the file was changed.`];
  if (row.key === undefined) return [null, `${what}: typed, not signed. Anybody can have written this.`];
  if (!/^[0-9a-f]{64}$/.test(row.key) || !/^[0-9a-f]{128}$/.test(row.signature)) {
    return [false, `${what}: the signature is none.`];
  }
  let key;
  try {
    key = await crypto.subtle.importKey("raw", bytesOf(row.key), { name: "Ed25519" }, false, ["verify"]);
  } catch (bad) {
    if (bad.name !== "NotSupportedError") return [false, `${what}: the key ${row.key} is none.`];
    return [null, `${what}: not checked, since this browser knows no Ed25519.`];
  }
  const signed = new TextEncoder().encode(row.statement);
  const holds = await crypto.subtle.verify({ name: "Ed25519" }, key, bytesOf(row.signature), signed);
  return holds
    ? [true, `${what}: signed with the key ${row.key}.`]
    : [false, `${what}: the signature does not fit this statement and the key ${row.key}.`];
}

async function bytesIn(link) {
  const base64 = link.href.slice(link.href.indexOf(",") + 1);
  return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
}

async function readingChecked(text, epsilon, delta) {
  const unable = "the curve of this file takes more than closed forms. pabi verify, in Python, reads it.";
  const data = JSON.parse(text);
  const bound = data.tradeoff ? await deltaOf(data.tradeoff, Number(epsilon)) : null;
  if (bound === null || Number.isNaN(bound)) return [null, `ε was not computed again here: ${unable}`];
  const shown = bound === 0 ? "0" : roundedUp(bound);
  const found = `From the curve in the file, δ at ε = ${epsilon} is at most ${shown}, rounded up`;
  if (bound <= Number(delta)) return [true, `${found}: not more than the δ = ${delta} of this page.`];
  if (bound <= Number(delta) * (1 + 1e-6)) {
    return [null, `${found}: too close to δ = ${delta} to be told apart here.`];
  }
  return [false, `${found}: more than the δ = ${delta} of this page.`];
}

function roundedUp(x) {
  const text = x.toExponential(5);
  const [mantissa, exponent] = text.split("e");
  const high = Number(text) >= x ? mantissa : (Number(mantissa) + 1e-5).toFixed(5);
  return `${Number(high)}e${exponent}`;
}

async function findings(place) {
  const raw = await bytesIn(document.getElementById("guarantee.json"));
  const found = [];
  if ("void" in place.dataset) found.push([false, "The numbers of this page, for the reasons at its top."]);
  let sha256 = null;
  if (globalThis.crypto?.subtle) {
    const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", raw));
    sha256 = Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
    const same = sha256 === place.dataset.sha256;
    const says = same ? "as this page says" : `and this page says ${place.dataset.sha256}`;
    found.push([same, `The file that this page holds has the SHA-256 ${sha256}, ${says}.`]);
  } else {
    found.push([null, "No hash and no signature was checked: the browser offers that on pages opened from a disk or by https alone."]);
  }
  found.push(await readingChecked(new TextDecoder().decode(raw), place.dataset.epsilon, place.dataset.delta));
  const beside = document.getElementById("guarantee.json.sig");
  if (beside && sha256) {
    const table = JSON.parse(new TextDecoder().decode(await bytesIn(beside)));
    for (const row of table.statements) found.push(await statementChecked(row, sha256));
  }
  found.push([null, "The proof, and whether the sentences of part 2 are true, were not checked here."]);
  return found;
}

const MARKS = new Map([[true, "✓ holds: "], [false, "✗ DOES NOT HOLD: "], [null, "– "]]);

async function check() {
  const place = document.getElementById("checks");
  if (!place) return;
  let found;
  try {
    found = await findings(place);
  } catch (bad) {
    found = [[false, `The checks of this page failed: ${bad.message}`]];
  }
  place.replaceChildren(
    ...found.map(([holds, words]) => {
      const item = document.createElement("li");
      item.textContent = MARKS.get(holds) + words;
      if (holds === false) item.className = "bad";
      return item;
    }),
  );
  place.dataset.state = "ready";
}

// What is signed has to be on the paper.
addEventListener("beforeprint", () => {
  for (const fold of document.querySelectorAll("details")) fold.open = true;
});
check();
