"""Lies that no single edit tells, and the least edits of numbers, each of which has to be refused by itself.

Every single edit, judged by whether what is accepted is true, is in `test_forgeries`.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest

import pabi
from pabi.account.analyses import advance, secret_order
from pabi.numbers import encoding
from support.certificates import (
    LITTLE_LESS,
    LITTLE_MORE,
    POSITIVE,
    RUNS,
    all_stretches,
    changed_column,
    guarantee_of,
    payload_of,
    refused,
    too_small,
)

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")
TENTHS = pytest.mark.parametrize("tenth", range(10))


def less_in_claims(payload):
    """(where, the same with a little less there, words of the refusal) of μ, weights and distances."""
    claim = payload["claim"]
    if "mu" in claim:
        yield (("claim", "mu"), LITTLE_LESS, "mu")
    else:
        yield (("claim", "mixture", -1, 1), LITTLE_LESS, "mu")
    for j, (_, mu) in enumerate(claim.get("mixture", ())):
        yield (("claim", "mixture", j, 0), LITTLE_LESS, "")
        if mu:
            yield (("claim", "mixture", j, 1), LITTLE_LESS, "")
    for i, case in enumerate(payload["cases"]):
        for key in ("mu", "distance"):
            if case.get(key):
                yield (("cases", i, key), LITTLE_LESS, "step")


def worse_runs(payload):
    """Of the description: more sensitivity, or less noise."""
    for key, factor in (
        ("gradient_sensitivity", LITTLE_MORE),
        ("noise_std", LITTLE_LESS),
        ("noise_multiplier", LITTLE_LESS),
    ):
        if key in (payload["run"] or {}):
            yield (("run", key), factor, "")


def better_steps(payload):
    """Slope and sensitivity too small and noise too large in the steps that are shown of a run."""
    if payload["run"] is None:
        return
    for i, case in enumerate(payload["cases"][:3]):
        for b, block in enumerate(case.get("blocks", ())):
            for g, (_, stretches) in enumerate(block["groups"]):
                for j, stretch in enumerate(stretches):
                    for entry, factor in ((1, LITTLE_LESS), (2, LITTLE_LESS), (3, LITTLE_MORE)):
                        if stretch[entry]:
                            place = ("cases", i, "blocks", b, "groups", g, 1, j, entry)
                            yield (place, factor, "step")


def scaled(payload, path, factor):
    changed = copy.deepcopy(payload)
    parent = changed
    for key in path[:-1]:
        parent = parent[key]
    value = parent[path[-1]]
    if isinstance(value, float):
        parent[path[-1]] = value * factor
    else:
        parent[path[-1]] = encoding.floats(encoding.read_floats("x", value) * factor)
    return changed


@TENTHS
def test_a_little_less_is_refused(tenth):
    for name in POSITIVE[tenth::10]:
        payload = payload_of(name)
        edits = [*less_in_claims(payload), *worse_runs(payload), *better_steps(payload)]
        for path, factor, word in edits[:6] + edits[6::6]:
            verdict = pabi.verify(scaled(payload, path, factor))
            assert not verdict.ok, (name, path)
            assert word in verdict.reason, (name, path, verdict.reason)


@TENTHS
def test_any_payment_a_little_less_is_refused(tenth):
    written = [n for n in POSITIVE if any("q" in case for case in payload_of(n)["cases"])]
    for name in written[tenth::10]:
        for i, case in enumerate(payload_of(name)["cases"]):
            for k in range(len(encoding.read_floats("q", case["q"])) if "q" in case else 0):
                payload = payload_of(name)
                payload["cases"][i]["q"] = changed_column(case["q"], k, LITTLE_LESS)
                refused(payload, "step")


def test_written_steps_of_a_run():
    """Slope and sensitivity too small, noise too large, at the first, a middle and the last step."""
    factors = {"c": LITTLE_LESS, "s": LITTLE_LESS, "sigma": LITTLE_MORE}
    for name in [n for n in POSITIVE if payload_of(n)["run"]]:
        if payload_of(name).get("steps") is None:
            continue
        data = RUNS[name].data_steps
        for column, factor in factors.items():
            values = encoding.read_floats("x", payload_of(name)["steps"][column])
            for k in (k for k in (0, data // 2, data - 1) if values[k]):
                payload = payload_of(name)
                payload["steps"][column] = changed_column(payload["steps"][column], k, factor)
                refused(payload, f"step {k + 1}:")


def test_stated_steps_that_are_worse():
    """Of a bare iteration: worse than those whose payments are shown, or worse in both places."""
    for name in [n for n in POSITIVE if payload_of(n)["run"] is None]:
        for entry, column, factor in ((2, "s", LITTLE_MORE), (3, "sigma", LITTLE_LESS)):
            worse = payload_of(name)
            if "steps" in worse:
                values = encoding.read_floats(column, worse["steps"][column])
                if not values.any():
                    continue
                worse["steps"][column] = encoding.floats(values * factor)
            else:
                stretches = [s for _, part in worse["groups"] for s in part]
                if not any(stretch[entry] for stretch in stretches):
                    continue
                for stretch in stretches:
                    stretch[entry] *= factor
                refused(worse)
                for case in worse["cases"]:
                    for stretch in all_stretches(case):
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


def test_ranges_and_uses():
    for name in ("shuffle once", "falling, shuffle once", "reshuffle"):
        for i, case in enumerate(payload_of(name)["cases"][:12]):
            for r in range(len(case["ranges"])):
                for end, by in ((0, 1), (0, -1), (1, 1), (1, -1)):
                    payload = payload_of(name)
                    payload["cases"][i]["ranges"][r][end] += by
                    refused(payload)
    for name in ("cyclic", "falling", "reshuffle", "shuffle once", "partial epochs, reshuffle"):
        first, count, then = payload_of(name)["cases"][0]["uses"]
        lies = [[first, count - 1, then], [first - 1, count, then], [first, count, [*then, 3]]]
        lies += [[first, 0, then], [first, count, then[:-1]]] if then else [[first, 0, []]]
        for uses in lies:
            payload = payload_of(name)
            payload["cases"][0]["uses"] = uses
            refused(payload, "uses")


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
    verdict = pabi.verify(payload)
    assert verdict.ok, verdict.reason
    assert too_small(payload, verdict) is None


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
        verdict = pabi.verify(payload)
        assert not verdict.ok, how
        assert words in verdict.reason, (how, verdict.reason)
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
        verdict = pabi.verify(payload)
        assert too_small(payload, verdict) is None, (name, verdict)
        refused(payload | {"claim": {"mu": 0.0}})


def test_more_steps_skipped():
    for name in ("cyclic", "partial epochs", "cool-down", "diameter"):
        case = payload_of(name)["cases"][0]
        for more in (1, 5, 10**6):
            for tau in (0, case["tau"], case["skipped"] + more):
                payload = payload_of(name)
                payload["cases"][0].update(skipped=case["skipped"] + more, tau=tau)
                refused(payload)


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
        less = copy.deepcopy(payload)
        if i == 0:
            less["parts"][0]["claim"]["mu"] *= LITTLE_LESS
        else:
            less["parts"][1]["claim"]["mixture"][-1][1] *= LITTLE_LESS
        refused(less, f"part {i + 1}")
        alone, expected = pabi.verify(payload | {"parts": [part]}), pabi.verify(part)
        assert alone.ok  # which speaks of one of the releases only
        assert [mu for _, mu in sorted(alone.parts)] == pytest.approx(
            [mu for _, mu in sorted(expected.parts)], rel=1e-15
        )
        assert set(alone.assumptions) < set(whole.assumptions)
    outer = pabi.compose(
        pabi.compose(guarantee_of("cyclic"), guarantee_of("path")), guarantee_of("bare")
    )
    assert pabi.verify(outer).mu == outer.mu
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
        payload = analysis.apply(run, 1e-5).certificate.payload
        assert pabi.verify(payload).ok
        for ranges in ([], [[0, 3]], [[0, 3]] * 3):
            forged = copy.deepcopy(payload)
            forged["cases"][0]["ranges"] = ranges
            assert pabi.verify(forged).reason.startswith("ranges: expected cases of 2 each")
