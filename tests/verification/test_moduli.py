"""Certificates from moduli that are not linear.

The checker's moduli are compared with the accountant's, whose own tests try them against gradients that
attain them. The oracle of payments is a plain replay in this file: the checker must accept what the library
proves, agree with the replay, and refuse every change that makes a certificate claim more; a change that it
accepts must be one that the replay grants as well.
"""

import functools
import math
from fractions import Fraction
from unittest import mock

import mpmath
import numpy as np
import pytest
from flint import arb, ctx, fmpq

import pabi
from pabi import Cyclic, FixedSize, Loss, Modulus, NoisyIteration, NoisySGD, Poisson, ShuffleOnce
from pabi.account.analyses import nonlinear_shifts
from pabi.describe.files import from_dict
from pabi.numbers import encoding
from pabi.verification.arithmetic import BITS, above, exact
from pabi.verification.derivation import ClippedGradients
from pabi.verification.losses import least_of
from support.certificates import all_refused, forged, forgeries, granted, refused
from support.falsification.edits import at, is_number, places

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")

DELTA = 1e-5
LESS = 1 - 1e-9
CLOSE = 1e-10  # what rounding in the accountant's moduli may leave


# What a step's modulus is.

LOSSES = {
    "lipschitz": Loss.lipschitz(1.3),
    "lipschitz, glm": Loss.lipschitz(1.3, glm=True),
    "lipschitz, separable": Loss.lipschitz(1.3, separable=True),
    "weakly smooth": Loss.weakly_smooth([(0.5, 2.0)]),
    "weakly smooth, two": Loss.weakly_smooth([(0.2, 1.0), (0.7, 5.0)]),
    "weakly smooth, three": Loss.weakly_smooth([(0.0, 1.0), (0.7, 5.0), (1.0, 9.0)]),
    "weakly smooth, bounded": Loss.weakly_smooth([(0.6, 3.0)], gradient_bound=0.8),
    "weakly smooth, glm": Loss.weakly_smooth([(1.0, 3.0)], gradient_bound=2.0, glm=True),
    "dissipative": Loss.dissipative(0.01, 1.0, 2.0),
    "dissipative, bounded": Loss.dissipative(0.01, 1.0, 2.0, gradient_bound=1.0),
    "saddle": Loss.saddle(1.2),
    "saddle, smooth": Loss.saddle(1.2, 3.0),
    "nonconvex": Loss.nonconvex(2.0),
    "weakly convex": Loss.weakly_convex(0.3, 2.0),
    "weakly convex, separable": Loss.weakly_convex(0.3, 2.0, gradient_bound=3.0, separable=True),
    "convex": Loss.convex(2.0),
    "convex, glm": Loss.convex(2.0, gradient_bound=3.0, glm=True),
    "convex, separable": Loss.convex(2.0, gradient_bound=3.0, separable=True),
    "strongly convex": Loss.strongly_convex(0.5, 2.0, gradient_bound=4.0),
    "softmax": Loss.softmax(2.0),
    "logistic": Loss.logistic(3.0),
    "huber": Loss.huber(1.5, 0.7),
    "unknown": Loss.unknown(gradient_bound=1.5),
}
CLIPS = [(None, "norm"), (0.9, "norm"), (2.5, "norm"), (0.9, "coordinates")]


@pytest.mark.parametrize("l2", [0.4, pytest.param(0.0, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("clip", CLIPS, ids=str)
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.one_in(2)
def test_every_row_is_that_of_the_accountant(name, clip, l2):
    """Whose doubles are rounded up, and never above the checker's ball by more than that."""
    norm, clipping = clip
    loss = LOSSES[name].with_l2(l2)
    for eta, fraction in ((0.07, 1), (0.3, Fraction(3, 7)), (1.7, Fraction(9, 4)), (0.5, 0)):
        if norm is None and loss.gradient_bound is None:
            given = {"gradient_sensitivity": 1.0}
        else:
            given = {"clip_norm": norm, "clipping": clipping}
        run = NoisySGD(loss, n=4, batches=Cyclic(2), steps=4, step_size=eta, noise_std=1.0, **given)
        with ctx.workprec(BITS):
            part = fmpq(Fraction(fraction).numerator, Fraction(fraction).denominator)
            derived = least_of(ClippedGradients(run).rows(exact(eta), part))
            solver = loss.modulus(eta, norm, Fraction(fraction), clipping)
            for d in (1e-6, 1e-2, 0.3, 2.0, 500.0):
                ball, double = derived(arb(d)), solver(d)
                if math.isinf(double):
                    assert not ball.is_finite()
                    continue
                assert abs(above(ball) / exact(double) - 1) <= exact(1e-11)


# The oracle: what payments cost.


def real(x):
    return mpmath.mpf(x.numerator) / x.denominator if isinstance(x, Fraction) else mpmath.mpf(x)


def column(value, steps):
    return [real(float(x)) for x in np.broadcast_to(np.asarray(value, dtype=float), steps)]


def modulus_of(run, k, fractions):
    eta = float(np.broadcast_to(run.step_size, run.steps)[k])
    found = [run.loss.modulus(eta, run.clip_norm, f, run.clipping) for f in fractions]
    return lambda d: real(max(m(float(d)) for m in found)) if d > 0 else real(0)


def replayed(moduli, s, sigma, payments, z):
    """Σ (a/σ)², or None if something is left at the end or cannot be paid."""
    total, farthest = real(0), z
    for omega, demand, noise, a in zip(moduli, s, sigma, payments, strict=True):
        if not 0 <= a < mpmath.inf:
            return None
        if a > 0:
            if noise == 0:
                return None
            total += (a / noise) ** 2
        z = max(real(0), omega(z) + demand - a)
        farthest = max(farthest, z)
    return total if z <= CLOSE * farthest else None


def costs(payload):
    """[(probability, μ)] that a run's certificate proves, or None."""
    run = from_dict(payload["run"])
    size = run.n if run.batches.kind == "full_batch" else run.batches.size
    period, data = -(-run.n // size), run.steps - run.cooldown_steps
    last = Fraction(run.n - (period - 1) * size, size)
    alike, cases, rest = payload["alike"], payload["cases"], data % period
    end = data if alike else run.steps
    eta = column(run.step_size, run.steps)
    noise = column(run.gradient_noise_std, run.steps)
    bounds = [b for b in (run.clip_norm, run.loss.gradient_bound) if b is not None]
    change = real(run.gradient_sensitivity or 0)
    if run.gradient_sensitivity is None:
        change = min(map(real, bounds)) * (2 if run.adjacency == "replace_one" else 1)

    def fraction(k):
        if k >= data:
            return Fraction(0)
        return last if k % period == period - 1 else Fraction(1)

    taken = sorted({fraction(k) for k in range(min(data, period))})
    moduli = [modulus_of(run, k, taken if alike else [fraction(k)]) for k in range(end)]
    if run.batches.kind == "shuffle_once":
        places, covered = [], 0
        for case in cases:
            ((a, b),) = case["ranges"]
            if a != covered or not a <= b < period or (a < b and not alike):
                return None
            covered = b + 1
            members = [(rest + i) % period for i in range(a, b + 1)]
            share = sum(size if j < period - 1 else run.n - (period - 1) * size for j in members)
            places.append((Fraction(share, run.n), (rest + b) % period))
        if covered != period:
            return None
    elif payload["position"] is not None:
        places = [(Fraction(1), payload["position"])]
    else:
        wanted = [(data - 1) % period] if alike else range(period)
        places = [(Fraction(1), j) for j in wanted]
    if len(places) != len(cases) or (alike and payload["position"] is not None):
        return None
    found = []
    for (share, j), case in zip(places, cases, strict=True):
        uses = [k for k in range(data) if k % period == j]
        if not uses:
            found.append((share, real(0)))
            continue
        if case["mu"] == "inf":
            found.append((share, mpmath.inf))
            continue
        tau, start = case["tau"], real(case["distance"])
        if tau and not (0 < real(run.range_diameter) <= start):
            return None
        paid = encoding.read_floats("payments", case["payments"]).tolist()
        if tau + len(paid) != end:
            return None
        s = [eta[k] * change / size if k in uses else real(0) for k in range(tau, end)]
        sigma = [eta[k] * noise[k] for k in range(tau, end)]
        square = replayed(moduli[tau:], s, sigma, map(real, paid), start)
        if square is None:
            return None
        found.append((share, mpmath.sqrt(square)))
    return found


def follows(payload):
    """Whether the claim of a run's certificate follows, by the oracle."""
    found = costs(payload)
    if found is None:
        return False
    slack = 1 + CLOSE
    worst = max(mu for _, mu in found)
    if "mu" in payload["claim"]:
        return payload["claim"]["mu"] == "inf" or worst <= real(payload["claim"]["mu"]) * slack
    claim = [(real(w), real(m)) for w, m in payload["claim"]["mixture"]]
    return all(
        sum(w for w, m in claim if m * slack >= level)
        >= sum(real(w) for w, m in found if m >= level) / slack
        for _, level in found
    )


# Honest certificates.


def sgd(**changes):
    fields = {"loss": Loss.lipschitz(1.0), "n": 4, "batches": Cyclic(1), "steps": 40}
    fields |= {"step_size": 0.05, "noise_std": 1.4, "diameter": 0.2}
    return NoisySGD(**{**fields, **changes})


FALLING = np.linspace(0.1, 0.02, 40)
DISSIPATIVE = Loss.dissipative(0.01, 1.0, 2.0, gradient_bound=1.0)
TWO = Loss.weakly_smooth([(0.2, 1.0), (0.7, 5.0)], gradient_bound=1.0)
COORDINATES = {"clip_norm": 1.0, "clipping": "coordinates"}
RUNS = {
    "lipschitz": sgd(),
    "no diameter": sgd(diameter=None),
    "lipschitz, ball": sgd(prox=pabi.prox.ball(0.1), diameter=None),
    "lipschitz, l2": sgd(loss=Loss.lipschitz(1.0, l2=0.5)),
    "lipschitz, zero out": sgd(adjacency="zero_out", diameter=0.1),
    "full batch": sgd(n=2, batches=pabi.FullBatch(), steps=30),
    "short last batch": sgd(n=7, batches=Cyclic(2)),
    "cool-down": sgd(cooldown_steps=3),
    "short, cool-down": sgd(n=7, batches=Cyclic(2), cooldown_steps=3),
    "partial epoch": sgd(steps=38),
    "less than an epoch": sgd(steps=3),
    "falling": sgd(step_size=FALLING),
    "falling, noise rising": sgd(step_size=FALLING, noise_std=2.0 - 5 * FALLING),
    "shuffle once": sgd(batches=ShuffleOnce(1), steps=37),
    "shuffle once, short": sgd(n=7, batches=ShuffleOnce(2), cooldown_steps=2),
    "shuffle once, falling": sgd(batches=ShuffleOnce(1), step_size=FALLING),
    "shuffle once, less": sgd(batches=ShuffleOnce(1), steps=2),
    "weakly smooth": sgd(loss=TWO),
    "weakly smooth, sensitivity": sgd(
        loss=Loss.weakly_smooth([(0.5, 2.0)]), gradient_sensitivity=2.0
    ),
    "dissipative": sgd(loss=DISSIPATIVE),
    "dissipative, short": sgd(loss=DISSIPATIVE, n=7, batches=Cyclic(2), diameter=0.1),
    "dissipative, multiplier": sgd(loss=DISSIPATIVE, noise_std=None, noise_multiplier=1.4),
    "saddle": sgd(loss=Loss.saddle(1.0)),
    "saddle, smooth": sgd(loss=Loss.saddle(1.0, 3.0, l2=0.2)),
    "saddle, clipped": sgd(loss=Loss.saddle(1.0, 3.0), clip_norm=0.5),
    "nonconvex, clipped": sgd(loss=Loss.nonconvex(2.0), clip_norm=1.0),
    "weakly convex, clipped": sgd(loss=Loss.weakly_convex(0.3, 2.0), clip_norm=1.0),
    "weakly convex, l1": sgd(
        loss=Loss.weakly_convex(0.3, 2.0), clip_norm=1.0, prox=pabi.prox.l1(0.1), diameter=None
    ),
    "softmax, clipped": sgd(loss=Loss.softmax(2.0), clip_norm=0.5),
    "unknown, clipped": sgd(loss=Loss.unknown(), clip_norm=1.0),
    "lipschitz, glm, clipped": sgd(loss=Loss.lipschitz(2.0, glm=True), clip_norm=1.0),
    "lipschitz, coordinates": sgd(loss=Loss.lipschitz(2.0, separable=True), **COORDINATES),
    "convex, coordinates": sgd(
        loss=Loss.convex(2.0, gradient_bound=3.0, separable=True),
        step_size=1.2,
        **COORDINATES | {"diameter": 4.0},
    ),
    "nonconvex, coordinates": sgd(loss=Loss.nonconvex(2.0, separable=True), **COORDINATES),
    "nonconvex, coordinates, mixed": sgd(loss=Loss.nonconvex(2.0), **COORDINATES),
    "large steps": sgd(loss=Loss.convex(100.0, gradient_bound=1.0)),
}


@functools.cache
def guarantee_of(name, position=None):
    return granted(nonlinear_shifts.apply, RUNS[name], DELTA, position)


def payload_of(name, position=None):
    return guarantee_of(name, position).certificate.payload


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.one_in(2)
def test_what_the_library_proves_is_what_payments_cost(name):
    payload = payload_of(name)
    assert follows(payload)
    tight = [mu for _, mu in costs(payload)]
    stated = [case["mu"] for case in payload["cases"]]
    assert [float(mu) for mu in tight] == pytest.approx(stated, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("position", [0, 3])
@pytest.mark.parametrize("name", ["lipschitz", "short, cool-down", "falling"])
def test_positions(name, position):
    payload = payload_of(name, position)
    assert follows(payload)
    refused(forged(payload, "position = null"), "cases: |uses: ")


def test_the_runs_are_what_their_names_say():
    assert payload_of("lipschitz")["cases"][0]["tau"] > 0
    assert payload_of("lipschitz")["alike"]
    assert not payload_of("short, cool-down")["alike"]
    assert len(payload_of("falling")["cases"]) == 4
    assert any(len(c["payments"]) > 0 and max(c["payments"][:-1]) > 0 for c in all_cases())


def all_cases():
    return [case for name in RUNS for case in payload_of(name)["cases"] if "payments" in case]


# Forgeries.


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.one_in(2)
def test_less_is_refused(name):
    """Payments at any step, a case's cost, and all that is claimed."""
    payload = payload_of(name)
    tried = 0
    for i, case in enumerate(payload["cases"]):
        paying = [k for k, a in enumerate(case.get("payments", [])) if a > 0.0]
        for k in sorted({*paying[:2], *paying[len(paying) // 2 :][:1], *paying[-2:]}):
            less = forged(payload, f"cases.{i}.payments.{k} *= 0.999999")
            refused(less, "leave a distance")
            assert not follows(less)
            tried += 1
        if case["mu"]:
            refused(forged(payload, f"cases.{i}.mu *= {LESS}"), "mu: the payments cost")
    assert tried
    if "mu" in payload["claim"]:
        refused(forged(payload, f"claim.mu *= {LESS}"), "mu: the Gaussian cases")
    for i, (_, mu) in enumerate(payload["claim"].get("mixture", [])):
        for entry in (0, 1) if mu else ():
            refused(forged(payload, f"claim.mixture.{i}.{entry} *= {LESS}"), "mu: |weights: ")


# Numbers of a description, and whether more of them is worse.
WORSE = {
    "constant": True, "smoothness": True, "weak_convexity": True, "feature_norm": True, "offset": True,
    "gradient_bound": True, "gradient_sensitivity": True, "clip_norm": True, "diameter": True,
    "step_size": True, "steps": True, "radius": True, "rate": False, "l2": False, "noise_std": False,
    "noise_multiplier": False, "cooldown_steps": False,
}  # fmt: skip


@pytest.mark.parametrize("part", range(6))
def test_worse_descriptions_are_refused(part):
    """Or pay for themselves, by the oracle; most do not."""
    tried, fine = 0, 0
    for name in [*RUNS][part::6]:
        payload = payload_of(name)
        for path in [p for p in places(payload["run"]) if is_number(at(payload["run"], p))]:
            key = next(key for key in reversed(path) if isinstance(key, str))
            if key not in WORSE or (isinstance(path[-1], int) and path[-1] != RUNS[name].steps - 1):
                continue
            value, more = at(payload["run"], path), WORSE[key]
            change = (
                f"+= {1 if more else -1}"
                if isinstance(value, int)
                else f"*= {1.001 if more else 0.999}"
            )
            worse = forged(payload, f"run.{'.'.join(map(str, path))} {change}")
            tried += 1
            if pabi.verify(worse).ok:
                fine += 1
                assert follows(worse), (name, path)
    assert fine < tried / 2


FORGED = forgeries("""
lipschitz | cases.0.tau += 1 | payments:
    | cases.0.distance *= 0.999999999999 | distance:
    | del cases.0.payments.0 | payments:
    | cases.0.uses = [9, 0, []] | uses:
    | alike = false | cases:
    | position = 3 | alike:
    | position = 4 | position:
    | del run.diameter | diameter
    | run.n = 5 | cases: |uses: |payments:
    | run.batches.size = 2 | cases: |uses:
    | run.release = "path" | hidden
    | run.update = "other" | hidden
    | theorem = "shifted interpolation" | slope|missing|unknown key
no diameter | cases.0.tau = 5 | tau: |payments: |diameter
    | cases.0.tau = 1; del cases.0.payments.0 | diameter
falling | alike = true | alike:
short last batch | alike = true | leave a distance
cool-down | alike = true | payments:
    | del run.cooldown_steps | uses: |leave a distance
shuffle once | cases.0.weight = [1, 5] | weight:
    | cases.0.ranges = [[0, 1]] | ranges: |weight:
    | claim = {"mu": 1e-3} | mu:
    | run.batches.kind = "cyclic" | weight, ranges|missing
    | run.batches.kind = "reshuffle" | every epoch
shuffle once, falling | alike = true | alike:
    | cases.3.ranges = [[0, 3]] | ranges:
lipschitz, l2 | del run.loss.l2 | leave a distance
lipschitz, glm, clipped | del run.loss.glm | leave a distance
    | run.clipping = "coordinates" | leave a distance
lipschitz, coordinates | del run.loss.separable | leave a distance
    | del run.clipping | leave a distance
convex, coordinates | del run.loss.separable | leave a distance
    | del run.clipping | leave a distance
nonconvex, clipped | del run.clip_norm | clip_norm
weakly smooth | run.loss.pairs.1.1 = 5.01 | leave a distance
    | run.loss.pairs.1.0 = 0.69 | leave a distance
    | del run.loss.pairs.1 | leave a distance
weakly smooth, sensitivity | run.loss.pairs.0.1 = 2.001 | leave a distance
    | run.loss.pairs.0.0 = 0.49 | leave a distance
dissipative | run.loss.kind = "nonconvex" | offset|parameter|unknown
lipschitz, ball | del run.prox | diameter
lipschitz, zero out | del run.adjacency | leave a distance
""")


def test_forgeries_are_refused():
    for name, lines in FORGED.items():
        all_refused(payload_of(name), lines)
    payload, shuffled = payload_of("falling"), payload_of("shuffle once")
    first, second, *others = payload["cases"]
    for cases in ([second, first, *others], [first] * 4):
        refused(payload | {"cases": cases}, "uses: ")
    refused(shuffled | {"cases": shuffled["cases"][::-1]}, "ranges: ")
    least = min(mu for _, mu in shuffled["claim"]["mixture"])
    refused(shuffled | {"claim": {"mu": least}}, "mu: ")


def test_steps_that_differ_are_covered_by_the_larger_modulus_if_taken_to_be_alike():
    """Payments that do for the record of the short last batch, by each step's own modulus, prove nothing of
    the others."""
    run, other = RUNS["dissipative, short"], payload_of("dissipative, short", 3)
    # From the diameter before the last step, whose batch is half a batch, all at once.
    half, whole = (run.loss.modulus(0.05, batch_fraction=f)(0.1) for f in (0.5, 1.0))
    assert half < whole
    owed = (half + 0.05) * (1 + 1e-12)
    mu = owed / (0.05 * 1.4) * (1 + 1e-12)
    other["cases"][0] |= {"tau": 39, "distance": 0.1, "payments": [owed], "mu": mu}
    other["claim"] = {"mu": mu}
    assert pabi.verify(other).ok
    assert follows(other)
    other |= {"position": None, "alike": True}
    refused(other, "leave a distance")
    assert not follows(other)


# Bare iterations.

SAWTOOTH = np.where(np.arange(20) % 4 == 3, 0.5, 0.0)


def bare(**changes):
    fields = {"moduli": Modulus.sqrt(1.0, 0.01), "step_sensitivity": SAWTOOTH}
    return NoisyIteration(**{**fields, "step_noise_std": 1.0, "steps": 20, **changes})


MIXED = [
    Modulus.sqrt(0.9, 0.01),
    Modulus.affine(1.0, 0.02),
    Modulus.minimum(Modulus.linear(1.2), Modulus.sqrt(1.0, 0.04)),
    Modulus.linear(0.95),
] * 5
WITH_FUNCTIONS = [Modulus.from_function(math.sqrt), Modulus.linear(0.9)] * 10
BARE = {
    "sqrt": bare(),
    "affine": bare(moduli=Modulus.affine(0.9, 0.02)),
    "minimum": bare(moduli=Modulus.minimum(Modulus.linear(1.2), Modulus.sqrt(1.0, 0.04))),
    "mixed": bare(moduli=MIXED),
    "mixed, diameter": bare(moduli=MIXED, diameter=0.7),
    "unbounded at times": bare(moduli=[Modulus.unbounded(), *MIXED[1:]]),
    "start": bare(start=2.0, step_sensitivity=0.0),
    "start, affine": bare(start=2.0, moduli=Modulus.affine(0.9, 0.02)),
    "start beyond the diameter": bare(start=2.0, diameter=1.0, steps=2, step_sensitivity=0.0),
    "diameter": bare(diameter=0.6),
    "function": bare(moduli=Modulus.from_function(lambda d: d / (1 + d)), start=1.0),
    "functions": bare(moduli=WITH_FUNCTIONS, start=1.0),
    "no noise at times": bare(step_noise_std=np.arange(20) % 2.0, step_sensitivity=0.0, start=1.0),
    "no noise": bare(step_noise_std=0.0),
    "constants after nothing known": bare(
        moduli=[Modulus.unbounded(), Modulus.sqrt(0.0, 1.0), Modulus.affine(1.0, 0.01)],
        step_sensitivity=[1.0, 0.0, 0.0],
        step_noise_std=[0.0, 1.0, 1.0],
        start=1.0,
        steps=3,
    ),
    "a function after nothing known": bare(
        moduli=[Modulus.unbounded(), Modulus.from_function(math.log1p)],
        step_sensitivity=0.0,
        step_noise_std=[0.0, 1.0],
        start=1.0,
        steps=2,
    ),
}


@functools.cache
def bare_guarantee(name):
    with np.errstate(all="ignore"):
        return granted(nonlinear_shifts.of_iteration, BARE[name], DELTA)


def bare_payload(name):
    return bare_guarantee(name).certificate.payload


def value_of(modulus, z, infinite=mpmath.inf):
    """ω(z) > 0 from a table, by its definition."""
    kind = modulus["kind"]
    if kind == "unbounded":
        return infinite
    if kind == "minimum":
        return min(value_of(part, z) for part in modulus["parts"])
    p = {k: real(v) for k, v in modulus.items() if k != "kind"}
    if kind == "sqrt":
        return mpmath.sqrt((p["kappa"] * z * z if p["kappa"] else 0) + p["h"])
    return (p["slope"] * z if p["slope"] else 0) + p.get("shift", 0)


def bare_cost(payload, iteration):
    """μ by the oracle, the functions of `iteration` being evaluated themselves, or None."""
    (case,) = payload["cases"]
    if payload["claim"]["mu"] == "inf":
        return mpmath.inf
    t, tau, start = iteration.steps, case["tau"], real(case["distance"])
    if start < real(iteration.start if tau == 0 else iteration.diameter or mpmath.inf):
        return None
    given = iteration.moduli
    every = [given] * t if isinstance(given, Modulus) else list(given)

    def omega(modulus):
        try:
            table = modulus.to_dict()
        except pabi.InvalidInput:
            return lambda z: real(modulus(float(z))) if z > 0 else real(0)
        return lambda z: value_of(table, z) if z > 0 else real(0)

    square = replayed(
        [omega(m) for m in every[tau:]],
        column(iteration.step_sensitivity, t)[tau:],
        column(iteration.step_noise_std, t)[tau:],
        map(real, encoding.read_floats("payments", case["payments"]).tolist()),
        start,
    )
    return None if square is None else mpmath.sqrt(square)


def test_bare_iterations_are_paid_for():
    for name in BARE:
        found = bare_cost(bare_payload(name), BARE[name])
        # A function is evaluated in doubles, a rounding above and below what was paid for.
        assert found is not None, name
        assert found <= real(bare_guarantee(name).mu) * (1 + CLOSE), name


def test_the_distance_of_the_starts_is_not_capped():
    """The first iterates need not lie in the range of the map: two steps of noise 1 from 2 apart, by
    moduli √(z² + 0.01), cost √(4.01/2 + …) and not what a distance of 1 would."""
    with mpmath.workdps(30):
        best = min(
            (mpmath.sqrt(4.01) - z) ** 2 + z * z + 0.01
            for z in (mpmath.mpf(i) / 1000 for i in range(1, 1001))
        )
    found = bare_guarantee("start beyond the diameter").mu
    later = math.sqrt(1.01)  # from the diameter, before the second step
    assert found == pytest.approx(min(math.sqrt(best), later), rel=1e-5)
    one = bare(start=2.0, diameter=1.0, steps=1, step_sensitivity=0.0)
    assert nonlinear_shifts.of_iteration(one, DELTA).curve.mu == pytest.approx(
        math.sqrt(4.01), rel=1e-12
    )


def test_a_distance_that_is_lost_and_found_is_paid_for():
    """After a step of which nothing is known, √(0·z² + 1) is 1: no zero may come of 0·∞."""
    assert bare_guarantee("constants after nothing known").mu == pytest.approx(1.0, rel=1e-12)


def test_less_than_is_paid_is_refused():
    for payload in map(bare_payload, BARE):
        if payload["claim"]["mu"] in (0.0, "inf"):
            continue
        refused(forged(payload, f"claim.mu *= {LESS}"), "mu: ")
        (case,) = payload["cases"]
        for k, a in enumerate(case["payments"]):
            if a > 0.0:
                less = forged(payload, f"cases.0.payments.{k} *= 0.999999")
                refused(less, "leave a distance|at: ")


WORSE_STATEMENTS = forgeries("""
mixed | moduli.0.kappa = 0.91 | leave a distance
    | moduli.0.h = 0.0101 | leave a distance
    | moduli.1.shift = 0.0201 | leave a distance
    | moduli.1.slope = 1.01 | leave a distance
    | moduli.0 = {"kind": "unbounded"} | leave a distance
    | moduli.0 = null | at: no value
    | which = null | leave a distance
minimum | del moduli.0.parts.1 | leave a distance
functions | cases.0.at.0 *= 0.999999999 | at:
    | cases.0.values.0 = -1.0 | at:
    | cases.0.values.0 *= 1.000001 | leave a distance|at:
    | cases.0.at = []; cases.0.values = [] | at: no value
sqrt | steps.s.19 = 0.5001 | leave a distance
    | steps.sigma *= 0.999999999 | mu:
    | steps.sigma.3 = 0.0 | no noise
    | del steps.s.0 | steps:
start | start = 2.0001 | distance:
    | cases.0.distance = 1.9999 | distance:
start beyond the diameter | cases.0.distance = 0.5 | distance:
diameter | diameter = 0.6001 | distance:
    | diameter = null | diameter
    | cases.0.distance = 0.5999 | distance:
    | cases.0.tau += 1 | malformed|argument
""")


def test_worse_statements_need_more_than_is_paid():
    for name, lines in WORSE_STATEMENTS.items():
        all_refused(bare_payload(name), lines)
    payload = bare_payload("mixed")
    refused(payload | {"which": payload["which"][::-1]}, "leave a distance")


# Random batches.


def sampled(**changes):
    fields = {"loss": Loss.dissipative(1e-4, 2.0, 4.0, gradient_bound=1.0), "n": 400, "steps": 60}
    fields |= {"batches": Poisson(20, cap=45), "step_size": 0.1, "noise_std": 0.3}
    return NoisySGD(**{**fields, "adjacency": "zero_out", **changes})


SAMPLED = {
    "zero out, cap": sampled(),
    "zero out": sampled(batches=Poisson(20)),
    "replace one": sampled(adjacency="replace_one"),
    "replace one, no cap": sampled(batches=Poisson(20), adjacency="replace_one"),
    "fixed size": sampled(batches=FixedSize(20), adjacency="replace_one"),
    "fixed size, zero out": sampled(batches=FixedSize(20)),
    "fixed size, lipschitz": sampled(batches=FixedSize(20), loss=Loss.lipschitz(1.0), diameter=0.2),
    "fixed size, lipschitz, cool-down": sampled(
        batches=FixedSize(20), loss=Loss.lipschitz(1.0), cooldown_steps=4
    ),
    "fixed size, clipped": sampled(
        batches=FixedSize(20), loss=Loss.convex(2.0, l2=0.3), clip_norm=1.0, diameter=0.2
    ),
    "fixed size, saddle": sampled(batches=FixedSize(20), loss=Loss.saddle(1.0, 3.0, l2=0.2)),
    "one step": sampled(batches=FixedSize(20), loss=Loss.lipschitz(1.0), steps=1),
    "lipschitz, diameter": sampled(loss=Loss.lipschitz(1.0), diameter=0.1),
    "cool-down": sampled(cooldown_steps=5),
    "varying": sampled(
        steps=20, step_size=np.linspace(0.15, 0.05, 20), noise_std=np.linspace(0.2, 0.4, 20)
    ),
    "varying for long": sampled(
        step_size=np.linspace(0.15, 0.05, 60), noise_std=np.linspace(0.2, 0.4, 60)
    ),
    "clipped": sampled(loss=Loss.weakly_convex(0.1, 1.0, l2=0.5), clip_norm=1.0),
    "coordinates": sampled(
        loss=Loss.lipschitz(2.0, l2=0.5, separable=True), clip_norm=1.0, clipping="coordinates"
    ),
    "sensitivity": sampled(gradient_sensitivity=0.7),
}


SAMPLED_OR_LATER = [
    pytest.param(name, marks=pytest.mark.nightly if name.endswith("for long") else ())
    for name in SAMPLED
]


@functools.cache
def sampled_guarantee(name):
    with mock.patch.object(nonlinear_shifts, "CLEARLY", 1e300):  # whether it can win or not
        return granted(nonlinear_shifts.nonlinear_one_sided, SAMPLED[name], DELTA)


def sampled_payload(name):
    return sampled_guarantee(name).certificate.payload


def factors_needed(payload):
    """(Gaussian parameter, parameters of the records' factors) by the oracle, or None."""
    run, plan = from_dict(payload["run"]), payload["plan"]
    b, t, data = run.batches.size, run.steps, run.steps - run.cooldown_steps
    fixed, zero = run.batches.kind == "fixed_size", run.adjacency == "zero_out"
    fractions = [Fraction(1)] if fixed else [Fraction(0), Fraction(plan["cap"], b)]
    curvature, bound = run.loss.curvature, run.loss.gradient_bound
    least = min(real(x) for x in (run.clip_norm, bound) if x is not None)
    eta, noise = column(run.step_size, t), column(run.gradient_noise_std, t)
    # Fixed size: a record takes another's place, a change of two gradients, or one if zeroed.
    single = real(run.gradient_sensitivity) if run.gradient_sensitivity else least
    s = [e * single * (2 if fixed else 1) / b for e in eta[:data]] + [real(0)] * (t - data)
    change = (real(1) / 2 if zero else 1) if fixed else (1 if zero else 2)
    p = dict(run.loss.parameters)
    steep = max(map(abs, curvature)) if curvature else real(p.get("smoothness", mpmath.inf))
    # clipped or indefinite here wherever it is known: two records part at twice the steepness
    spread = steep if zero else 2 * steep

    def omega(k):
        return modulus_of(run, k, fractions if k < data else [Fraction(0)])

    paid = [real(a) for a in encoding.read_floats("payments", plan["payments"]).tolist()]
    first, z, share = t - len(paid), real(0), real(plan["share"])
    for k in range(first):
        z = min(real(run.range_diameter), omega(k)(z) + change * s[k])
    square, records, farthest = real(0), [], z
    for k, a in enumerate(paid, first):
        sigma = eta[k] * noise[k]
        if k < data:
            apart = change * s[k]
            if fixed:
                further = eta[k] * spread / b * z if spread < mpmath.inf else mpmath.inf
                apart = min((1 + change) * s[k], apart + further)
            records.append(apart / sigma / mpmath.sqrt(1 - share))
        square += (a / sigma) ** 2 / share
        z = max(real(0), omega(k)(z) - a)
        farthest = max(farthest, z)
    return None if z > CLOSE * farthest else (mpmath.sqrt(square), records)


@pytest.mark.parametrize("name", SAMPLED_OR_LATER)
@pytest.mark.one_in(2)
def test_random_batches_claim_all_factors(name):
    run, payload = SAMPLED[name], sampled_payload(name)
    needed = factors_needed(payload)
    assert needed is not None
    claim = payload["claim"]["tradeoff"]["factors"]
    gaussian = math.fsum(f["mu"] ** 2 * f["count"] for f in claim if f["kind"] == "gaussian")
    assert float(needed[0]) <= math.sqrt(gaussian) * (1 + CLOSE)
    apart = {"poisson_replaced": 2.0}  # how far apart the sums are, in a factor's own parameter
    offered = [
        (f["apart"] if "apart" in f else f["mu"]) * apart.get(f["kind"], 1.0)
        for f in claim
        if f["kind"] != "gaussian"
        for _ in range(f["count"])
    ]
    wanted = sorted(map(float, needed[1]), reverse=True)
    assert len(offered) == len(wanted)
    for have, want in zip(sorted(offered, reverse=True), wanted, strict=True):
        assert want <= have * (1 + CLOSE)
    poisson = {"zero_out": "poisson_subsampled", "replace_one": "poisson_replaced"}
    fixed = {"subsampled", "fixed_size_subsampled"}
    kinds = {poisson[run.adjacency]} if run.batches.kind == "poisson" else fixed
    assert {f["kind"] for f in claim} - {"gaussian"} <= kinds
    failing = payload["claim"]["tradeoff"].get("failure", 0.0)
    assert (failing > 0.0) == (run.batches.kind == "poisson" and run.batches.cap is None)


SAMPLED_FORGED = forgeries("""
zero out, cap | plan.share *= 0.999 | mu:
    | plan.share *= 1.01 | factors:
    | plan.share = 0.0 | share:
    | plan.share = 1.0 | share:
    | plan.cap = 44 | cap:
    | plan.payments = [] | share:
    | del plan.payments.0 | leave a distance|factors:
    | run.loss.gradient_bound = 1.0001 | leave a distance|factors:
    | run.noise_std = 0.29999 | factors: |mu:
    | del run.adjacency | leave a distance|factors:
    | run.steps = 80 | leave a distance|factors:
    | run.batches.cap = 46 | cap:
    | del run.batches.cap | failure:
    | run.batches.size = 21 | .
    | run.n = 399 | factors:
zero out | plan.cap += -3 | failure:
    | plan.cap = 400 | leave a distance
    | del claim.tradeoff.failure | failure:
fixed size | plan.cap = 21 | cap:
    | run.loss.offset = 1.01e-4 | leave a distance
    | run.loss.rate = 1.99 | leave a distance
    | run.loss.smoothness = 4.01 | leave a distance
    | run.step_size = 0.1001 | leave a distance|factors:
    | run.batches.kind = "poisson" | .
cool-down | run.cooldown_steps = 4 | leave a distance|factors:
lipschitz, diameter | run.diameter = 0.1001 | leave a distance
clipped | run.clip_norm = 1.0001 | leave a distance|factors:
    | run.loss.weak_convexity = 0.101 | leave a distance
coordinates | del run.loss.separable | leave a distance
    | del run.clipping | leave a distance
    | run.loss.l2 = 0.499 | leave a distance
varying | run.noise_std.19 = 0.39 | mu: |factors:
""")


@pytest.mark.parametrize("name", SAMPLED_FORGED)
def test_forgeries_of_random_batches_are_refused(name):
    all_refused(sampled_payload(name), SAMPLED_FORGED[name])


@pytest.mark.parametrize("name", SAMPLED_OR_LATER)
@pytest.mark.one_in(2)
def test_every_factor_of_random_batches_matters(name):
    payload = sampled_payload(name)
    for i, factor in list(enumerate(payload["claim"]["tradeoff"]["factors"]))[::4]:
        sizes = sorted({"mu", "norm", "other", "apart"} & factor.keys())
        if factor[sizes[0]]:
            for change in (*(f"{size} *= 0.999999" for size in sizes), "count += -1"):
                refused(forged(payload, f"claim.tradeoff.factors.{i}.{change}"), "factors: |mu: ")
    for k, a in enumerate(payload["plan"]["payments"]):
        if a and k % 5 == 0:
            for share in (1e-6, 0.1):  # the last payments are small beside what rounding leaves
                less = forged(payload, f"plan.payments.{k} *= {1 - share}")
                # Balls leave less to rounding than doubles do.
                if factors_needed(less) is None or not pabi.verify(less).ok:
                    refused(less, "leave a distance")
                    break
            else:
                # Payments may leave room where batches of any size are covered by one modulus.
                assert name.startswith(("zero out", "replace", "cool", "varying", "sens", "clip"))


# Malformed payloads.


def test_deep_and_odd_tables_are_refused():
    deep = {"kind": "linear", "slope": 1.0}
    for _ in range(5000):
        deep = {"kind": "minimum", "parts": [deep]}
    odd = [deep, {"kind": ["sqrt"]}, {"kind": "cubic"}, {"kind": "sqrt", "kappa": -1.0, "h": 0.0}]
    odd += [{"kind": "sqrt", "kappa": math.nan, "h": 0.0}, {"kind": "affine", "slope": math.inf}]
    for table in odd:
        refused(bare_payload("sqrt") | {"moduli": [table]})
