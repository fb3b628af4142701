"""What an accepted file must not say, found out without the checker.

The accountant's analyses are run anew on the description that the file embeds: a claim below all of them is
one that nobody has proven. Their optima are exact where slopes are linear; those of random batches and of
nonlinear moduli may be improved upon by 1 %.
"""

import functools
import itertools
import json
import math
from dataclasses import replace
from types import SimpleNamespace
from unittest import mock

import mpmath
import numpy as np

import pabi
from pabi.account.analyses import nonlinear_shifts
from pabi.account.best import outcomes
from pabi.budget import filters
from pabi.describe.files import from_dict
from pabi.describe.iteration import iteration_sentences
from pabi.describe.langevin import chain_sentences, diffusion_sentences
from pabi.describe.mechanisms import mechanism_sentences, rounds_sentences
from pabi.describe.moduli import Modulus
from pabi.describe.runs import ONE_SIDE, run_sentences
from pabi.describe.statistics import (
    accuracy_sentences,
    column_statistics_sentences,
    second_moments_sentences,
)
from pabi.describe.unlearning import unlearning_sentences
from pabi.numbers import encoding
from pabi.tradeoff import Gaussian, Mixture, RenyiDP, TradeOff
from pabi.tradeoff.gaussian_below import gaussian_below
from pabi.tradeoff.guarantee import INDEPENDENT
from pabi.tradeoff.selection import ENTERED, refusing_above, refusing_divergences_above
from support.falsification.honest_files import certificate_in, honest_files

EXACT, IMPROVABLE = 1e-9, 1e-2
SHOWN = ("composition", "path", "unlearning, composition")
# Those whose optima are searched for, or depend on the δ that they are tuned at.
BENT = (
    "epoch by epoch",
    "nonlinear shifts",
    "nonlinear one-sided shift",
    "one-sided shift",
    "payments in advance",
    "two-sided shift",
)
LEDGERS = ("adaptive composition", "adaptive composition of divergences")
# Files of these are certificates alone, whose sentences nobody states.
UNHEARD = ("stated mechanism", "group privacy", "private selection")
COMPOSED = "; Dong, Roth, Su 2022, Thm 3.2"


def wrong_with(data, honest, verdict):
    """Why an accepted file should have been refused, or None. `honest`: the file that was altered."""
    if verdict.mu == math.inf:
        return None  # nothing is promised, of whatever it is
    data, honest = (without_notes(file) for file in (data, honest))
    if canonical(data) == canonical(honest):
        return None
    proof = certificate_in(data)
    return (
        stray(data, honest)
        or _stated(data, proof)
        or _misread(data, proof)
        or _too_little(data, proof, honest)
    )


def without_notes(data):
    """All but what is not proven, which stood beside the rest in version 1."""
    aside = ("tuned_at", "composition", "candidates") if data.get("version") == 1 else ("notes",)
    return {key: value for key, value in data.items() if key not in aside}


def canonical(data):
    """A JSON text that does not depend on the order of keys, nor on whether numbers have a point."""
    return json.dumps(_floats(data), sort_keys=True)


def _floats(x):
    if isinstance(x, dict):
        return {key: _floats(value) for key, value in x.items()}
    if isinstance(x, list):
        return [_floats(value) for value in x]
    return float(x) if isinstance(x, int) and not isinstance(x, bool) and abs(x) < 2**53 else x


# Keys.


def _contexts(data, context="file"):
    """(context, keys) of every object: what it is called, and of a certificate what it proves."""
    if isinstance(data, dict):
        if "theorem" in data:
            run = data.get("run") or {"kind": None}
            batches = run.get("batches", {}).get("kind")
            sampled = batches in ("poisson", "fixed_size")
            form = "groups" in data, data.get("version")
            context = ("certificate", data["theorem"], run.get("kind", "noisy_sgd"), sampled, form)
        elif "kind" in data:
            context = (context, str(data["kind"]))
        elif context == "cases":
            context = ("cases", "blocks" in data, "payments" in data)
        yield context, frozenset(data)
        for key, value in data.items():
            yield from _contexts(value, key)
    elif isinstance(data, list):
        for value in data:
            yield from _contexts(value, context)


@functools.cache
def _known():
    known = {}
    for text in honest_files().values():
        for context, keys in _contexts(json.loads(text)):
            known[context] = known.get(context, frozenset()) | keys
    return known


def stray(data, honest):
    """A key that no honest file of this kind has; descriptions check their own."""
    own = ("run", "loss", "batches", "prox")
    known = dict(_known())
    for context, keys in _contexts(honest):
        known[context] = known.get(context, frozenset()) | keys
    for context, keys in _contexts(data):
        if context in own or (isinstance(context, tuple) and context[0] in own):
            continue
        unknown = keys - known.get(context, keys)
        if unknown:
            return f"unknown keys {sorted(unknown)} in {context}"
    return None


# What is stated in words.


def _stated(data, proof):
    found = _sentences(proof)
    stated = data.get("assumptions", found)
    missing = [s for s in found if s not in stated]
    if missing:
        return f"keeps silent about {missing[0]!r}"
    if data["adjacency"] != proof["adjacency"]:
        return "another adjacency than the certificate's"
    if data is proof or "method" not in data:
        return None
    if (data["method"], data["source"]) not in _names(proof):
        return f"named {data['method']!r}, {data['source']!r}"
    again = pabi.Guarantee.from_dict(data).to_dict(certificate=True)
    for key in (
        data
        if data["version"] == 2
        else ("adjacency", "method", "source", "assumptions", "certificate")
    ):
        if key not in ("tradeoff", "epsilon", "delta") and canonical(data[key]) != canonical(
            again[key]
        ):
            return f"{key} is written otherwise than it is read"
    return None


def _sentences(proof):
    """What a proof rests on."""
    theorem = proof["theorem"]
    hidden = theorem not in SHOWN
    if theorem.startswith(UNHEARD):
        return list(proof.get("assumes", ()))
    if theorem == "composed":
        parts = [s for part in proof["parts"] for s in _sentences(part)]
        return [*parts, INDEPENDENT, *proof.get("assumes", ())]
    if theorem in LEDGERS:
        parts = [s for part in proof["parts"] for s in _sentences(part)]
        own = [INDEPENDENT, ENTERED, _limit(proof["claim"])]
        return [*parts, *own, *proof.get("assumes", ())]
    if proof["run"] is None:
        d = proof["diameter"]
        found = iteration_sentences(
            proof["adjacency"], d and float(d), float(proof["start"]), hidden
        )
        return [*found, *proof.get("assumes", ())]
    run = from_dict(proof["run"])
    assert run.adjacency == proof["adjacency"]
    if isinstance(run, pabi.NoisySGD):
        found = run_sentences(run, hidden, proof["position"])
        found = [*found, ONE_SIDE] if theorem == "payments in advance" else found
    elif isinstance(run, pabi.LangevinChain):
        one = proof["one"]
        found = chain_sentences(run, run_sentences(from_dict(one["run"]), hidden, one["position"]))
        found = [*found, *one.get("assumes", ())]
    elif isinstance(run, pabi.LangevinDiffusion):
        found = diffusion_sentences(run, hidden)
    elif isinstance(run, pabi.ExponentialMechanism):
        found = mechanism_sentences(run, theorem != "bounded range")
    elif isinstance(run, pabi.NoisySecondMoments):
        found = second_moments_sentences(run)
    elif isinstance(run, pabi.NoisyAccuracy):
        found = accuracy_sentences(run)
    elif isinstance(run, pabi.Unlearning):
        found = unlearning_sentences(run, hidden)
    elif isinstance(run, pabi.NoisyColumnStatistics):
        found = column_statistics_sentences(run)
    else:
        found = rounds_sentences(run)
    return [*found, *proof.get("assumes", ())]


def _limit(claim):
    """The sentence about a ledger's bound."""
    if "mu" in claim:
        return refusing_above(float(claim["mu"]))
    curve = claim["tradeoff"]
    return refusing_divergences_above(float(curve["order"]), float(curve["rho"]))


def _names(proof):
    """(method, source) of what proves it, as the accountant has them."""
    if proof["theorem"] == "composed":
        every = [_names(part) for part in proof["parts"]]
        found = set()
        for names in itertools.product(*every):
            sources = "; ".join(dict.fromkeys(source for _, source in names))
            found.add((" + ".join(method for method, _ in names), sources + COMPOSED))
        return found
    if proof["theorem"] in LEDGERS:
        names = ((filters.NAME, filters.SOURCE), (filters.NAME_RENYI, filters.SOURCE_RENYI))
        return {names[LEDGERS.index(proof["theorem"])]}
    found = {(g.method, g.source) for g in _guarantees(proof) or () if g.method == proof["theorem"]}
    # Files of 0.1.0 name what it called sources; iterations have no description to account anew.
    for text in honest_files().values():
        other = json.loads(text)
        own = certificate_in(other)
        if own is not other and own["theorem"] == proof["theorem"]:
            found.add((other["method"], other["source"]))
    return found


# What is claimed.


def _claimed(data, proof):
    if "tradeoff" in data:
        return TradeOff.from_dict(data["tradeoff"])
    claim = proof.get("claim")
    if claim is None:
        return None
    if "mu" in claim:
        return Gaussian(math.inf if claim["mu"] == "inf" else float(claim["mu"]))
    if "mixture" in claim:
        if sum(w for w, _ in claim["mixture"]) > 1.0 + EXACT:
            return None  # more than all of the probability: a claim of less than is proven
        return Mixture(
            [Gaussian(float(m)) for _, m in claim["mixture"]], [w for w, _ in claim["mixture"]]
        )
    curve = _readable(claim.get("product", claim.get("tradeoff")))
    every = (curve, *curve.get("factors", ()))
    if any(sum(part.get("weights", ())) > 1.0 + EXACT for part in every):
        return None  # likewise
    return TradeOff.from_dict(curve)


def _readable(curve):
    """A claim of no more: the accountant reads means of secret mixtures up to 20."""
    curve = curve | {key: [min(m, 20.0) for m in curve[key]] for key in ("means",) if key in curve}
    return (
        curve | {"factors": [_readable(f) for f in curve["factors"]]}
        if "factors" in curve
        else curve
    )


def _misread(data, proof):
    """Whether (ε, δ) does not follow from the trade-off function."""
    stated = proof.get("reading") if data is proof else data
    if not stated or "epsilon" not in stated or stated["epsilon"] == "inf" or stated["delta"] >= 1:
        return None
    curve, epsilon, delta = _claimed(data, proof), float(stated["epsilon"]), float(stated["delta"])
    if isinstance(curve, (Gaussian, Mixture)):
        least = _delta(curve, epsilon)
        return None if least <= delta else f"δ is {least} at {epsilon!r}, not {delta!r}"
    if isinstance(curve, RenyiDP):
        least = _delta_of_divergence(curve, epsilon)
        return None if least <= delta else f"δ is {least} at {epsilon!r}, not {delta!r}"
    least = curve.epsilon_bounds(delta)[0]
    return None if least <= epsilon else f"ε is at least {least!r} at {delta!r}, not {epsilon!r}"


def _delta(curve, epsilon):
    """δ(ε) of Gaussians, to 40 digits."""
    parts = (
        [(curve.mu, 1.0)]
        if isinstance(curve, Gaussian)
        else zip(curve.mus, curve.weights, strict=True)
    )
    with mpmath.workdps(40):
        total = mpmath.mpf(0)
        for mu, weight in parts:
            if mu == 0 or math.isinf(mu):
                total += weight * (mu > 0)
                continue
            m, e = mpmath.mpf(float(mu)), mpmath.mpf(epsilon)
            total += weight * (
                _below_place(-e / m + m / 2) - mpmath.exp(e) * _below_place(-e / m - m / 2)
            )
        return total


def _delta_of_divergence(curve, epsilon):
    """The least δ(ε) that follows from a divergence by Lemma 22a of the theory, to 40 digits."""
    with mpmath.workdps(40):
        a, rho, e = (mpmath.mpf(x) for x in (curve.order, curve.rho, epsilon))
        first = mpmath.exp((a - 1) * (rho - e)) * (a - 1) ** (a - 1) / a**a
        if e == 0:
            return min(first, 1)
        return min(first, mpmath.expm1((a - 1) * rho) / mpmath.expm1((a - 1) * e) / a, 1)


def _below_place(z):
    """The normal distribution function, which mpmath does not know far out."""
    return mpmath.ncdf(z) if abs(z) < 1000 else mpmath.mpf(z > 0)


def _about(proof):
    """All of a certificate but what is claimed and how it is proven."""
    own = ("claim", "cases", "plan", "assumes", "version", "steps" if proof.get("run") else "")
    return canonical({key: value for key, value in proof.items() if key not in own})


def _too_little(data, proof, honest):
    claimed = _claimed(data, proof)
    if claimed is None:
        return None
    stated = None
    if honest and _about(proof) == _about(certificate_in(honest)):
        stated = _claimed(honest, certificate_in(honest))
        if _below(claimed, [stated], EXACT) is None:
            return None  # no less than was claimed of the same
    known = _curves(proof)
    if known is None:  # moduli that are functions: nothing but the honest claim to compare with
        known = [_claimed(honest, certificate_in(honest))]
    elif stated is not None:
        known = [*known, stated]
    known = [*known, *(c for c in map(_unsampled, known) if c is not None)]
    theorems = {proof["theorem"], *(part["theorem"] for part in proof.get("parts", ()))}
    sampled = any("plan" in p for p in (proof, *proof.get("parts", ())))
    slack = IMPROVABLE if sampled or theorems & set(BENT) else EXACT
    if isinstance(claimed, Gaussian) and all(isinstance(c, Gaussian) for c in known):
        least = min(c.mu for c in known)
        return None if claimed.mu >= least * (1 - slack) else f"μ = {claimed.mu!r}, not {least!r}"
    return _below(claimed, known, slack)


def _unsampled(curve):
    """A Gaussian that reveals more: no batch is secret. (Products of tiny factors are read less sharply.)"""
    if (
        curve.kind != "product"
        or not all(hasattr(c, "mu") for c, _ in curve.factors)
        or curve.failure
    ):
        return None
    return Gaussian(math.sqrt(sum(k * c.mu**2 for c, k in curve.factors)))


def _below(claimed, known, slack):
    """Where δ of a claim is below that of all bounds that are known."""
    most = min(c.delta(0.0) for c in known)
    for share in (1.0, 0.5, 0.1, 1e-3):
        epsilon = 0.0 if share == 1.0 else min(c.epsilon(share * most) for c in known)
        if not math.isfinite(epsilon):
            continue
        least = min(c.delta(epsilon) for c in known)
        given = claimed.delta(epsilon * (1 - slack))
        if given < least * (1 - 2 * slack):
            return f"δ = {given!r} at ε = {epsilon!r}, not {least!r}"
    return None


def _curves(proof):
    """Trade-off functions that the accountant proves; None where it cannot know."""
    if proof["theorem"] in LEDGERS:
        return _of_ledger(proof)
    if proof["theorem"] == "stated mechanism":  # whatever is claimed is what is stated
        return [_claimed(proof, proof)]
    if proof["theorem"] == "group privacy":
        return [g.for_groups(proof["size"]).curve for g in _guarantees(proof["member"])]
    if proof["theorem"] == "private selection":
        return _of_selection(proof)
    if proof["theorem"] != "composed":
        found = _guarantees(proof)
        return None if found is None else [g.curve for g in found]
    every = [_curves(part) for part in proof["parts"]]
    if any(curves is None for curves in every):
        return None
    total = [Gaussian(0.0)]
    for curves in every:
        # Those that are never the best of Gaussians need not be kept.
        gaussian = [c for c in curves if isinstance(c, Gaussian)]
        kept = [min(gaussian, key=lambda c: c.mu)] if gaussian else []
        kept += [c for c in curves if not isinstance(c, Gaussian)]
        total = [one.compose(other) for one in total for other in kept]
    return total


def _of_selection(proof):
    """Where nothing scores the trials."""
    mean, shape = proof["claim"]["tradeoff"]["mean_trials"], proof["shape"]
    shape = shape if abs(shape) >= 1e-6 else 0.0
    # A trial that is listed twice is selected from like one that is listed once.
    trials = {canonical(trial): trial for trial in proof["trials"]}.values()
    every = itertools.product(*map(_guarantees, trials))
    return [pabi.select(chosen, mean, shape).curve for chosen in every]


def _of_ledger(proof):
    """The budget, which is at least what the parts amount to."""
    every = [_curves(part) for part in proof["parts"]]
    if any(curves is None for curves in every):
        return None
    if "mu" not in proof["claim"]:
        stated = TradeOff.from_dict(proof["claim"]["tradeoff"])
        total = sum(min(c.rdp(stated.order) for c in curves) for curves in every)
        return [RenyiDP(stated.order, max(total * (1.0 - 2e-8), stated.rho))]
    least = math.sqrt(sum(min(map(gaussian_below, curves)) ** 2 for curves in every))
    return [Gaussian(max(least, float(proof["claim"]["mu"])))]


def _guarantees(proof):
    delta = float(proof.get("reading", {}).get("delta", 1e-5))
    if proof["run"] is None:
        keys = ("adjacency", "steps", "groups", "moduli", "which", "diameter", "start")
        text = json.dumps({key: proof[key] for key in keys if key in proof}, sort_keys=True)
        return _of_iteration(text, delta)
    run = from_dict(proof["run"])
    if isinstance(run, pabi.LangevinChain) and proof["one"]["position"] is not None:
        text = json.dumps(proof["one"]["run"], sort_keys=True)
        of_one = _of_description(text, delta, proof["one"]["position"])
        return [_times(g, run.chains) for g in of_one]
    texts = dict.fromkeys(json.dumps(x, sort_keys=True) for x in _less_noise(proof["run"]))
    return [g for text in texts for g in _of_description(text, delta, proof.get("position"))]


def _less_noise(run):
    """The run as it is, and with no step's noise above some times the least: what holds for less holds for
    more, and the solver is not at its best between 1 and 1e300."""
    yield run
    for most in (100.0, 1e6):
        cut = {}
        for key in ("noise_std", "noise_multiplier"):
            if run.get(key) is not None and not isinstance(run[key], (int, float)):
                noise = encoding.read_floats(key, run[key])
                cut[key] = np.minimum(noise, most * noise.min()).tolist()
        yield run | cut
    if "run" in run:  # of forgetting
        yield from (run | {"run": inner} for inner in _less_noise(run["run"]))


def _times(guarantee, k):
    return replace(guarantee, curve=guarantee.curve.self_compose(k))


MOST_STEPS = 10_000_000  # that are written out one by one


@functools.lru_cache(512)
def _of_description(text, delta, position):
    # Files hold proofs that lose against composition, too.
    with mock.patch.object(nonlinear_shifts, "CLEARLY", 1e300):
        found = outcomes(from_dict(json.loads(text)), delta, position)
    # As search foresees it: what the kernel makes of it may share the checker's faults.
    granted = [(o.guarantee, o.proposal) for o in found if o.guarantee is not None]
    return [replace(guarantee, curve=proposal.curve) for guarantee, proposal in granted]


@functools.lru_cache(512)
def _of_iteration(text, delta):
    given = json.loads(text)
    if "groups" in given:
        steps = sum(times * sum(n for n, *_ in part) for times, part in given["groups"])
        if steps > MOST_STEPS:
            raise MemoryError(f"{steps} steps")
        rows = [row for times, part in given["groups"] for _ in range(times) for row in part]
        columns = np.array([row for n, *row in rows for _ in range(n)], dtype=float).T
        if not columns.size:  # no steps hide nothing
            return [SimpleNamespace(curve=Gaussian(math.inf if given["start"] else 0.0), method="")]
    else:
        names = ("c", "s", "sigma") if "c" in given["steps"] else ("s", "sigma")
        columns = [encoding.read_floats(name, given["steps"][name]) for name in names]
    # What holds for less noise holds for more, and no proof needs more for a smaller slope; the solver is
    # not at its best between 1 and 1e300.
    columns = [*columns[:-1], np.minimum(columns[-1], 1e6)]
    if "steps" not in given or "c" in given["steps"]:
        columns[0] = np.minimum(columns[0], 1e6)
    more = {
        "diameter": given["diameter"] or None,
        "start": given["start"],
        "adjacency": given["adjacency"],
    }
    if given["diameter"] == 0:
        return None
    if "moduli" in given:
        if None in given["moduli"]:
            return None
        moduli = [Modulus.from_dict(table) for table in given["moduli"]]
        which = [0] * len(columns[0])
        if given["which"] is not None:
            which = [int(i) for i in encoding.read_floats("which", given["which"])]
        iteration = pabi.NoisyIteration(
            moduli=[moduli[i] for i in which],
            step_sensitivity=columns[0],
            step_noise_std=columns[1],
            **more,
        )
    else:
        iteration = pabi.NoisyIteration(*columns, **more)
    return [o.guarantee for o in outcomes(iteration, delta) if o.guarantee is not None]
