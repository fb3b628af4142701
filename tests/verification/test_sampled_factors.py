"""Steps with random batches of which one record is replaced or zeroed: what the checker asks for of each, and
what it makes of it."""

import functools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import pabi
from pabi import tradeoff as t
from pabi.verification.anew.sums import epsilons, least_of
from pabi.verification.factors.mixtures import Sampled
from support.certificates import all_refused, refused, with_reading

DELTA = 1e-5


def delta_of(mu, p, epsilon):
    """δ(ε) of P = pN(μ, 1) + (1 − p)N(0, 1) against its mirror image, by integration in 30 digits."""
    with mpmath.workdps(30):
        m, share, e = mpmath.mpf(mu), mpmath.mpf(p), mpmath.mpf(epsilon)

        def density(z, place):
            return share * mpmath.npdf(z - place) + (1 - share) * mpmath.npdf(z)

        place = mpmath.findroot(
            lambda z: mpmath.log(density(z, m) / density(z, -m)) - e, max(m, 2 * e / m)
        )
        pieces = [place, place + 1, place + 3, place + 6, place + 20, place + 20 + 2 * m]
        return mpmath.quad(lambda z: density(z, m) - mpmath.exp(e) * density(z, -m), sorted(pieces))


def proven(factor, enough=0.0):
    """The ε that the checker finds of one kind of factor, on finer grids until it is at most `enough`."""
    return least_of(epsilons([], [factor], DELTA), DELTA, enough)


@pytest.mark.parametrize(("mu", "p"), [(0.5, 0.3), (1.0, 0.1), (2.0, 0.02), (3.0, 0.5), (0.2, 0.9)])
def test_one_replaced_record_against_integration(mu, p):
    """The checker's ε is above the truth, and by little: it goes on to finer grids where an ε is stated."""
    stated = t.PoissonReplaced(mu, p).epsilon(DELTA)
    found = proven(Sampled("poisson_replaced", p, mu, 1), stated)
    assert delta_of(mu, p, stated) <= DELTA * (1.0 + 1e-9)
    assert delta_of(mu, p, found) <= DELTA
    assert delta_of(mu, p, found * (1.0 - 4e-3)) > DELTA


@pytest.mark.parametrize(
    ("norm", "other", "apart", "p"),
    [(1.0, 0.5, 0.5, 0.1), (2.0, 1.0, 1.7, 0.02), (0.5, 0.5, 0.8, 0.3), (3.0, 1.5, 1.5, 0.5)],
)
def test_one_zeroed_record_against_its_divergence(norm, other, apart, p):
    """The worse order, whose δ the accountant's own tests have to 40 digits."""
    truth = t.FixedSizeSubsampled(norm, other, apart, p)
    stated = truth.epsilon(DELTA)
    factor = Sampled("subsampled", p, apart, 1, norm, other)
    found = proven(factor, stated)
    assert truth.delta(found) <= DELTA < truth.delta(found * (1.0 - 4e-3))
    assert proven(factor.turned(), stated) == found


@pytest.mark.parametrize(
    ("curve", "times"),
    [
        (t.PoissonReplaced(0.9, 0.01), 1000),
        (t.PoissonReplaced(0.5, 0.1), 30),
        (t.PoissonReplaced(2.0, 0.02), 50),
        (t.FixedSizeSubsampled(0.9, 0.45, 0.45, 0.01), 1000),
        (t.FixedSizeSubsampled(1.0, 0.5, 0.7, 0.1), 30),
        (t.FixedSizeSubsampled(0.4, 0.4, 0.6, 0.02), 50),
    ],
    ids=str,
)
def test_many_factors_against_the_accountant(curve, times):
    """Which composes losses on a grid, and shares no code with the checker."""
    low, high = t.Product([(curve, times)]).epsilon_bounds(DELTA)
    p = curve.probability
    factor = (
        Sampled("poisson_replaced", p, curve.mu, times)
        if isinstance(curve, t.PoissonReplaced)
        else Sampled("subsampled", p, curve.apart, times, curve.norm, curve.other)
    )
    assert low <= proven(factor) <= 1.002 * high


def test_finer_grids_are_tried_only_as_far_as_is_asked_for():
    factor = Sampled("poisson_replaced", 0.1, 0.5, 30)
    stated = t.Product([(t.PoissonReplaced(0.5, 0.1), 30)]).epsilon(DELTA)
    rough = next(epsilons([], [factor], DELTA))
    assert rough == proven(factor) == proven(factor, 2.0 * stated)
    assert stated * 0.99 < proven(factor, stated) < rough


def test_certain_draws_are_gaussians():
    """p = 1: the two records are 2μ apart."""
    found = proven(Sampled("poisson_replaced", 1.0, 0.5, 4))
    assert found == pytest.approx(pabi.convert.gdp_to_epsilon(2.0, DELTA), rel=1e-3)


RUNS = {
    "replaced": {"batches": pabi.Poisson(20)},
    "zeroed": {"batches": pabi.FixedSize(20), "adjacency": "zero_out"},
    "zeroed, convex": {
        "batches": pabi.FixedSize(20),
        "adjacency": "zero_out",
        "loss": pabi.Loss.convex(1.0, gradient_bound=1.0, l2=0.5),
        "epochs": 10,
        "clip_norm": None,
    },
}


@functools.cache
def promised(name, **changes):
    """The guarantee of the run: accounted once for all tests."""
    fields = {
        "loss": pabi.Loss.unknown(),
        "n": 1000,
        "epochs": 2,
        "step_size": 0.1,
        "noise_multiplier": 1.5,
        "clip_norm": 1.0,
    }
    return pabi.NoisySGD(**fields | RUNS[name] | changes).guarantee(DELTA)


def test_what_a_step_reveals_is_what_is_asked_for():
    """C/(b·ς) is 1/multiplier for one record, p the share of a batch; a record that is zeroed and the one
    that makes room move the one sum by two of these."""
    guarantee = promised("replaced")
    (factor,) = guarantee.certificate.payload["claim"]["tradeoff"]["factors"]
    assert (factor["kind"], factor["count"]) == ("poisson_replaced", 100)
    assert factor["mu"] == pytest.approx(1.0 / 1.5, rel=1e-10)
    assert factor["probability"] == 0.02
    guarantee = promised("zeroed")
    (factor,) = guarantee.certificate.payload["claim"]["tradeoff"]["factors"]
    assert (factor["kind"], factor["count"]) == ("fixed_size_subsampled", 100)
    found = [factor[name] * 1.5 for name in ("norm", "other", "apart")]
    assert found == pytest.approx([2.0, 1.0, 1.0], rel=1e-10)
    replaced = promised("zeroed", adjacency="replace_one")
    assert guarantee.epsilon(DELTA) < 0.8 * replaced.epsilon(DELTA)


def test_shifts_claim_sizes_at_the_distance_that_they_are():
    guarantee = promised("zeroed, convex")
    assert guarantee.method == "one-sided shift"
    factors = guarantee.certificate.payload["claim"]["tradeoff"]["factors"]
    drawn = [f for f in factors if f["kind"] == "fixed_size_subsampled"]
    assert drawn
    for factor in drawn:
        assert factor["norm"] == pytest.approx(2.0 * factor["other"], rel=1e-12)
        assert factor["other"] <= factor["apart"] <= 3.0 * factor["other"] * (1.0 + 1e-12)


FIRST = "claim.tradeoff.factors.0"
LESS = [f"{FIRST}.probability *= 0.999999999", f"{FIRST}.count += -1"]


@pytest.mark.parametrize("name", RUNS)
def test_less_is_refused(name):
    guarantee = promised(name)
    assert pabi.verify(guarantee, seconds=60.0).ok
    payload = guarantee.certificate.payload
    factor = payload["claim"]["tradeoff"]["factors"][0]
    sizes = {"mu", "norm", "other", "apart"} & factor.keys()
    edits = [*LESS, *(f"{FIRST}.{size} *= 0.999999999" for size in sizes)]
    if name == "replaced":
        edits += [f'{FIRST}.kind = "poisson_subsampled"; {FIRST}.direction = "both"']
        edits += [f'{FIRST}.kind = "subsampled"', f'{FIRST}.direction = "both"']
    else:
        turned = f"{FIRST}.norm = {factor['other']}; {FIRST}.other = {factor['norm']}"
        edits += [turned, f'{FIRST}.direction = "remove"']
    all_refused(payload, [(edit, "") for edit in edits])


@pytest.mark.parametrize("weights", [[2.0**-30], [0.5, 0.499999999], [1.0 - 2.0**-53], []], ids=str)
def test_a_mixture_beside_the_factors_lacks_no_probability(weights):
    """No Gaussian is proven, so that any mixture is implied; one that lacks probability would make rare
    whatever else is composed."""
    guarantee, much = promised("replaced"), pabi.NoisyAccuracy(100, 0.002).guarantee(DELTA)
    payload = guarantee.certificate.payload
    curve = payload["claim"]["tradeoff"]
    mixture = {"kind": "mixture", "mus": [0.0] * len(weights), "weights": weights, "count": 1}
    claim = {"tradeoff": curve | {"factors": [*curve["factors"], mixture]}}
    lacking = payload | {"claim": claim}
    refused(lacking, "^weights: ")
    refused(with_reading(lacking, 30.0, DELTA), "^weights: ")
    whole = pabi.compose(guarantee, much).certificate.payload
    refused(whole | {"parts": [lacking, whole["parts"][1]]}, "^part 1: weights: ")
    mixture |= {"mus": [0.0, 0.0], "weights": [0.5, 0.5]}
    assert pabi.verify(lacking).ok


@pytest.mark.parametrize("name", ["zeroed", "zeroed, convex"])
def test_an_epsilon_one_part_in_a_thousand_too_small_is_refused(name):
    payload = promised(name).certificate.payload
    least, _ = t.TradeOff.from_dict(payload["claim"]["tradeoff"]).epsilon_bounds(DELTA, 1e-4)
    # Ever finer grids are tried, until none is left or the time is over.
    refused(with_reading(payload, least * 0.999, DELTA), "^(reading|time): ")
    assert pabi.verify(with_reading(payload, least * 1.002, DELTA)).ok


@pytest.mark.parametrize(
    ("name", "size", "share"), [("replaced", "mu", 2.0), ("zeroed", "norm", 1.0)]
)
def test_what_older_versions_claimed_is_enough(name, size, share):
    """C_p(G(2C/bς)) reveals more; a little less of it does not do."""
    payload = promised(name).certificate.payload
    factor = payload["claim"]["tradeoff"]["factors"][0]
    older = {"kind": "subsampled", "probability": factor["probability"], "count": factor["count"]}
    for enough, scale in ((True, share), (False, share * (1.0 - 1e-9))):
        payload["claim"]["tradeoff"]["factors"] = [{**older, "mu": scale * factor[size]}]
        assert pabi.verify(payload).ok is enough


@pytest.mark.parametrize("tenth", range(10))
def test_no_two_records_tell_more(tenth):
    """A sum in the plane with any two records of norm at most μ: its exact divergence stays below what is
    claimed, and opposite records of norm μ attain it."""
    grid = np.arange(-9.0, 9.0, 0.04)
    z = np.stack(np.meshgrid(grid, grid), axis=-1)
    near = np.exp(-0.5 * np.square(z).sum(axis=-1))
    for seed in range(tenth, 40, 10):
        rng = np.random.default_rng(seed)
        p, mu = rng.uniform(0.02, 0.6), rng.uniform(0.3, 2.5)
        v, w = (mu * rng.uniform(0.0, 1.0) * x / np.linalg.norm(x) for x in rng.normal(size=(2, 2)))
        opposite = seed % 4 == 0
        if opposite:
            v = mu * v / np.linalg.norm(v)
            w = -v
        claimed = t.PoissonReplaced(mu, p)

        def density(place, p=p):
            at = np.exp(-0.5 * np.square(z - place).sum(axis=-1))
            return (p * at + (1.0 - p) * near) / (2.0 * math.pi)

        one, other = density(v), density(w)
        for epsilon in (-0.5, 0.0, 0.1, 0.5, 1.5, 3.0):
            exact = float(np.maximum(one - math.exp(epsilon) * other, 0.0).sum()) * 0.04**2
            assert exact <= claimed.delta(epsilon) + 1e-4
            assert not opposite or exact >= claimed.delta(epsilon) - 1e-4


# Where moments or relative errors of ε say little.


def epsilon_of(parts, delta):
    """The ε at which Σ w·δ(ε) of the parts is `delta`, in 30 digits."""

    def excess(epsilon):
        total = mpmath.mpf(0)
        for weight, mu in parts:
            near, far = mpmath.mpf(mu) / 2 - epsilon / mu, -mpmath.mpf(mu) / 2 - epsilon / mu
            total += mpmath.mpf(weight) * (
                mpmath.ncdf(near) - mpmath.exp(epsilon) * mpmath.ncdf(far)
            )
        return mpmath.log(total / mpmath.mpf(delta))

    with mpmath.workdps(40):
        return float(mpmath.findroot(excess, (1e-3, 300.0), solver="bisect", tol=1e-12))


def test_a_small_epsilon_at_a_large_delta():
    """At δ just below δ(0) an error of δ, however small, is a large part of ε: finer grids are tried."""
    factors = [Sampled("subsampled", Fraction(5, 11), 0.0320847165402357, 3)]
    stated = t.Product([(t.Subsampled(t.Gaussian(0.0320847165402357), 5 / 11), 3)]).epsilon(0.01)
    assert 0.0 < stated < 3e-4
    found = least_of(epsilons([], factors, 0.01), 0.01, 1.004 * stated)
    assert stated * (1 - 1e-3) <= found <= 1.004 * stated


@pytest.mark.parametrize("rare", [0.0, 1e-24, 1e-19, 1e-14, 1e-10])
@pytest.mark.parametrize("delta", [1e-3, 1e-8])
def test_mixtures_in_which_rare_outcomes_reveal_much(rare, delta):
    """Bounds by moments are far too large there."""
    parts = [(0.6, 1.5), (0.4 - 2.0**-20 - rare, 3.0), (2.0**-20, 6.0), (rare, 20.0)]
    exact = epsilon_of(parts, delta)
    stated = [(Fraction(weight), mu) for weight, mu in parts]
    found = least_of(epsilons(stated, [], delta), delta)
    assert exact * (1 - 1e-9) <= found <= exact * 1.001
