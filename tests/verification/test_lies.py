"""Lies that no single edit tells, and the least edits of numbers, each of which has to be refused by itself.

Every single edit, judged by whether what is accepted is true, is in `test_forgeries`.
"""

import copy
from dataclasses import replace
from fractions import Fraction
from itertools import product

import flint
import numpy as np
import pytest

import pabi
from pabi.account.analyses import advance, secret_order, shifted_interpolation
from pabi.describe.files import to_dict
from pabi.describe.unlearning import Unlearning
from pabi.numbers import encoding
from pabi.numbers.rounding import root_of_fraction_up
from pabi.verification.theorems import table
from support.certificates import (
    DELTA,
    LITTLE_LESS,
    LITTLE_MORE,
    PER_FEATURE,
    POSITIVE,
    RUNS,
    forged,
    granted,
    guarantee_of,
    payload_of,
    refused,
    sgd,
)
from support.falsification.altered_oracle import wrong_with

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")


def a_little_less(payload):
    """(edit, word of the refusal): less is claimed or paid, or steps shown that are better than the run's."""
    claim, run = payload["claim"], payload["run"] or {}
    if "mu" in claim:
        yield f"claim.mu *= {LITTLE_LESS}", "mu"
    for j, (_, mu) in enumerate(claim.get("mixture", ())):
        for entry in (0, 1) if mu else (0,):
            yield f"claim.mixture.{j}.{entry} *= {LITTLE_LESS}", ""
    for key, factor in (
        ("gradient_sensitivity", LITTLE_MORE),
        ("noise_std", LITTLE_LESS),
        ("noise_multiplier", LITTLE_LESS),
    ):
        if key in run:
            yield f"run.{key} *= {factor}", ""
    for i, case in enumerate(payload["cases"]):
        for key in ("mu", "distance"):
            if case.get(key):
                yield f"cases.{i}.{key} *= {LITTLE_LESS}", "step"
        for k in range(len(encoding.read_floats("q", case["q"])) if "q" in case else 0):
            yield f"cases.{i}.q.{k} *= {LITTLE_LESS}", "step"
        for b, block in enumerate(case.get("blocks", ()) if run and i < 3 else ()):
            for g, (_, stretches) in enumerate(block["groups"]):
                for j, stretch in enumerate(stretches):
                    for entry, factor in ((1, LITTLE_LESS), (2, LITTLE_LESS), (3, LITTLE_MORE)):
                        if stretch[entry]:
                            yield (
                                f"cases.{i}.blocks.{b}.groups.{g}.1.{j}.{entry} *= {factor}",
                                "step",
                            )
    if run and payload.get("steps") is not None:
        for column, factor in (("c", LITTLE_LESS), ("s", LITTLE_LESS), ("sigma", LITTLE_MORE)):
            values = encoding.read_floats("x", payload["steps"][column])
            for k in {0, len(values) // 2, len(values) - 1}:
                if values[k]:
                    yield f"steps.{column}.{k} *= {factor}", f"step {k + 1}:"


@pytest.mark.parametrize("tenth", range(10))
def test_a_little_less_is_refused(tenth):
    for name in POSITIVE[tenth::10]:
        payload = payload_of(name)
        edits = list(a_little_less(payload))
        for edit, word in edits[:6] + edits[6::6]:
            refused(forged(payload, edit), word)


def test_stated_steps_that_are_worse():
    """Of a bare iteration: worse than those whose payments are shown, or worse in both places."""
    for name in [n for n in POSITIVE if payload_of(n)["run"] is None]:
        for entry, column, factor in ((2, "s", LITTLE_MORE), (3, "sigma", LITTLE_LESS)):
            worse = payload_of(name)
            if "steps" in worse:
                if encoding.read_floats(column, worse["steps"][column]).any():
                    refused(forged(worse, f"steps.{column} *= {factor}"))
                continue
            stated = [stretch for _, part in worse["groups"] for stretch in part]
            shown = [
                stretch
                for case in worse["cases"]
                for block in case["blocks"]
                for _, part in block["groups"]
                for stretch in part
            ]
            for stretches in (stated, shown) if any(stretch[entry] for stretch in stated) else ():
                for stretch in stretches:
                    stretch[entry] *= factor
                refused(worse)


def test_columns_of_different_lengths():
    for name in ("bare, written", "bare, start, written"):
        for column in ("c", "s", "sigma"):
            for length in (0, 1, 29, 31):
                payload = payload_of(name)
                values = encoding.read_floats(column, payload["steps"][column])
                payload["steps"][column] = encoding.floats(np.resize(values, length))
                refused(payload)


# Cases of others.


def test_the_cases_of_a_safer_record():
    for name in ("cyclic", "partial epochs", "diameter", "rising", "cool-down"):
        run = RUNS[name]
        worst = (run.data_steps - 1) % run.steps_per_epoch
        for position in set(range(run.steps_per_epoch)) - {worst}:
            safer, payload = payload_of(name, position), payload_of(name)
            own = payload["cases"][0]["uses"]
            payload["cases"], payload["claim"] = safer["cases"], safer["claim"]
            refused(payload, "uses")
            payload["cases"][0]["uses"] = own
            refused(payload)
    for name in ("falling", "expansive, cool-down"):  # every position has to be shown
        payload = payload_of(name)
        safest = min(payload["cases"], key=lambda case: case["mu"])
        payload["claim"]["mu"] = safest["mu"]
        for count in (len(payload["cases"]), 1):
            payload["cases"] = [copy.deepcopy(safest) for _ in range(count)]
            refused(payload)


def test_headings_of_other_cases():
    for name in ("falling", "falling, shuffle once", "reshuffle", "shuffle once"):
        count = len(payload_of(name)["cases"])
        for i, j in ((0, 1), (0, count - 1), (1, count - 1)):
            payload = payload_of(name)
            cases = payload["cases"]
            cases[i], cases[j] = cases[j], cases[i]
            for key in {"uses", "ranges", "weight"} & cases[0].keys():
                cases[i][key], cases[j][key] = cases[j][key], cases[i][key]
            refused(payload)


def test_other_ranges_and_uses_and_more_steps_skipped():
    for name in ("shuffle once", "falling, shuffle once", "reshuffle"):
        payload = payload_of(name)
        for i, case in enumerate(payload["cases"][:12]):
            for r in range(len(case["ranges"])):
                for end, by in ((0, 1), (0, -1), (1, 1), (1, -1)):
                    refused(forged(payload, f"cases.{i}.ranges.{r}.{end} += {by}"))
    for name in ("cyclic", "falling", "reshuffle", "shuffle once", "partial epochs, reshuffle"):
        payload = payload_of(name)
        for edit in ("0 += -1", "1 += -1", "2 += [3]", "1 = 0", "2 = [7, 7]"):
            refused(forged(payload, f"cases.0.uses.{edit}"), "uses")
    for name in ("cyclic", "partial epochs", "cool-down", "diameter"):
        payload = payload_of(name)
        case = payload["cases"][0]
        for more in (1, 5, 10**6):
            for tau in (0, case["tau"], case["skipped"] + more):
                refused(forged(payload, f"cases.0.skipped += {more}; cases.0.tau = {tau}"))


def test_pooled_positions():
    """Positions may be rounded to later ones only where a later use is never safer."""
    payload = payload_of("falling, shuffle once")
    cases = payload["cases"]
    cases[0]["ranges"] = [[0, 1]]
    del cases[1]
    refused(payload)
    last = cases[-1] | {"ranges": [[0, len(cases)]]}
    refused(payload | {"cases": [last], "claim": {"mu": last["mu"]}}, "rounded")
    payload = payload_of("shuffle once")
    last = payload["cases"][-1] | {"ranges": [[0, len(payload["cases"]) - 1]], "weight": [1, 1]}
    payload |= {"cases": [last], "claim": {"mu": last["mu"]}}
    assert_true(payload)


def assert_true(payload):
    """That it is accepted, and claims no less than what is proven afresh."""
    verdict = pabi.verify(payload)
    assert verdict.ok, verdict.reason
    assert wrong_with(payload, {}, verdict) is None


# Demands that nobody pays.


def shown(**changes):
    """A case of a bare iteration."""
    return {"tau": 0, "distance": 0.0, "skipped": 0, "blocks": [], **changes}


LATE = [[1, [[20, 1.0, 0.0, 1.0]]], [1, [[1, 1.0, 1.0, 1.0]]]]
EXPANDING = [[50, [[1, 1.2, 1.0, 1.0], [3, 1.0, 0.0, 1.0]]]]
STRETCH = [[1, [[30, 0.9, 1.0, 2.0]]]]
ONE_STEP = [{"times": 1, "groups": [[1, [[1, 0.9, 1.0, 2.0]]]]}]
UNPAID = {  # run: its steps where they are others, its case, what it claims, words of the refusal
    "steps left out": ("bare", None, shown(skipped=29, blocks=ONE_STEP), 0.5000001, ""),
    "steps after a start left out": (
        "bare, start", None, shown(distance=2.0, skipped=29, blocks=ONE_STEP), 1.41, ""),
    "a start": ("bare, start only", None, shown(distance=5.0), 0.0, ""),
    "a diameter": (
        "bare, diameter", None, shown(tau=30, skipped=30, distance=3.0), 0.0, ""),
    "demands that come late": (
        "bare", LATE, shown(blocks=[{"times": 1, "groups": LATE}]), 0.3, "before they arise"),
    "repetitions that expand": (
        "bare", EXPANDING, shown(blocks=[{"times": 1, "groups": EXPANDING}]), 0.5, ""),
    "demands in a stretch": (
        "bare", STRETCH, shown(blocks=[{"times": 1, "groups": STRETCH}]), 0.5, ""),
}  # fmt: skip


def test_unpaid_demands():
    for how, (name, groups, case, mu, words) in UNPAID.items():
        payload = payload_of(name) | {"cases": [case], "claim": {"mu": mu}}
        if groups is not None:
            payload["groups"] = groups
        try:
            refused(payload, words)
        except AssertionError as error:
            error.add_note(f"of {how}")
            raise
    payload = payload_of("bare, written")  # thirty demands, but a slope for one step
    payload["steps"]["c"] = [0.9]
    payload["cases"][0].update(tau=0, distance=0.0, first=0, ends=[0], q=[0.2500001])
    refused(payload | {"claim": {"mu": 0.500001}})


def test_a_start_at_the_very_end():
    for name in ("diameter", "diameter of a map", "diameter, shuffle once"):
        payload = payload_of(name)
        t, d = int(RUNS[name].steps), RUNS[name].range_diameter
        for case in payload["cases"]:
            for key in ("first", "ends", "q"):
                case.pop(key, None)
            case.update(tau=t, skipped=t, distance=d, blocks=[], mu=0.0)
        refused(payload | {"claim": {"mu": 0.0}})
    for name in ("falling, diameter", "bare, diameter, written"):
        for tau in (30, 31, 10**9):
            payload = payload_of(name)
            for case in payload["cases"]:
                case.update(tau=tau, distance=10.0, first=tau, ends=[], q=[], mu=0.0)
            refused(payload | {"claim": {"mu": 0.0}})


def test_no_payments():
    for name in POSITIVE:
        payload = payload_of(name)
        for case in payload["cases"]:
            if "blocks" in case:
                case["blocks"] = []
            elif "q" in case:
                case.update(ends=[], q=[])
        refused(payload | {"claim": {"mu": 0.0}})


# Descriptions and theorems of others.


def test_zero_out_is_another_adjacency_and_true_where_it_is_said():
    """A clipped run under the weaker adjacency needs half: honest only if it says so."""
    payload = payload_of("logistic, clipped")
    payload["run"]["adjacency"] = "zero_out"
    refused(payload, "adjacency")
    verdict = pabi.verify(payload | {"adjacency": "zero_out"})
    assert (verdict.ok, verdict.adjacency) == (True, "zero_out")
    assert any("zero_out" in s for s in verdict.assumptions)


def test_a_path_has_nothing_hidden():
    for name, changes in (
        ("cyclic", {"release": "path"}),
        ("cyclic", {"update": "other"}),
        ("shuffle once", {"release": "path"}),
    ):
        for theorem in ("shifted interpolation", "secret order"):
            payload = payload_of(name) | {"theorem": theorem}
            payload["run"] |= changes
            refused(payload)


# Compositions.


def test_compositions():
    whole = pabi.compose(guarantee_of("cyclic"), guarantee_of("shuffle once"))
    payload = whole.certificate.payload
    for i, part in enumerate(payload["parts"]):
        least = f"parts.{i}.claim.{('mu', 'mixture.-1.1')[i]}"
        refused(forged(payload, f"{least} *= {LITTLE_LESS}"), f"part {i + 1}")
        alone, expected = pabi.verify(payload | {"parts": [part]}), pabi.verify(part)
        assert alone.ok  # which speaks of one of the releases only
        assert [mu for _, mu in sorted(alone.parts)] == pytest.approx(
            [mu for _, mu in sorted(expected.parts)], rel=1e-15
        )
        assert set(alone.assumptions) < set(whole.assumptions)
    outer = pabi.compose(
        pabi.compose(guarantee_of("cyclic"), guarantee_of("path")), guarantee_of("bare")
    )
    assert outer.mu * (1.0 - 1e-11) < pabi.verify(outer).mu <= outer.mu
    for _ in range(5000):
        payload = payload | {"parts": [payload]}
    assert not pabi.verify(payload).ok


def test_a_case_has_a_range_for_each_of_the_last_epochs():
    run = pabi.NoisySGD(
        pabi.Loss.logistic(1.0, l2=0.01),
        n=500,
        batches=pabi.Reshuffle(50),
        epochs=3,
        step_size=0.5,
        noise_std=1.0,
    )
    for analysis in (secret_order, advance):
        payload = granted(analysis.apply, run, 1e-5).certificate.payload
        for ranges in ([], [[0, 3]], [[0, 3]] * 3):
            refused(
                forged(payload, f"cases.0.ranges = {ranges}"), "^ranges: expected cases of 2 each"
            )


@pytest.mark.parametrize("clip", [0.3, 1.0, 7.7, 1e-310])
def test_the_noise_of_a_multiplier_is_the_double_that_is_added(clip):
    """It is rounded down, which near the least double may leave a part of it."""
    for multiplier in (0.123, 1.1, 3.7, 4e-10):
        run = sgd(noise_std=None, noise_multiplier=multiplier, clip_norm=clip, **PER_FEATURE)
        payload = replace(run, release="path").guarantee(DELTA).certificate.payload
        uses = 6 * (Fraction(2 * clip) / 8 / Fraction(run.gradient_noise_std)) ** 2
        _least_claim(payload, uses)
    moments = pabi.NoisySecondMoments(9, 2, max(clip, 1e-155), noise_multiplier=0.123)
    square = 2 * Fraction(moments.feature_norm) ** 4 / Fraction(moments.moment_noise_std) ** 2
    _least_claim(moments.guarantee(DELTA).certificate.payload, square)


def _least_claim(payload, square):
    """Of μ no less is accepted than the root of what is true, and of doubles the next one is."""
    least = root_of_fraction_up(square)
    payload["claim"] = {"mu": least}
    assert pabi.verify(payload).ok
    payload["claim"] = {"mu": np.nextafter(least, 0.0)}
    refused(payload, "mu")


def test_more_cases_than_are_needed():
    """Of equal places the last one will do, and so will all of them; nothing in between."""
    payload = payload_of("cyclic")
    alone = payload["cases"]
    run = replace(RUNS["cyclic"], gradient_sensitivity=9.0)
    every = [run.guarantee(DELTA, position=j).certificate.payload["cases"][0] for j in range(5)]
    payload["run"]["gradient_sensitivity"], payload["claim"] = 9.0, {"mu": "inf"}
    refused(payload | {"cases": alone}, "step")
    assert pabi.verify(payload | {"cases": every}).ok
    assert pabi.verify(payload | {"cases": every[-1:]}).ok
    refused(payload | {"cases": every[1:]}, "cases: expected 1")
    refused(payload | {"cases": every[::-1]}, "uses")
    claimed = max(case["mu"] for case in every)
    assert pabi.verify(payload | {"cases": every, "claim": {"mu": claimed}}).mu == claimed
    less = claimed * LITTLE_LESS
    refused(payload | {"cases": every, "claim": {"mu": less}}, "mu")


def test_huge_steps_do_not_shrink_distances():
    """Their slopes are 1. A stated slope of 0 would pay for all uses in the cool-down."""
    run = pabi.NoisySGD(
        pabi.Loss.logistic(1e-151),
        1,
        pabi.FullBatch(),
        steps=3,
        cooldown_steps=1,
        step_size=np.full(3, 1e301),
        noise_std=1e-151,
        adjacency="zero_out",
    )
    payload = granted(shifted_interpolation.apply, run, DELTA).certificate.payload
    nothing = "steps.c = [0.0, 0.0, 0.0]; cases.0.ends = []; cases.0.q = []; cases.0.mu = 0.0"
    refused(forged(payload, f"{nothing}; claim.mu = 0.0"), "step 1: slope")


def test_precision_set_elsewhere():
    """Balls stay balls when another part of the program lowers flint's working precision."""
    for name in ("path, shuffle once", "path", "cyclic", "falling", "reshuffle"):
        payload = payload_of(name)
        least = "claim.mu" if "mu" in payload["claim"] else "claim.mixture.-1.1"
        for bits in (8, 24, 53):
            with flint.ctx.workprec(bits):
                refused(forged(payload, f"{least} *= 0.999999999"))


# Another theorem, under which nothing is paid.

SCHEMES = (
    pabi.FullBatch(),
    pabi.Cyclic(8),
    pabi.ShuffleOnce(7),
    pabi.Reshuffle(7),
    pabi.BallsInBins(8),
    pabi.BallsInBins(8, 16, redraw="epoch"),
    pabi.FixedSize(8),
    pabi.Poisson(8, cap=20),
)
ALONE = {"uses": [0, 0, []], "mu": 0.0, "tau": 0, "distance": 0.0}
# What a certificate may say by which nothing is paid; a key of these may also be missing.
NOTHING = {
    "position": [None],
    "cases": [
        [],
        [ALONE | {"first": 0, "unit": 1.0, "ends": [], "q": []}],
        [ALONE | {"blocks": []}],
        *([ALONE | {"payments": [0.0] * steps}] for steps in (10, 12, 13, 15)),
    ],
    "demands": ["every", "uses", "last", "latest", "none", "all"],
    "plan": [{}],
    "cap": [8, 40],
    "window": [0],
    "distance": [0.0],
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("batches", SCHEMES, ids=lambda batches: repr(batches))
def test_no_theorem_proves_anything_where_nothing_is_paid(batches):
    """A run that forgets was taken for one of a published model, to which nothing is owed."""
    given = {
        "loss": pabi.Loss.logistic(1.0, l2=0.1),
        "gradient_sensitivity": None,
        "batches": batches,
    }
    one = sgd(**given, epochs=2, adjacency="zero_out")
    runs = {"zero_out": one, "retrained": Unlearning(one, [(3, 1)])}
    for adjacency, run in runs.items():
        header = {"format": "pabi.certificate", "version": 2, "adjacency": adjacency, "assumes": []}
        header |= {"run": to_dict(run), "claim": {"mu": 0.0}}
        for theorem, proofs in table().items():
            keys = sorted({key for proof in proofs.values() for key in proof.keys} & NOTHING.keys())
            for values in product(*([*NOTHING[key], "missing"] for key in keys)):
                body = {k: v for k, v in zip(keys, values, strict=True) if v != "missing"}
                if "the checker knows no" in refused(header | body | {"theorem": theorem}):
                    break  # for any body
