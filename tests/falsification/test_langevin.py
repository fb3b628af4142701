"""Attacks on what is said of Langevin samplers, exponential mechanisms and the best of several bounds."""

import io
import itertools
import json
import math
import sys
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import logsumexp

import pabi
from pabi import Loss
from pabi.numbers.errors import InvalidInput
from pabi.tradeoff import Best, BoundedRange, Gaussian, PoissonSubsampled
from support.certificates import all_refused, forged, refused
from support.falsification.potentials import Pair, divergences, random_pair, tradeoff
from support.falsification.walks import Step, Walk, Well, violated

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")

CONVEX = Loss.convex(1.0, gradient_bound=1.0)


def draw(loss=CONVEX, **changes):
    given = {"n": 100, "dimension": 2, "diameter": 1.0, "epsilon": 2.0} | changes
    return pabi.ExponentialMechanism(loss, **given)


def sampled_run(batches, adjacency="replace_one"):
    given = {"step_size": 0.1, "noise_std": 0.2, "adjacency": adjacency}
    return pabi.NoisySGD(Loss.logistic(1.0), n=100, batches=batches, epochs=2, **given)


def verified_by_command(table, capsys, monkeypatch, *options):
    """(exit status, standard output, standard error) of `pabi verify -`."""
    from pabi.cli import main

    text = io.TextIOWrapper(io.BytesIO(json.dumps(table).encode()))
    monkeypatch.setattr(sys, "stdin", text)
    status = main(["verify", "-", *options])
    said = capsys.readouterr()
    return status, said.out, said.err


# Once wrong: composed with random batches.


@pytest.mark.parametrize(
    "batches", [pabi.FixedSize(10), pabi.Poisson(10)], ids=["fixed", "poisson"]
)
def test_the_command_reads_random_batches_beside_other_factors(batches, capsys, monkeypatch):
    """Once wrong: of several bounds it left the sampled factors and the failure out, and a gate passed."""
    found = pabi.compose(draw(epsilon=0.1).guarantee(1e-3), sampled_run(batches).guarantee(1e-3))
    truth = found.epsilon(1e-3)
    assert truth > 1.0
    failing = draw().guarantee(1e-3).certificate.payload
    factors = [{"kind": "bounded_range", "epsilon": 2.0, "count": 1}]
    failing["claim"] = {"tradeoff": {"kind": "product", "failure": 0.01, "factors": factors}}
    assert pabi.verify(failing).ok
    both = [json.loads(found.to_json()), found.certificate.payload]
    gates = [(table, share * truth, share < 1.0) for table in both for share in (0.9, 1.1)]
    for table, epsilon, wanted in [*gates, (failing, 9.0, True)]:
        options = ("--epsilon", repr(epsilon), "--delta", "1e-3")
        status, out, _ = verified_by_command(table, capsys, monkeypatch, *options)
        assert status == wanted, out


def test_draws_compose_with_poisson_batches_in_both_orders():
    """Once wrong: refused, because only functions that are their own inverse had a best."""
    poisson = sampled_run(pabi.Poisson(10, cap=40), "zero_out").guarantee(1e-3)
    one = draw(adjacency="zero_out").guarantee(1e-3)
    forth, back = pabi.compose(one, poisson), pabi.compose(poisson, one)
    parts = [part.compose(poisson.curve) for part in (BoundedRange(1.0), Gaussian(2.0))]
    assert forth.epsilon(1e-3) == back.epsilon(1e-3)
    assert forth.epsilon(1e-3) >= poisson.epsilon(1e-3)
    assert Best(parts).epsilon(1e-3) == min(part.epsilon(1e-3) for part in parts)
    assert Best(parts).inverse() == Best(parts)
    verdict = pabi.verify(forth)
    assert verdict.ok, verdict.reason
    with pytest.raises(InvalidInput, match="orientation"):
        Best(parts).compose(PoissonSubsampled(1.0, 0.1, "remove"))


# Once wrong: diffusions.


def test_certificates_of_long_dissipative_diffusions_hold():
    """Once wrong: next to z*, R(d) has no digits; after twice the last R(d) the certificate was refused."""
    for time, diameter in itertools.product(
        [1.0, 30.0, 60.0, 75.0, 80.0, 100.0, 1e6, 1e300], [None, 1.5, 1e3]
    ):
        loss = Loss.dissipative(1.0, 1.0, 2.0)
        given = {"n": 10, "inverse_temperature": 1.0, "gradient_gap": 0.2, "diameter": diameter}
        found = pabi.LangevinDiffusion(loss, time=time, **given).guarantee(1e-3)
        payload = found.certificate.payload
        refused(forged(payload, "claim.mu *= 0.999999999"))
        if "distance" in payload:
            payload["distance"] = 1e300  # proves what holds for all times
            payload["claim"]["mu"] = 1.2325899394735
            assert pabi.verify(payload).ok == (diameter != 1.5 or time > 1.0), (time, diameter)


def test_a_regulariser_that_nearly_makes_convex_loses_no_digits():
    """Once wrong: λ·log(d/d_0) and κ(d² − d_0²)/2 cancel, and what was left was too small, or refused."""
    for less, gap in itertools.product([1e-3, 1e-6, 1e-9, 1e-12], [1e-1, 1e-6, 1e-12]):
        loss = Loss.dissipative(1.0, 0.3, 1.0, l2=1.0 - less)
        for kappa in (1.0, 1e6):
            given = {"n": 10, "inverse_temperature": kappa, "gradient_gap": gap}
            for one in (
                pabi.LangevinDiffusion(loss, time=1e9, **given),
                pabi.ExponentialMechanism(loss, dimension=1, diameter=1e3, **given),
            ):
                one.guarantee(1e-3)


def test_what_underflows_on_the_way_is_not_nothing():
    """Once wrong: gap²β² was 0, and with it μ; or tanh(x)/x was."""
    given = {"n": 1, "gradient_gap": 1e-162, "inverse_temperature": 1.0, "time": 1e308}
    tiny = pabi.LangevinDiffusion(CONVEX, **given).guarantee(1e-3)
    assert tiny.mu >= 1e-162 * math.sqrt(0.5e308)
    steep = {"n": 1, "gradient_gap": 1e130, "inverse_temperature": 1e10, "time": 1e10}
    found = pabi.LangevinDiffusion(Loss.strongly_convex(1e300, 1e300), **steep).guarantee(1e-3)
    assert found.mu >= 1e130 * math.sqrt(1e10 / 1e300)
    least = {"n": 1, "gradient_gap": 1e-100, "inverse_temperature": 1e-250, "time": 1.0}
    small = pabi.LangevinDiffusion(CONVEX, diameter=1.0, **least).guarantee(1e-3)
    assert small.mu > 0.0


def test_paths_that_part_beyond_all_numbers_still_have_a_path():
    """Once wrong: with a varying temperature nothing applied."""
    loss = Loss.nonconvex(1e6, gradient_bound=1.0)
    given = {"n": 10, "time": 1e5}
    varying = pabi.LangevinDiffusion(loss, inverse_temperature=[1.0, 1.0], **given).guarantee(1e-3)
    constant = pabi.LangevinDiffusion(loss, inverse_temperature=1.0, **given).guarantee(1e-3)
    assert varying.mu == pytest.approx(constant.mu, rel=1e-9)


# Once wrong: densities of convex–concave functions.


def test_a_convex_concave_function_is_no_convex_potential():
    """Once wrong: taken for log-concave. On [−½, ½], L = −200|v| ± gap·v/2 (concave in v, with no u) puts all
    mass at the two ends, in the ratio e^(±κ·gap/2): δ(0) = tanh(κ·gap/4)."""
    gap, kappa = 1.0, 10.0
    v = np.linspace(-0.5, 0.5, 20_001)
    p, q = (np.exp(kappa * (200.0 * np.abs(v) - 100.0 - side * gap * v)) for side in (0.5, -0.5))
    truth = 0.5 * np.abs(p / p.sum() - q / q.sum()).sum()
    assert truth == pytest.approx(math.tanh(kappa * gap / 4.0), rel=1e-3)
    given = {"n": 1, "dimension": 1, "diameter": 1.0, "inverse_temperature": kappa}
    mechanism = pabi.ExponentialMechanism(Loss.saddle(200.5), **given, gradient_gap=gap)
    found = mechanism.guarantee(1e-3)
    assert found.advantage >= truth * (1.0 - 1e-9)
    assert found.method == "bounded range"
    payload = found.certificate.payload
    for theorem in ("Gibbs measure", "bounded range and Gibbs measure"):
        payload["theorem"] = theorem
        assert not pabi.verify(payload).ok
    with pytest.raises(InvalidInput, match="loss"):
        pabi.IteratedExponentialMechanism(
            Loss.saddle(1.0, l2=1.0), 10, 1, 1.0, epsilons=[1.0, 2.0], failure=0.1
        )
    assert "needs potentials" in pabi.literature.compare(mechanism, 1e-3).table(every=True)


# Once wrong: claims.


def test_claims_say_one_thing_that_is_counted_and_read(capsys, monkeypatch):
    """Once wrong: ε was composed from all factors but the ranges, so that any reading was accepted; of two
    statements one was checked; counts beyond all doubles were accepted, and then crashed the command."""
    payload = draw().guarantee(1e-3).certificate.payload
    factors = [{"kind": "bounded_range", "epsilon": 2.0, "count": 1}]
    product = json.dumps({"product": {"kind": "product", "factors": factors}})
    reading = f'claim = {product}; reading = {{"delta": 1e-5, "epsilon": 0.0}}'
    all_refused(payload, [(reading, "reading"), ("claim.mu = 1e-9", "claim")])
    for count in [0, -1, True, 1.0, 10**19, 10**400]:
        payload["claim"] = {
            "tradeoff": {"kind": "product", "factors": [factors[0] | {"count": count}]}
        }
        status, out, err = verified_by_command(payload, capsys, monkeypatch)
        assert (status, err) == (1, ""), count
        assert out.startswith("verdict      refused: "), count
        assert out.count("\n") == 1, count
        with pytest.raises(InvalidInput, match="count"):
            pabi.tradeoff.Product(((BoundedRange(1.0), count),))


def test_a_set_known_by_name_does_not_shrink():
    """Once wrong: one chain's certificate could state a smaller diameter for a map of the same name."""
    given = {"n": 10, "inverse_temperature": 1.0, "step_size": 0.1, "steps": 400}

    class Onto:
        diameter = 0.5

        def __call__(self, x, step_size):
            return x

        def __repr__(self):
            return "a projection"

    payload = pabi.LangevinChain(CONVEX, **given, prox=Onto()).guarantee(1e-3).certificate.payload
    assert pabi.verify(payload).ok
    assert payload["run"]["prox"] == payload["one"]["run"]["prox"]
    payload["run"]["prox"]["diameter"] = 1e6
    assert "prox" in pabi.verify(payload).reason


def test_many_draws_compose_and_verify():
    """Once wrong: equal bounds were kept apart, and from seven draws on there were too many."""
    for k in [7, 9]:
        different = [draw(epsilon=0.5 + i / 8).guarantee(1e-3) for i in range(k)]
        for several in ([different[0]] * k, different):
            together = pabi.compose(*several)
            verdict = pabi.verify(together)
            assert verdict.ok, verdict.reason
            assert together.epsilon(0.0) == pytest.approx(sum(g.epsilon(0.0) for g in several)), k


# Once wrong: numbers that are hardly numbers.


@pytest.mark.parametrize(
    "integer",
    [np.int64, *(pytest.param(t, marks=pytest.mark.nightly) for t in (np.int32, np.uint8))],
)
def test_numpys_integers_are_integers(integer):
    """Once wrong: they overflowed within exact fractions."""
    loss = Loss.strongly_convex(0.1, 1.3, gradient_bound=0.1)
    rounds = {"epsilons": [1.0, 2.0], "failure": 0.1, "diameter": 1.0}

    def every(i):
        chain = {"inverse_temperature": 100.0, "step_size": 0.01, "steps": i(100), "chains": i(2)}
        yield pabi.LangevinChain(loss, n=i(101), **chain, batches=pabi.Cyclic(i(10)))
        yield pabi.LangevinDiffusion(loss, n=i(101), inverse_temperature=100.0, time=1.0)
        yield pabi.IteratedExponentialMechanism(loss, i(101), i(2), **rounds, split=i(40))
        for batches in (pabi.Cyclic(i(9)), pabi.FixedSize(i(9)), pabi.Poisson(i(9), cap=i(30))):
            given = {"epochs": i(2), "step_size": 0.1, "noise_std": 0.1}
            yield pabi.NoisySGD(loss, n=i(101), batches=batches, **given, cooldown_steps=i(1))

    for plain, numpys in zip(every(int), every(integer), strict=True):
        assert numpys == plain
        assert numpys.guarantee(1e-3).epsilon(1e-3) == plain.guarantee(1e-3).epsilon(1e-3)


ODD = [5e-324, 1e-310, 1e-200, 1e200, 1e308, math.nan, math.inf, -1.0, 0, True, "1", None, 10**400]
ODD += [np.float32(1e-40), np.float64("nan"), np.bool_(True), np.int64(3), np.array([1.0, 0.0])]
ODD += [np.array([[1.0]]), [], {}, 1j, object(), np.array(["a"]), lambda t: t - 0.5]
STRONG = Loss.strongly_convex(0.5, 1.0, gradient_bound=1.0)
WELLS = Loss.dissipative(1.0, 1.0, 2.0, gradient_bound=1.0)
KINDS = {
    "moments": (pabi.NoisySecondMoments, {"dimension": 2, "feature_norm": 1.0, "noise_std": 2.0}),
    "diffusion": (pabi.LangevinDiffusion, {"inverse_temperature": 1.0, "time": 100.0}),
    "chain": (pabi.LangevinChain, {"inverse_temperature": 1.0, "step_size": 0.1, "steps": 5}),
    "draw": (pabi.ExponentialMechanism, {"dimension": 2, "inverse_temperature": 1.0}),
    "rounds": (
        pabi.IteratedExponentialMechanism,
        {"dimension": 2, "epsilons": [1.0, 2.0], "failure": 0.1, "split": 4},
    ),
}


def accounted(described, given):
    """The guarantee, or why there is none."""
    try:
        return described(**given).guarantee(1e-3)
    except InvalidInput as refusal:
        return refusal


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", [STRONG, WELLS], ids=["strong", "wells"])
def test_odd_numbers_are_refused_by_name_or_accounted(kind, loss):
    """Once wrong in many places: ZeroDivisionError, OverflowError, other fields' names, refused proofs."""
    described, given = KINDS[kind]
    if (kind, loss) == ("rounds", WELLS):
        loss = loss.with_l2(2.5)
    given = {"n": 10, "adjacency": "replace_one", **given}
    if kind != "moments":
        described = partial(described, loss)
        given = {"diameter": 1.0, "gradient_gap": None, **given}
    elsewhere = {"n": {"split"}, "diameter": {"epsilons"}, "inverse_temperature": {"epsilon"}}
    for field, value in itertools.product(given, ODD):
        found = accounted(described, {**given, field: value})
        if isinstance(found, InvalidInput):
            assert found.field in {field} | elsewhere.get(field, set()), (field, value)
            assert "\n" not in str(found)
            continue
        assert found.advantage > 0.0
        assert found.epsilon(1e-3) >= 0.0


# The truth: potentials on an interval.


def test_diffusions_of_potentials_against_closed_forms():
    """Far from the walls an Ornstein–Uhlenbeck process; for long enough the Gibbs density."""
    m, gap, beta, nodes = 4.0, 1.0, 2.0, 400
    x = (np.arange(nodes) + 0.5) / nodes * 8.0 - 4.0
    pair = Pair(m * x, m * x + gap, 8.0)
    for parts in ([(beta, 0.3)], [(beta, 0.1), (beta, 0.2)]):
        laws = [pair.diffusion(which, parts, nodes // 2) for which in (0, 1)]
        place = pair.points - 4.0
        variance = -math.expm1(-2.0 * beta * m * 0.3) / (beta * m)
        mean = -gap / m * -math.expm1(-beta * m * 0.3)
        assert place @ laws[0] == pytest.approx(0.0, abs=1e-9)
        assert place @ laws[1] == pytest.approx(mean, rel=1e-3)
        assert place**2 @ laws[0] == pytest.approx(variance, rel=2e-3)
    wells = random_pair(np.random.default_rng(0), -1.0, 1.0, 2.0, 200, 2, "turning")
    for which in (0, 1):
        late = wells.diffusion(which, [(1.5, 500.0)], 20)
        assert late == pytest.approx(wells.gibbs(which, 1.5), abs=1e-9)
        slopes = np.diff((wells.u, wells.v)[which])
        assert slopes.min() >= -1.0 * 2.0 / 200 - 1e-12
    assert np.abs(wells.u - wells.v).max() == pytest.approx(1.0)


def loss_of(least):
    """The upper end of the curvature, which jumps exceed, has no say."""
    if least < 0.0:
        return Loss.weakly_convex(-least, 1e9)
    return Loss.strongly_convex(least, 1e9) if least > 0.0 else Loss.lipschitz(1.0)


EPSILONS = np.array([0.0, 0.01, 0.1, 0.3, 0.7, 1.0, 2.0, 3.0, 5.0])
LEVELS = np.linspace(0.0, 1.0, 101)


def assert_not_below(found, p, q, relative, absolute):
    p, q = np.ravel(p), np.ravel(q)
    true = divergences(p, q, EPSILONS)
    said = np.array([found.delta(float(e)) for e in EPSILONS])
    assert np.all(true <= said * (1.0 + relative) + absolute), (true, said)
    least = tradeoff(p, q, LEVELS)
    assert np.all(found.tradeoff(LEVELS) <= least * (1.0 + relative) + absolute)


@pytest.mark.parametrize("count", [20, pytest.param(1200, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("shape", ["pulled", "turning"])
def test_gibbs_densities_are_never_safer_than_proven(shape, count):
    rng = np.random.default_rng([count, len(shape)])
    for _ in range(count):
        gap, width = 10.0 ** rng.uniform(-1, 1, 2)
        kappa = 10.0 ** rng.uniform(-0.7, 2.0) / (gap * width)
        least = float(rng.choice([-1.0, 0.0, 1.0])) * 10.0 ** rng.uniform(-1.3, 1.0) * gap / width
        pair = random_pair(rng, least, gap, width, 2000, 3, shape)
        given = {"n": 1, "dimension": 1, "diameter": width, "gradient_gap": gap}
        found = pabi.ExponentialMechanism(
            loss_of(least), inverse_temperature=kappa, **given
        ).guarantee(1e-3)
        p, q = (pair.gibbs(which, kappa) for which in (0, 1))
        assert_not_below(found, p, q, 2e-3, 1e-6)
        for order in (1.5, 4.0, 32.0):
            logs = [np.log(np.maximum(x, 1e-290)) for x in (p, q)]
            both = ((0, 1), (1, 0))
            worst = max(logsumexp(order * logs[a] + (1.0 - order) * logs[b]) for a, b in both)
            true = worst / (order - 1.0) * (1.0 - 1e-3) - 1e-6
            assert true <= min(found.rdp(order), order * found.curve.zcdp)


@pytest.mark.parametrize("count", [12, pytest.param(500, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("sign", [-1.0, 0.0, 1.0])
def test_diffusions_are_never_safer_than_proven(sign, count):
    """Windows that just fit and just do not, temperatures that jump or nearly vanish."""
    rng = np.random.default_rng([count, int(sign) + 1])
    tried = 0
    while tried < count:
        gap, width = 10.0 ** rng.uniform(-0.5, 0.5), 10.0 ** rng.uniform(-0.5, 1.0)
        beta = 10.0 ** rng.uniform(-1.0, 1.2) / (gap * width)
        least = sign * 10.0 ** rng.uniform(-1.3, 1.0) * gap / width
        y = least * width / gap
        window = width * width / 4.0
        if y < 1.0:
            window = width / (beta * gap) * (-math.log1p(-y) / y if y else 1.0)
        near = rng.random() < 0.3
        time = window * (rng.uniform(0.8, 1.2) if near else 10.0 ** rng.uniform(-1.2, 0.6))
        pair = random_pair(rng, least, gap, width, 240, 2, str(rng.choice(["pulled", "turning"])))
        parts, given = [(beta, time)], beta
        if rng.random() < 0.4:
            given = beta * 10.0 ** rng.uniform(-0.8, 0.5, int(rng.integers(2, 5)))
            if rng.random() < 0.3:
                given[int(rng.integers(given.size))] *= 1e-9
            parts = [(b, time / given.size) for b in given.tolist()]
        if max(b for b, _ in parts) * max(np.ptp(pair.potential(i)) for i in (0, 1)) > 40.0:
            continue
        tried += 1
        found = pabi.LangevinDiffusion(
            loss_of(least), 1, given, time, gradient_gap=gap, diameter=width
        ).guarantee(1e-3)
        start = int(rng.choice([0, 120, 240, rng.integers(0, 241)]))
        try:
            assert_not_below(found, *pair.diffusions(parts, start), 0.01, 2e-5)
        except AssertionError:  # where little time is left, the grid itself may be too coarse
            assert_not_below(found, *pair.finer(8).diffusions(parts, 8 * start), 0.01, 2e-5)


def wells_pair(rng, rate, slope, depth, gap, width, nodes):
    """Slopes rate·u − clip(slope·u, ±depth) ± gap/2, two wells: any κ < rate with λ = depth²/(rate − κ)."""
    x = (np.arange(nodes) + 0.5) / nodes * width
    u = x - 0.5 * width * (1.0 + 0.4 * rng.uniform(-1.0, 1.0))
    base = rate * u - np.clip(slope * u, -depth, depth)
    return Pair(base - 0.5 * gap, base + 0.5 * gap, width)


@pytest.mark.parametrize("count", [12, pytest.param(500, marks=pytest.mark.nightly)])
def test_wells_are_never_safer_than_proven(count):
    """Dissipative losses, near the time at which the paths have parted as far as the bound has them."""
    rng = np.random.default_rng(count)
    used = tried = 0
    while tried < count:
        rate, depth = 10.0 ** rng.uniform(-0.3, 0.3, 2)
        slope = rate * rng.uniform(1.2, 4.0)
        gap, kappa = depth * 10.0 ** rng.uniform(-1.0, 0.5), rate * rng.uniform(0.1, 0.9)
        loss = Loss.dissipative(depth**2 / (rate - kappa), kappa, max(rate, slope - rate))
        beta, width = 10.0 ** rng.uniform(-1.0, 0.7), 4.0 * depth / rate
        pair = wells_pair(rng, rate, slope, depth, gap, width, 240)
        if beta * max(np.ptp(pair.potential(i)) for i in (0, 1)) > 40.0:
            continue
        tried += 1
        time = 10.0 ** rng.uniform(-1.0, 2.5) / (beta * kappa)
        start = int(rng.choice([120, rng.integers(0, 241)]))
        laws = [pair.diffusion(which, [(beta, time)], start) for which in (0, 1)]
        common = {"inverse_temperature": beta, "gradient_gap": gap}
        for diameter in (width, None):
            found = pabi.LangevinDiffusion(loss, 1, time=time, diameter=diameter, **common)
            told = found.guarantee(1e-3)
            used += "distance" in told.certificate.payload
            assert_not_below(told, *laws, 0.01, 2e-5)
        draw = pabi.ExponentialMechanism(loss, 1, 1, width, **common).guarantee(1e-3)
        assert_not_below(draw, *(pair.gibbs(which, beta) for which in (0, 1)), 2e-3, 1e-5)
    assert used > 0


@pytest.mark.parametrize("count", [4, pytest.param(300, marks=pytest.mark.nightly)])
def test_two_dimensional_densities_are_never_safer_than_proven(count):
    """On a disc and on a square: |x|-like, quadratic and saddle-shaped potentials, tilted and coned."""
    rng = np.random.default_rng([count, 2])
    side = np.linspace(-1.0, 1.0, 161)
    x, y = np.meshgrid(side, side)
    for _ in range(count):
        disc = rng.random() < 0.5
        inside = x**2 + y**2 <= 1.0 if disc else np.ones_like(x, dtype=bool)
        diameter = 2.0 if disc else 2.0 * math.sqrt(2.0)
        gap = 10.0 ** rng.uniform(-0.5, 0.5)
        kappa = 10.0 ** rng.uniform(-0.5, 1.7) / gap
        low, high = np.sort(rng.uniform(-1.0, 2.0, 2)) * gap
        angle = rng.uniform(0.0, math.tau)
        along, across = (
            math.cos(angle) * x + math.sin(angle) * y,
            math.cos(angle) * y - math.sin(angle) * x,
        )
        base = 0.5 * low * along**2 + 0.5 * high * across**2 + rng.exponential() * np.abs(along)
        cone = np.hypot(x - rng.uniform(-1, 1), y - rng.uniform(-1, 1))
        bump, least = (gap * cone, low) if rng.random() < 0.5 else (gap * along, low)
        p, q = (
            np.where(inside, np.exp(-kappa * (u - u[inside].min())), 0.0)
            for u in (base - 0.5 * gap * along, base - 0.5 * gap * along + bump)
        )
        given = {"n": 1, "dimension": 2, "diameter": diameter, "gradient_gap": gap}
        found = pabi.ExponentialMechanism(loss_of(least), inverse_temperature=kappa, **given)
        assert_not_below(found.guarantee(1e-3), p / p.sum(), q / q.sum(), 0.02, 1e-5)


# The truth: rounds.


@pytest.mark.parametrize("split", [None, 60])
@pytest.mark.parametrize("count", [6, pytest.param(300, marks=pytest.mark.nightly)])
def test_rounds_are_never_safer_than_proven(split, count):
    """Two rounds on an interval, both draws known: the second set depends on the first draw. All records
    are alike but one, whose slope is +G or −G; with a split it is in either part."""
    rng = np.random.default_rng([count, split or 0])
    n, nodes = 100, 240
    for _ in range(count):
        m, bound = 10.0 ** rng.uniform(-1.0, 0.0), 1.0
        width = float(rng.uniform(0.3, 0.9)) * 2.0 * bound / m
        epsilons = (10.0 ** rng.uniform(-0.5, 1.2, 2)).tolist()
        loss = Loss.strongly_convex(m, 1e9, gradient_bound=bound)
        described = pabi.IteratedExponentialMechanism(
            loss, n, 1, width, epsilons, failure=float(rng.uniform(0.05, 0.9)), split=split
        )
        x = np.linspace(0.0, width, nodes + 1)
        base = 0.5 * m * (x - float(rng.uniform(0.0, width))) ** 2
        first = n if split is None else split
        for used in ((True, True),) if split is None else ((True, False), (False, True)):
            laws = []
            for slope in (bound, -bound):
                potentials = [
                    base + (slope / size * x if here else 0.0)
                    for here, size in zip(
                        used, (first, n if split is None else n - split), strict=True
                    )
                ]
                one, two = described.rounds
                start = np.exp(-one.inverse_temperature * (potentials[0] - potentials[0].min()))
                near = np.abs(x[:, None] - x[None, :]) <= one.radius
                height = np.where(near, -two.inverse_temperature * potentials[1], -np.inf)
                then = np.exp(height - height.max(axis=1, keepdims=True))
                total = then.sum(axis=1, keepdims=True)
                laws.append((start / start.sum())[:, None] * then / total)
            found = described.guarantee(1e-3)
            assert_not_below(found, laws[0].ravel(), laws[1].ravel(), 1e-2, 1e-6)
            assert_not_below(found, laws[0].sum(axis=0), laws[1].sum(axis=0), 1e-2, 1e-6)


# The truth: composition.


@pytest.mark.parametrize("strength", [0.4, 3.0])
def test_compositions_of_the_best_are_not_below_histograms(strength):
    """Histograms of three bins of a Gibbs pair, composed exactly by counting."""
    x = np.linspace(-0.5, 0.5, 3001)
    masses = [np.exp(-strength * (2.0 * x**2 + side * x)) for side in (-0.5, 0.5)]
    cuts = (0, 1000, 2001, 3001)
    p, q = (np.array([m[a:b].sum() for a, b in pairwise(cuts)]) / m.sum() for m in masses)
    given = {"n": 1, "diameter": 1.0, "gradient_gap": 1.0}
    one = draw(Loss.strongly_convex(4.0, 4.0), epsilon=strength, **given)
    found = one.guarantee(1e-3)
    for k in (2, 5):
        many = [pabi.compose(*[found] * k).curve, found.curve.self_compose(k)]
        a, b = p, q
        for _ in range(k - 1):
            a, b = np.outer(a, p).ravel(), np.outer(b, q).ravel()
        true = divergences(a, b, EPSILONS)
        for curve in many:
            again = pabi.tradeoff.TradeOff.from_dict(json.loads(json.dumps(curve.to_dict())))
            assert again == curve
            for epsilon, delta in zip(EPSILONS.tolist(), true.tolist(), strict=True):
                assert curve.delta(epsilon) >= delta - 1e-12
                if delta > 1e-9:
                    assert curve.epsilon(delta) >= epsilon * (1.0 - 1e-9)
            assert np.all(curve(LEVELS) <= tradeoff(a, b, LEVELS) + 1e-9)


# The truth: chains and mixing.


def random_chain(rng, kind, most):
    """One record's slope is moved by ±gap; the projection is onto [−D/2, D/2]."""
    eta, beta = 10.0 ** rng.uniform(-2.0, 0.3), 10.0 ** rng.uniform(-0.5, 0.5)
    h, std = eta * beta, math.sqrt(2.0 * eta)
    steps = int(rng.integers(1, most + 1))
    gap = std / h * 10.0 ** rng.uniform(-1.3, 0.0)
    diameter = std * 10.0 ** rng.uniform(-0.3, 1.0)
    rate = float(rng.choice([1.99, 2.0, 2.05]) if kind == "steep" else rng.uniform(0.05, 2.3)) / h
    kinks, steepest = (), rate
    if kind in ("quadratic", "steep"):
        loss, slope = Loss.strongly_convex(rate, rate), lambda x: rate * x
    elif kind == "modulus":
        loss, steepest, kinks = Loss.lipschitz(gap), 0.0, (0.0,)

        def slope(x):
            return 0.5 * gap * np.sign(x)

    elif kind == "linear":
        loss, steepest, slope = Loss.convex(1e-6 / h), 0.0, np.zeros_like
    elif kind == "hill":
        loss, slope = Loss.nonconvex(rate), lambda x: -rate * x
    else:
        depth = gap * rng.uniform(0.3, 2.0)
        well = Well(rate, rate * rng.uniform(1.2, 4.0), depth)
        kappa = rate * rng.uniform(0.1, 0.9)
        loss = Loss.dissipative(depth**2 / (rate - kappa), kappa, well.steepest)
        slope, kinks, steepest = well, well.kinks, well.steepest

    def moved(side):
        return lambda x: x - h * (slope(x) + 0.5 * side * gap)

    step = Step((moved(1.0), moved(-1.0)), std, kinks, 1.0 + h * steepest)
    start = float(rng.choice([0.0, rng.uniform(-0.5, 0.5) * diameter]))
    walk = Walk([step] * steps, (start, start), 0.5 * diameter)
    given = {"steps": steps, "gradient_gap": gap, "diameter": diameter}
    chain = pabi.LangevinChain(loss, n=1, inverse_temperature=beta, step_size=eta, **given)
    return walk, chain


@pytest.mark.parametrize("kind", ["quadratic", "modulus", "linear", "hill", "wells"])
@pytest.mark.parametrize("count", [3, pytest.param(500, marks=pytest.mark.nightly)])
def test_chains_are_never_safer_than_proven(kind, count):
    rng = np.random.default_rng([count, len(kind)])
    for _ in range(count):
        walk, chain = random_chain(rng, kind, 40)
        claims = {"last": chain.guarantee(1e-3)}
        assert not violated(walk, claims, EPSILONS[:7]), chain


@pytest.mark.parametrize("kind", ["quadratic", "steep", "modulus", "wells", "hill"])
@pytest.mark.parametrize("count", [1, pytest.param(200, marks=pytest.mark.nightly)])
def test_chains_forget_no_slower_than_proven(kind, count):
    """One potential, from both walls: half the L1 distance of the laws by the trapezoidal rule."""
    rng = np.random.default_rng([count, len(kind), 7])
    for _ in range(count):
        walk, chain = random_chain(rng, kind, 1)
        eta, beta, half = chain.step_size, chain.inverse_temperature, walk.half
        step = replace(walk.steps[0], maps=walk.steps[0].maps[:1] * 2)
        given = (chain.loss, 2.0 * half, eta)
        counts = [1, 8] if kind in ("wells", "modulus") else [1, 2, 5, 12]
        bounds = pabi.mixing.total_variation_bound(*given, counts, inverse_temperature=beta)
        assert np.all(np.diff(bounds) <= 1e-12)
        for steps, bound in zip(counts, bounds, strict=True):
            walk = Walk([step] * steps, (-half, half), half)
            both, error = walk.delta([0.0])
            assert both.max() <= bound + error + 1e-9
            if bound < 0.9 and kind != "wells":
                target = min(0.95, float(bound) * 1.0001)
                assert pabi.mixing_time(*given, target, inverse_temperature=beta) <= 2 * steps


# The comparison can fail.


def test_nine_tenths_of_the_gap_are_caught():
    """Where the bounds are tight: quadratics far from the walls."""
    for what in ["draw", "diffusion", "short"]:
        gap, m, beta, width = 1.0, 4.0, 2.0, 8.0
        x = (np.arange(800) + 0.5) / 800 * width - 0.5 * width
        pair = Pair(m * x - 0.5 * gap, m * x + 0.5 * gap, width)
        given = {"n": 1, "gradient_gap": 0.9 * gap, "diameter": width}
        loss = Loss.strongly_convex(m, m)
        if what == "draw":
            told = pabi.ExponentialMechanism(loss, dimension=1, inverse_temperature=beta, **given)
            laws = [pair.gibbs(which, beta) for which in (0, 1)]
        else:
            time = 0.05 if what == "short" else 3.0
            told = pabi.LangevinDiffusion(loss, inverse_temperature=beta, time=time, **given)
            laws = [pair.diffusion(which, [(beta, time)], 400) for which in (0, 1)]
        with pytest.raises(AssertionError):
            assert_not_below(told.guarantee(1e-3), *laws, 0.01, 2e-5)
        assert_not_below(replace(told, gradient_gap=gap).guarantee(1e-3), *laws, 0.01, 2e-5)
