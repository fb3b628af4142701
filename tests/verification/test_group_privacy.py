"""Certificates of groups and of users: honest ones are accepted, altered ones are not."""

import json
from functools import cache

import pytest

import pabi
from pabi import FullBatch, InvalidInput, Loss, NoisySGD, Poisson, ShuffleOnce
from pabi.tradeoff import Gaussian, Grouped
from support.certificates import accepted, all_refused, forgeries, refused

DELTA = 1e-4


def run_of(batches, unit="user", adjacency="zero_out"):
    return NoisySGD(
        Loss.logistic(1.0), 100, batches, epochs=2, step_size=0.5, noise_std=0.5,
        adjacency=adjacency, unit=unit,
    )  # fmt: skip


@cache
def honest(name: str) -> pabi.Guarantee:
    match name:
        case "gaussian":
            return run_of(FullBatch(), adjacency="replace_one").guarantee(DELTA).for_groups(3)
        case "mixture":
            return run_of(ShuffleOnce(10), "record").guarantee(DELTA).for_groups(3)
        case "pure":
            mechanism = pabi.ExponentialMechanism(
                Loss.lipschitz(1.0), n=10, dimension=2, diameter=1.0, epsilon=0.5
            )
            return mechanism.guarantee(0.0).for_groups(3)
        case "composed":
            return pabi.compose(honest("mixture"), honest("mixture"))
        case "sampled":
            return run_of(Poisson(10), "record").guarantee(DELTA).for_groups(2)
        case _:
            moments = pabi.NoisySecondMoments(100, 3, 1.0, noise_std=5.0, unit="user")
            both = pabi.compose(moments.guarantee(DELTA), run_of(
                FullBatch(), adjacency="replace_one").guarantee(DELTA))  # fmt: skip
            return both.for_groups(4)


NAMES = ("gaussian", "mixture", "pure", "composed", "several")


@pytest.mark.parametrize("name", NAMES)
def test_honest_certificates_are_accepted(name):
    verdict = accepted(honest(name))
    assert verdict.unit == honest(name).unit
    assert verdict.unit.startswith("groups of ")


@pytest.mark.parametrize("statistic", ["counts", "moments", "levels"])
def test_groups_of_zeroed_records_in_statistics_of_columns(statistic):
    """The sum over a group is at most as far as its members are, one after another."""
    threshold = 9.0 if statistic == "levels" else None
    member = pabi.NoisyColumnStatistics(
        100, 3, statistic, noise_std=5.0, threshold=threshold, adjacency="zero_out"
    ).guarantee(DELTA)
    group = member.for_groups(4)
    assert pabi.verify(group).ok
    if threshold is None:
        assert group.mu == pytest.approx(4.0 * member.mu, rel=1e-12)


def test_chains_of_sampled_batches_are_accepted():
    assert pabi.verify(honest("sampled")).ok


FORGED = forgeries("""
mixture | tradeoff.size = 2 |
    | certificate.claim.tradeoff.size = 2; tradeoff.size = 2 |
    | certificate.size = 4 |
    | unit = "groups of 4 records" |
    | unit = "groups of 3 users" |
    | unit = "record" |
    | certificate.unit = "record" |
    | del certificate.unit |
    | certificate.member.run.unit = "user" |
    | certificate.member.unit = "user" |
    | certificate.member.run.noise_std = 0.4 |
    | certificate.adjacency = "replace_one" |
    | del assumptions.-1 |
    | certificate.extra = 1 |
    | certificate.claim.tradeoff.base.mus *= 0.9; tradeoff.base.mus *= 0.9; epsilon = "inf" |
gaussian | certificate.claim.tradeoff.mu *= 0.99 |
    | certificate.size = 4 |
    | certificate.size = 1 |
    | certificate.size = 10000000000 |
    | del certificate.member.unit |
pure | certificate.claim.tradeoff.epsilon = 1.4 |
""")


def test_altered_certificates_are_refused():
    for name, lines in FORGED.items():
        all_refused(json.loads(honest(name).to_json()), lines)


def test_strong_convexity_is_refused_by_the_checker_as_well():
    """A proof object that nobody refused to make."""
    from pabi.tradeoff.guarantee import GROUPS_SOURCE, groups_proof

    run = NoisySGD(
        Loss.strongly_convex(0.1, 1.0, gradient_bound=1.0), 100, FullBatch(), epochs=2, step_size=0.5,
        noise_std=1.0, adjacency="zero_out",
    )  # fmt: skip
    member = run.guarantee(DELTA)
    with pytest.raises(pabi.NotApplicable):
        member.for_groups(2)
    curve = Gaussian(2.0 * member.mu * (1.0 + 1e-12))
    forged = pabi.Guarantee(
        curve, "zero_out", "group privacy", GROUPS_SOURCE, (),
        unit="groups of 2 records", proof=groups_proof(member, 2, curve),
    )  # fmt: skip
    refused(forged, "contribution is 0")


def test_a_certificate_about_a_record_proves_nothing_of_a_user():
    record = json.loads(run_of(FullBatch(), "record").guarantee(DELTA).to_json())
    user = json.loads(run_of(FullBatch(), "user").guarantee(DELTA).to_json())
    for one, unit in ((record, "user"), (user, "record")):
        assert pabi.verify(one).ok
        assert not pabi.verify({**one, "unit": unit}).ok
        one["certificate"]["unit"] = unit
        assert not pabi.verify({**one, "unit": unit}).ok


def test_a_strongly_convex_loss_of_users_is_refused_in_a_file():
    data = json.loads(run_of(FullBatch(), "user").guarantee(DELTA).to_json())
    numbers = {"strong_convexity": 0.1, "smoothness": 1.0, "gradient_bound": 1.0}
    data["certificate"]["run"]["loss"] = {"kind": "strongly_convex", **numbers}
    refused(data, "^malformed certificate: unit: ")


def test_units_do_not_mix():
    user, record = (run_of(FullBatch(), unit).guarantee(DELTA) for unit in ("user", "record"))
    with pytest.raises(InvalidInput, match="^unit: "):
        pabi.compose(user, record)
    with pytest.raises(InvalidInput, match="^unit: "):
        pabi.compose(user.for_groups(2), user)
    with pytest.raises(InvalidInput, match="^unit: "):
        user.for_groups(2).for_groups(2)
    assert user.for_groups(1) is user
    assert user.for_groups(2).unit == "groups of 2 users"
    assert isinstance(run_of(ShuffleOnce(10)).guarantee(DELTA).for_groups(2).curve, Grouped)
