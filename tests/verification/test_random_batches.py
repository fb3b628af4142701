"""Certificates of runs with random batches.

The oracle is a plain replay in this file: every step by itself, in many digits, straight from the theorems.
Certificates are built by hand from it, with payments that nobody would choose, besides those of the
library. A certificate must be accepted if it claims what the replay needs, and refused if it claims less.
"""

import copy
import functools
import json
import math
import time
from collections import Counter
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import pabi
from pabi import Cyclic, FixedSize, Loss, NoisySGD, Poisson, ShuffleOnce
from pabi.describe.files import from_dict, to_dict
from pabi.numbers import encoding
from pabi.numbers.showing import shown
from pabi.tradeoff.certificate import FORMAT, VERSION, VERSIONS, Certificate
from support.certificates import all_refused, forged, forgeries, refused
from support.falsification.edits import at, is_number, places, put

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")

DELTA = 1e-5
GLM = Loss.convex(1.0, gradient_bound=1.0, glm=True, l2=1.0)
FLAT = Loss.convex(1.0, gradient_bound=1.0, glm=True)


def sgd(**changes):
    fields = {"loss": GLM, "n": 400, "batches": FixedSize(20), "steps": 60, "step_size": 0.1}
    return NoisySGD(**{**fields, "noise_std": 0.1, "clip_norm": 1.0, **changes})


RISING = np.linspace(0.05, 0.2, 60)
RUNS = {
    "fixed size": sgd(),
    "fixed size, zero out": sgd(adjacency="zero_out"),
    "poisson": sgd(batches=Poisson(20)),
    "poisson, cap": sgd(batches=Poisson(20, cap=45)),
    "poisson, zero out": sgd(batches=Poisson(20), adjacency="zero_out"),
    "poisson, zero out, cap": sgd(batches=Poisson(20, cap=45), adjacency="zero_out"),
    "poisson, zero out, sensitivity": sgd(
        batches=Poisson(20, cap=45), adjacency="zero_out", gradient_sensitivity=0.7, clip_norm=None
    ),
    "poisson, probability": sgd(batches=Poisson(20, probability=0.07)),
    "poisson, zero out, probability": sgd(
        batches=Poisson(1, cap=45, probability=1 / 23), adjacency="zero_out", noise_std=2.0
    ),
    "diameter": sgd(loss=FLAT, diameter=0.004),
    "diameter, poisson": sgd(loss=FLAT, diameter=0.004, batches=Poisson(20)),
    "cool-down": sgd(cooldown_steps=5),
    "cool-down, poisson": sgd(cooldown_steps=5, batches=Poisson(20, cap=45)),
    "cool-down, zero out": sgd(cooldown_steps=5, batches=Poisson(20, cap=45), adjacency="zero_out"),
    "rising": sgd(step_size=RISING),
    "rising, cool-down, diameter": sgd(
        step_size=RISING, cooldown_steps=4, diameter=0.01, batches=Poisson(20)
    ),
    "noise falls": sgd(
        steps=12, noise_std=RISING[11::-1].copy(), batches=Poisson(20), adjacency="zero_out"
    ),
    "noise falls for long": sgd(
        noise_std=RISING[::-1].copy(), batches=Poisson(20), adjacency="zero_out"
    ),
    "multiplier": sgd(noise_std=None, noise_multiplier=1.7, batches=Poisson(20)),
    "multipliers": sgd(steps=12, noise_std=None, noise_multiplier=1.0 + RISING[:12]),
    "multipliers for long": sgd(noise_std=None, noise_multiplier=1.0 + RISING),
    "expansive": sgd(loss=Loss.nonconvex(0.5, gradient_bound=1.0, glm=True)),
    "expansive, cool-down, diameter": sgd(
        loss=Loss.nonconvex(0.5, gradient_bound=1.0, glm=True), cooldown_steps=30, diameter=0.01
    ),
    "strongly convex": sgd(loss=Loss.strongly_convex(0.5, 1.0, gradient_bound=1.0), clip_norm=None),
    "overshooting": sgd(step_size=1.4),
    "logistic": sgd(loss=Loss.logistic(2.0, l2=0.5), clip_norm=1.5, batches=Poisson(20)),
    "softmax": sgd(loss=Loss.softmax(1.0, l2=0.5), clip_norm=None),
    "one step": sgd(steps=1),
    "everybody": sgd(batches=FixedSize(400), steps=20),
    "everybody, poisson": sgd(batches=Poisson(400), steps=20, adjacency="zero_out"),
}


# The oracle: one step after the other.


def real(x):
    return mpmath.mpf(x)


def constants(run, k, cap):
    """(c, s, σ, ρ) of step k, counted from 0."""
    eta = real(run.step_size[k] if np.ndim(run.step_size) else run.step_size)
    if run.noise_std is not None:
        noise = real(run.noise_std[k] if np.ndim(run.noise_std) else run.noise_std)
    else:
        unit = run.clip_norm if run.clip_norm is not None else run.loss.gradient_bound
        given = run.noise_multiplier[k] if np.ndim(run.noise_multiplier) else run.noise_multiplier
        noise = real(given) * real(unit) / run.batch_size
    lo, hi = run.loss.effective_curvature(run.clip_norm)
    b, l2 = run.batch_size, real(run.loss.l2)
    fixed = run.batches.kind == "fixed_size"
    if k >= run.data_steps:
        return abs(1 - eta * l2), real(0), eta * noise, real(0)
    fractions = [real(1)] if fixed else [real(0), real(cap) / b]
    c = max(abs(1 - eta * (l2 + f * real(h))) for f in fractions for h in (lo, hi))
    bound = real(run.gradient_sensitivity or run.record_gradient_bound)
    s = eta * bound * (2 if fixed else 1) / b
    spread = max(abs(lo), abs(hi)) if run.adjacency == "zero_out" else real(hi) - real(lo)
    return c, s, eta * noise, eta * real(spread) / b


def needed(run, theorem, plan):
    """(Gaussian parameter, [(apart, norm, other) of each record factor]) of a plan, or None where it is not a
    valid one."""
    fixed, zero = run.batches.kind == "fixed_size", run.adjacency == "zero_out"
    t = run.steps
    if theorem == "composition":
        steps = [constants_of_noise(run, k) for k in range(run.data_steps)]
        return real(0), steps
    steps = [constants(run, k, plan["cap"]) for k in range(t)]
    shares = np.repeat(encoding.read_floats("shares", plan["shares"]), plan["lengths"])
    first = t - shares.size
    payments = []
    if theorem == "two-sided shift":
        payments = encoding.read_floats("payments", plan["payments"]).tolist()
    diameter = real(run.range_diameter)
    pulls = encoding.read_floats("pulls", plan["pulls"]).tolist() if "pulls" in plan else []
    z, factors = real(0), []
    sides = 2 if theorem == "two-sided shift" else 1
    change = (real(1) / 2 if zero else 1) if fixed else 1 if zero else 2
    pull = change if sides == 1 else 1
    for k in range(first - len(payments) - len(pulls)):
        c, s, _, _ = steps[k]
        z = min(diameter, c * z + pull * s)
    for k, e in enumerate(map(real, pulls), first - len(pulls)):
        c, s, sigma, _ = steps[k]
        if not zero or fixed or not 0 <= e <= s * (1 + real(2) ** -40):
            return None
        if e > 0:
            factors.append(over(sigma, e, e, real(0)))
        z = min(diameter, c * z + max(s, e) - e)
    for k, a in enumerate(map(real, payments), first - len(payments)):
        c, s, sigma, _ = steps[k]
        if not 0 <= a <= s * (1 + real(2) ** -40):
            return None
        s = max(s, a)
        if a > 0:
            part = a / (c * z + s)
            apart = part * (2 * c * z + change * s) if fixed else 2 * a
            less = part * (c * z + (s / 2 if zero else s))
            factors.append(over(sigma, apart, a, less))
        z = min(diameter, c * z + s - a)
    later = [real(1)]
    for k in range(t - 1, first, -1):
        later.append(later[-1] * steps[k][0])
    later.reverse()
    room = sum(
        (steps[first + i][2] * w) ** 2 * real(u)
        for i, (w, u) in enumerate(zip(later, shares, strict=True))
    )
    demand = sides * z * later[0] * steps[first][0]
    gaussian = mpmath.sqrt(demand**2 / room) if demand and room else real(0)
    if demand and not room:
        return None
    distances = [z]
    for i, (w, u) in enumerate(zip(later, map(real, shares), strict=True)):
        c, _, sigma, _ = steps[first + i]
        paid = demand / sides / room * sigma**2 * w * u if demand else real(0)
        assert paid <= c * z + real(10) ** -40  # no step pays more than there is
        z = c * z - paid
        distances.append(z)
    begin = 0
    for length in plan["lengths"]:
        largest = max(distances[begin : begin + length + 1])  # for all steps of a block
        for i in range(begin, begin + length):
            _, s, sigma, rho = steps[first + i]
            if s > 0:
                if shares[i] >= 1:
                    return None
                apart = change * s
                if fixed:
                    apart = min(s + apart, apart + sides * rho * largest)
                other = s / (2 if fixed else real(1)) if zero and fixed else real(0) if zero else s
                hidden = sigma * mpmath.sqrt(1 - real(shares[i]))
                factors.append(over(hidden, apart, s, other))
        begin += length
    return gaussian, factors


def constants_of_noise(run, k):
    """The sizes of step k under composition: how far apart the sums are, and how far each is moved."""
    noise = run.gradient_noise_std
    noise = noise[k] if np.ndim(noise) else noise
    one = real(run.gradient_sensitivity or run.record_gradient_bound)
    sizes = {
        ("fixed_size", "replace_one"): (2 * one, 2 * one, 2 * one),
        ("fixed_size", "zero_out"): (one, 2 * one, one),
        ("poisson", "replace_one"): (2 * one, one, one),
        ("poisson", "zero_out"): (one, one, real(0)),
    }
    if run.batches.kind == "fixed_size" and run.gradient_sensitivity:
        sizes = dict.fromkeys(sizes, (one, one, one))
    return over(run.batch_size * real(noise), *sizes[run.batches.kind, run.adjacency])


def over(noise, *sizes):
    return tuple(size / noise for size in sizes)


def rate_of(run):
    """How likely a record is in a batch."""
    stated = getattr(run.batches, "probability", None)
    return Fraction(run.batch_size, run.n) if stated is None else Fraction(stated)


def failure_of(run, cap):
    if run.batches.kind == "fixed_size" or run.batches.cap is not None:
        return 0.0
    return run.data_steps * float(binom.sf(cap, run.n, float(rate_of(run))))


def kind_of(run):
    if run.batches.kind != "poisson":
        return "fixed_size_subsampled"
    return "poisson_subsampled" if run.adjacency == "zero_out" else "poisson_replaced"


def sizes_of(run, sizes):
    """Kind and fields of a factor for (apart, norm, other)."""
    apart, norm, other = map(float, sizes)
    kind = kind_of(run)
    if kind == "fixed_size_subsampled":
        if apart == norm == other:
            return {"kind": "subsampled", "mu": apart}
        return {"kind": kind, "apart": apart, "norm": norm, "other": other}
    return {"kind": kind, "mu": norm if kind == "poisson_replaced" else apart}


def read(run, factor):
    """(apart, norm, other) of such a factor; None of one of another kind."""
    kind, least = factor["kind"], run.batch_size * (1 - 1e-15)
    if factor["probability"] * run.n < least:
        return None
    if kind_of(run) == "fixed_size_subsampled" and kind == "subsampled":
        return (factor["mu"],) * 3
    if kind != kind_of(run):
        return None
    if kind == "fixed_size_subsampled":
        return factor["apart"], factor["norm"], factor["other"]
    return (2.0 if kind == "poisson_replaced" else 1.0) * factor["mu"], factor["mu"], factor["mu"]


def written(run, theorem, plan, slack=1e-9, delta=DELTA):
    """The payload of a certificate of this plan, which claims what it needs and `slack` more."""
    gaussian, factors = needed(run, theorem, plan)
    p = float(rate_of(run))
    p = p if Fraction(p) >= rate_of(run) else math.nextafter(p, 2.0)
    own = [tuple(float(x) * (1.0 + slack) for x in sizes) for sizes in factors]
    listed = [
        {**sizes_of(run, sizes), "probability": p, "count": k}
        for sizes, k in sorted(Counter(own).items())
    ]
    listed.append({"kind": "gaussian", "mu": float(gaussian) * (1.0 + slack), "count": 1})
    product = {"kind": "product", "factors": listed}
    failure = failure_of(run, plan["cap"]) * 1.1 if "cap" in plan else 0.0
    if failure:
        product["failure"] = failure
    curve = pabi.tradeoff.TradeOff.from_dict(product)
    epsilon = curve.epsilon(delta) * 1.004
    return {
        "format": FORMAT,
        "version": VERSION,
        "assumes": [],
        "theorem": theorem,
        "adjacency": run.adjacency,
        "run": to_dict(run),
        "position": None,
        "claim": {"product": product},
        "reading": {"delta": delta, "epsilon": "inf" if math.isinf(epsilon) else epsilon},
        "plan": plan,
    }


def cap_of(run):
    if run.batches.kind == "fixed_size":
        return run.batch_size
    return run.batches.cap or min(run.n, 3 * run.batch_size)


def plan_of(run, theorem, window, seed=0, lag=6):
    """Payments that are valid, and otherwise arbitrary."""
    if theorem == "composition":
        return {}
    random = np.random.default_rng(seed)
    window = max(min(window, run.steps), min(run.steps, run.cooldown_steps + 1))
    lengths, left = [], window
    for part in (window - run.cooldown_steps, run.cooldown_steps):
        left = part
        while left > 0:
            length = min(left, int(random.integers(1, 6))) if run.constant else 1
            lengths.append(length)
            left -= length
    idle = np.arange(run.steps)[-window:][np.cumsum(lengths) - 1] >= run.data_steps
    shares = np.where(
        idle, random.choice([0.3, 1.0], len(lengths)), random.uniform(0, 0.9, len(lengths))
    )
    plan = {"cap": cap_of(run), "lengths": lengths, "shares": encoding.floats(shares)}
    single = run.batches.kind == "poisson" and run.adjacency == "zero_out"
    if theorem == "two-sided shift" or single:
        lag = min(lag, run.steps - window)
        s = [
            float(constants(run, run.steps - window - lag + i, plan["cap"])[1]) for i in range(lag)
        ]
        pays = np.array(s) * random.choice([0.0, 0.3, 1.0, 1.0 - 1e-12], lag)
        plan["pulls" if single else "payments"] = encoding.floats(pays)
    return plan


def theorems(run):
    single = run.batches.kind == "poisson" and run.adjacency == "zero_out"
    return ["composition", "one-sided shift", *([] if single else ["two-sided shift"])]


CASES = [
    (name, theorem)
    for name, run in RUNS.items()
    if not name.endswith("for long")
    for theorem in theorems(run)
]
CASES_AND_LONGER = CASES + [
    pytest.param(name, theorem, marks=pytest.mark.nightly)
    for name, run in RUNS.items()
    if name.endswith("for long")
    for theorem in theorems(run)
]


@functools.cache
def payload_of(name, theorem, window=9):
    run = RUNS[name]
    return written(run, theorem, plan_of(run, theorem, window))


# Honest certificates.


def sizes_in(factor):
    return {"mu", "norm", "other", "apart"} & factor.keys()


@pytest.mark.parametrize(("name", "theorem"), CASES_AND_LONGER)
@pytest.mark.one_in(3)
def test_a_plan_that_claims_what_it_needs_is_proven_and_one_that_claims_less_is_not(name, theorem):
    run, payload = RUNS[name], payload_of(name, theorem)
    verdict = pabi.verify(Certificate(json.loads(json.dumps(payload))))
    assert verdict.ok, verdict.reason
    assert (verdict.scope, verdict.adjacency) == ("run", run.adjacency)
    assert (verdict.mu, verdict.parts) == (None, ())
    assert verdict.assumptions == pabi.describe.runs.run_sentences(
        run, hidden=theorem != "composition"
    )
    epsilon, delta = (float(payload["reading"][key]) for key in ("epsilon", "delta"))
    assert f"ε = {shown(epsilon)} at δ = " in verdict.reason
    assert verdict.reading == (epsilon, delta)
    assert f"product of {verdict.product.size} factors" in verdict.reason
    assert verdict.product.epsilon(DELTA) <= epsilon * 1.01
    for i, factor in enumerate(payload["claim"]["product"]["factors"]):
        for size in sizes_in(factor):
            if factor[size] > 0.0:
                refused(forged(payload, f"{F}.{i}.{size} *= 0.999999997"), "^(factors|mu): ")


WINDOWS = [
    (name, window)
    for name in ("fixed size", "poisson, zero out", "rising", "expansive")
    for window in (1, 2, 25, 60)
]
LONGER = {("rising", 25), ("rising", 60), ("expansive", 25), ("expansive", 60)}


@pytest.mark.parametrize(
    ("name", "window"),
    [pytest.param(*case, marks=[pytest.mark.nightly] * (case in LONGER)) for case in WINDOWS],
)
def test_windows_of_every_length(name, window):
    for theorem in theorems(RUNS[name])[1:]:
        assert pabi.verify(payload_of(name, theorem, window)).ok


def test_many_steps_of_a_constant_schedule_are_as_quick_as_few():
    for batches in (FixedSize(20), Poisson(20, cap=45)):
        run = sgd(steps=10**9, batches=batches)
        plan = {"cap": cap_of(run), "lengths": [7, 2], "shares": [0.3, 0.5]}
        few = written(sgd(steps=3000, batches=batches), "one-sided shift", plan)
        few["run"] = to_dict(run)
        begin = time.perf_counter()
        verdict = pabi.verify(few)
        assert verdict.ok, verdict.reason  # the distance has long been the same
        assert time.perf_counter() - begin < 5.0


# Forgeries.

F = "claim.product.factors"
ONE, TWO = "one-sided shift", "two-sided shift"
# "accepted": allowed, in spite of its looks; "covered": must not rest on less than is needed, whatever it is.
FORGED = forgeries("""
fixed size, composition | claim.product.factors.0.count = 0 | factors:
    | claim.product.factors.0.probability = 0.0499999999 | factors:
    | claim.product.factors.0.kind = "poisson_subsampled" | factors:
    | claim = {"mu": 100.0} | factors:
    | run.batches.size = 19 | factors:
    | run.steps = 61 | factors:
    | run.release = "path" | accepted
poisson, zero out, composition | claim.product.factors.0.kind = "subsampled" | factors:
    | claim.product.factors.0.direction = "remove" | direction
    | del run.adjacency | adjacency|factors: |pulls:
poisson, zero out, one-sided shift | claim.product.factors.0.kind = "subsampled" | factors:
    | claim.product.factors.0.probability = 0.04 | factors:
    | claim.product.factors.-1.mu *= 0.999999 | mu:
    | claim.product.factors.-1.count = 0 | factors:
    | claim.product.failure *= 0.5 | failure
    | del claim.product.failure | failure
    | claim.product.failure = 1e-5 | reading: no finite
    | reading.delta = 1e-300 | reading: no finite
    | plan.pulls.-1 = 0.005001 | pulls: step 51:
    | plan.pulls.-1 = -1e-9 | pulls: step 51:
    | plan.pulls = [0.001, 0.001] | factors: |mu:
    | plan.pulls = [] | factors: |mu:
    | del run.adjacency | adjacency|factors: |pulls:
fixed size, one-sided shift | reading.epsilon *= 0.995 | reading: only ε =
    | reading.epsilon = 0.0 | reading: only ε =
    | reading.delta *= 1e-6 | reading: only ε =
    | plan.shares.0 *= 1.05 | factors: |mu:
    | plan.shares.0 = 1.0 | shares:
    | plan.shares *= 0.0 | shares: no noise
    | del plan.shares.0 | lengths:
    | plan.lengths.0 += 1 | factors: |mu:
    | plan.lengths.0 = 0 | lengths:
    | plan.lengths.0 = 61 | lengths:
    | plan.cap = 10 | cap:
    | plan.pulls = [0.0] | pulls: only
    | run.noise_std = 0.0999999 | factors: |mu:
    | run.clip_norm = 1.1 | covered
    | run.loss.l2 = 0.99 | factors: |mu:
    | run.loss.smoothness = 1.01 | factors:
    | del run.loss.glm | covered
    | run.n = 399 | factors:
    | run.batches.size = 19 | cap:
    | run.release = "path" | hidden
    | run.update = "other" | hidden
    | run.batches.kind = "poisson" | failure: |factors:
    | adjacency = "zero_out" | adjacency:
    | position = 0 | position:
fixed size, two-sided shift | plan.payments.-1 = 0.01001 | payments: step 51:
    | plan.payments.-1 = -1e-9 | payments: step 51:
    | plan.payments = [] | factors: |mu:
rising, one-sided shift | plan.lengths = [9]; plan.shares = [0.3] | not alike
cool-down, one-sided shift | plan.lengths = [9]; plan.shares = [0.3] | not alike
    | run.cooldown_steps = 4 | alike|factors: |mu: |shares
poisson, cap, one-sided shift | plan.cap = 44 | cap:
    | run.batches.cap = 46 | cap:
    | del run.batches.cap | failure:
poisson, one-sided shift | plan.cap = 50 | failure:
    | plan.cap = 0 | failure:
    | plan.pulls = [0.0] | pulls: only
poisson, probability, one-sided shift | run.batches.probability = 0.0701 | factors:
diameter, one-sided shift | run.diameter = 0.0041 | factors: |mu:
    | del run.diameter | factors: |mu:
softmax, one-sided shift | run.clip_norm = 1.2 | accepted
    | run.loss.kind = "unknown" | malformed|no slope
poisson, zero out, sensitivity, one-sided shift | run.gradient_sensitivity = 0.71 | factors: |mu:
""")


@pytest.mark.parametrize("case", FORGED)
def test_forgeries_are_refused(case):
    payload = payload_of(*case.rsplit(", ", 1))
    for edits, reason in FORGED[case]:
        other = forged(payload, edits)
        if reason == "covered":
            assert not pabi.verify(other).ok or covered(other), edits
        elif reason == "accepted":
            assert pabi.verify(other).ok, edits
        else:
            all_refused(payload, [(edits, reason)])
    if case == "fixed size, two-sided shift":
        refused(forged(payload, f"plan.payments = {[0.001] * 60}"), "payments: ")


def covered(payload):
    """Whether the claim is at least what the plain replay of the payload's own description needs."""
    run, plan, theorem = from_dict(payload["run"]), payload["plan"], payload["theorem"]
    if theorem != "composition" and (
        sum(plan["lengths"]) + len(plan.get("payments", plan.get("pulls", []))) > run.steps
        or (run.batches.kind == "fixed_size" and plan["cap"] != run.batch_size)
        or (run.release, run.update) != ("last", "sgd")
    ):
        return False
    found = needed(run, theorem, plan)
    if found is None:
        return False
    gaussian, factors = found
    product = payload["claim"]["product"]
    offered, hides = [], real(0)
    for factor in product["factors"]:
        if factor["kind"] == "gaussian":
            hides += real(factor["mu"]) ** 2 * factor["count"]
        elif (sizes := read(run, factor)) is not None:
            offered.extend([sizes] * factor["count"])
    margin = 1 + real(10) ** -15
    if gaussian**2 > hides * margin:
        return False
    for sizes in sorted((x for x in factors if x[0] > 0), reverse=True):
        large = [x for x in offered if all(m <= o * margin for m, o in zip(sizes, x, strict=True))]
        if not large:
            return False
        offered.remove(min(large, key=lambda x: (x[1], x[0])))
    failure = failure_of(run, plan["cap"]) if "cap" in plan else 0.0
    if failure > product.get("failure", 0.0) * (1 + 1e-6):
        return False
    delta, epsilon = payload["reading"]["delta"], payload["reading"]["epsilon"]
    curve = pabi.tradeoff.TradeOff.from_dict(product)
    return epsilon == "inf" or curve.epsilon_bounds(delta)[0] <= epsilon * (1 + 1e-9)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(data=st.data())
def test_a_changed_certificate_is_refused_or_still_claims_enough(data):
    name, theorem = data.draw(st.sampled_from(CASES))
    payload = payload_of(name, theorem)
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from([p for p in places(payload) if is_number(at(payload, p))]))
        by = data.draw(st.sampled_from([0.5, 0.9, 0.999, 1.001, 1.1, 2.0, -1.0, 0.0]))
        plus = data.draw(st.sampled_from([-1, 1, 2, -20]))
        payload, value = copy.deepcopy(payload), at(payload, path)
        put(payload, path, value * by if isinstance(value, float) else value + plus)
    if payload["version"] not in VERSIONS:
        with pytest.raises(pabi.numbers.errors.InvalidInput, match="version"):
            pabi.verify(payload)
    elif (verdict := pabi.verify(payload)).ok:
        assert covered(payload)
    else:
        assert verdict.reason


@settings(
    max_examples=settings().max_examples // 4,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)
@given(data=st.data())
def test_random_runs_and_plans(data):
    draw = data.draw
    steps = draw(st.integers(1, 40))
    cooldown = draw(st.integers(0, min(5, steps - 1)))
    n = draw(st.integers(2, 300))
    size = draw(st.integers(1, n))
    array = draw(st.booleans())
    eta = draw(st.floats(0.01, 1.5))
    noise = draw(st.floats(0.05, 3.0)) * 2.0 / size
    random = np.random.default_rng(draw(st.integers(0, 9)))
    poisson = draw(st.booleans())
    cap = draw(st.sampled_from([None, size, min(n, size + 5)]))
    run = sgd(
        loss=draw(st.sampled_from([GLM, FLAT, Loss.nonconvex(0.4, gradient_bound=1.0, glm=True)])),
        n=n,
        batches=Poisson(size, cap=cap) if poisson else FixedSize(size),
        steps=steps,
        cooldown_steps=cooldown,
        step_size=eta * random.uniform(0.3, 1.0, steps) if array else eta,
        noise_std=noise * random.uniform(0.5, 1.0, steps) if draw(st.booleans()) else noise,
        adjacency=draw(st.sampled_from(["replace_one", "zero_out"])),
        diameter=draw(st.sampled_from([None, 0.01, 1.0])),
        clip_norm=draw(st.sampled_from([1.0, 0.3])),
    )
    theorem = draw(st.sampled_from(theorems(run)))
    plan = plan_of(run, theorem, draw(st.integers(1, steps)), draw(st.integers(0, 99)))
    payload = written(run, theorem, plan)
    payload["reading"]["epsilon"] = "inf"  # readings have tests of their own
    verdict = pabi.verify(payload)
    assert verdict.ok, verdict.reason
    for i, factor in enumerate(payload["claim"]["product"]["factors"]):
        if factor["kind"] != "gaussian" and all(factor[size] > 0.0 for size in sizes_in(factor)):
            for size in sizes_in(factor):
                refused(forged(payload, f"{F}.{i}.{size} *= 0.999999997"), "^factors: ")
            refused(forged(payload, f"{F}.{i}.count += -1"), "^factors: ")


def test_more_and_larger_factors_claim_less():
    payload = payload_of("fixed size", ONE)
    more = copy.deepcopy(payload)
    more["claim"]["product"]["factors"].append(
        {"kind": "subsampled", "mu": 3.0, "probability": 0.2, "count": 4}
    )
    more["reading"]["epsilon"] = "inf"
    assert pabi.verify(more).ok
    more["reading"]["epsilon"] = payload["reading"]["epsilon"]
    refused(more, "reading: ")
    infinite = forged(payload, f'{F}.0.apart = "inf"')
    refused(infinite, "reading: no finite")
    infinite["reading"]["epsilon"] = "inf"
    verdict = pabi.verify(infinite)
    assert verdict.ok
    assert verdict.product.epsilon(DELTA) == math.inf


def test_the_largest_batch_that_counts():
    """δ_failure is that of the union bound, but for the tail beyond its first term."""
    run = RUNS["poisson, zero out"]
    for cap in (30, 45, 60):
        plan = {"cap": cap, "lengths": [3], "shares": [0.4]}
        payload = written(run, ONE, plan)
        exact = failure_of(run, cap)
        payload["reading"]["epsilon"] = "inf"
        payload["claim"]["product"]["failure"] = exact * 1.3
        assert pabi.verify(payload).ok
        payload["claim"]["product"]["failure"] = exact * 0.999
        refused(payload, "failure: ")
    payload = written(run, ONE, {"cap": run.n, "lengths": [3], "shares": [0.4]})
    assert "failure" not in payload["claim"]["product"]  # of all records
    assert pabi.verify(payload).ok


# Guarantees and compositions.


def guarantee_of(name, theorem):
    """What a certificate claims, as a guarantee."""
    payload = payload_of(name, theorem)
    run = RUNS[name]
    return pabi.Guarantee.from_dict(
        {
            "format": "pabi.guarantee",
            "version": 1,
            "tradeoff": payload["claim"]["product"],
            "mu": None,
            "adjacency": run.adjacency,
            "method": theorem,
            "source": pabi.verify(payload).names[0].source,
            "assumptions": list(pabi.verify(payload).assumptions),
            "tuned_at": DELTA,
            "composition": None,
            "certificate": payload,
        }
    )


def test_a_guarantee_may_claim_no_more_than_its_certificate():
    guarantee = guarantee_of("poisson, zero out", ONE)
    assert pabi.verify(guarantee).ok
    assert guarantee.verified
    data = guarantee.to_dict(certificate=True)
    all_refused(
        data,
        [
            ("tradeoff.factors.0.mu *= 0.9999", "factors: "),
            ("tradeoff.factors.0.count += -1", "expected|factors: "),
            ("tradeoff.factors.0.probability *= 0.9999", "factors: "),
            ("tradeoff.failure *= 0.9", "failure: "),
            ("tradeoff.failure = 0.0", "failure: "),
            ('tradeoff = {"kind": "gaussian", "mu": 5.0}; mu = 5.0', "factors: |mu: "),
            ("del assumptions.0", "keeps silent"),
        ],
    )
    assert pabi.verify(forged(data, "tradeoff.factors.0.mu *= 1.5; tradeoff.failure = 0.1")).ok


def ordered(batches):
    loss = Loss.logistic(1.0, l2=0.1)
    run = NoisySGD(loss, n=60, batches=batches, epochs=3, step_size=0.2, noise_std=0.5)
    return run.guarantee(DELTA)


def test_compositions():
    one, two = guarantee_of("fixed size", ONE), guarantee_of("fixed size", TWO)
    other = guarantee_of("poisson", ONE)
    g, m = ordered(Cyclic(20)), ordered(ShuffleOnce(20))
    for parts in ((g, one), (one, two), (one, other, g), (m, other, g)):
        both = pabi.compose(*parts)
        verdict = pabi.verify(both)
        assert verdict.ok, verdict.reason
        assert verdict.mu is None
        assert both.verified
        assert verdict.scope == "run"
        total = sum(
            k for part in parts if part.mu is None for f, k in getattr(part.curve, "factors", ())
        )
        assert verdict.product.size >= total - len(parts)
        found = verdict.product.epsilon(DELTA)
        low, high = both.curve.epsilon_bounds(DELTA)
        assert low * (1 - 1e-9) <= found <= high * 1.004


def test_forged_compositions():
    both = pabi.compose(guarantee_of("fixed size", ONE), ordered(Cyclic(20)))
    data = both.to_dict(certificate=True)
    assert pabi.verify(data).ok
    gaussian = [f["kind"] for f in data["tradeoff"]["factors"]].index("gaussian")
    all_refused(
        data,
        [
            (f"certificate.parts.0.{F}.0.norm *= 0.99", "part 1: factors: "),
            ("certificate.parts.0.reading.epsilon *= 0.9", "part 1: reading"),
            (f"tradeoff.factors.{gaussian}.mu *= 0.9999", "mu: "),
            ("tradeoff.factors.0.norm *= 0.9999", "factors: "),
            ('certificate.parts.0.adjacency = "zero_out"', "part 1: adjacency"),
        ],
    )
    verdict = pabi.verify(forged(data, "del certificate.parts.0")["certificate"])
    assert verdict.ok  # a certificate of the other part alone
    assert verdict.product is None


def test_a_verdict_without_cases_implies_nothing():
    guarantee = guarantee_of("fixed size", ONE)
    assert pabi.verification.implied((), "replace_one", (), guarantee.to_dict()) is not None
