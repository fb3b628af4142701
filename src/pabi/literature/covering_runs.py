"""Which published bounds cover a run of noisy SGD, and what they say of it.

Each candidate reads the run, raises NotApplicable where a hypothesis of the theorem fails, and otherwise
evaluates the bound at the run's parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from pabi.convert import clt_mu
from pabi.describe.runs import NoisySGD
from pabi.literature import (
    altschuler_talwar,
    asoodeh_diaz,
    bok,
    bravo,
    chien_li,
    dong,
    feldman,
    kong_ribero,
    ye_shokri,
)
from pabi.literature.published import Bound, Published, require
from pabi.literature.reading import Candidate, Evaluate, Reading, read, read_orders
from pabi.numbers.errors import NotApplicable
from pabi.numbers.showing import shown

# What a run must be for the theorems to speak of it.


def _plain(run: NoisySGD) -> None:
    require(run.rule.plain, "plain noisy SGD")
    require(run.release == "last", "release of the last iterate only")
    require(run.constant, "constant step size and noise")
    require(run.cooldown_steps == 0, "no cool-down")


def _full(run: NoisySGD) -> None:
    _plain(run)
    require(run.batches.kind == "full_batch", "full batches")


def _cyclic(run: NoisySGD) -> int:
    """Epochs of whole cyclic batches."""
    _plain(run)
    require(run.batches.kind == "cyclic", "cyclic batches")
    require(run.n % run.batch_size == 0, "a batch size that divides n")
    epochs, rest = divmod(run.data_steps, run.steps_per_epoch)
    require(rest == 0, "whole epochs")
    return epochs


def _sampled(run: NoisySGD, kind: str) -> None:
    _plain(run)
    names = {"fixed_size": "batches of fixed size drawn afresh", "poisson": "Poisson batches"}
    require(run.batches.kind == kind, names[kind])
    require(getattr(run.batches, "cap", None) is None, "batches without a cap")


def _slope(run: NoisySGD) -> float:
    step = np.array([run.step_size])
    return float(run.loss.slopes(step, run.clip_norm, clipping=run.clipping)[0])


def _strongly_convex(run: NoisySGD) -> float:
    slope = _slope(run)
    require(slope < 1.0, f"strongly convex losses and steps that contract (slope {shown(slope)})")
    return slope


def _convex(run: NoisySGD) -> None:
    slope = _slope(run)
    require(slope <= 1.0, f"convex smooth losses and η ≤ 2/M (slope {shown(slope)})")


def _diameter(run: NoisySGD) -> float:
    require(math.isfinite(run.range_diameter), "a set of finite diameter")
    return run.range_diameter


def _record_bound(run: NoisySGD) -> float:
    bound = run.record_gradient_bound
    if bound is None:
        raise NotApplicable("needs a bound on one record's gradient")
    return bound


def _replaced(run: NoisySGD) -> None:
    require(run.adjacency == "replace_one", "adjacency replace_one")


def _unregularised(run: NoisySGD) -> None:
    require(run.loss.l2 == 0.0, "no ℓ2 term beside the bounded gradients")


def _curvature(run: NoisySGD) -> tuple[float, float]:
    """(m, M) of losses of curvature in [−m, M]."""
    curvature = run.loss.curvature
    if curvature is None:
        raise NotApplicable("needs losses of known curvature")
    m, big = max(0.0, -curvature[0]), max(0.0, curvature[1])
    require(m + big > 0.0, "losses that are not linear")
    return m, big


# Bok, Su, Altschuler; Dong, Roth, Su; Ye, Shokri; Feldman et al.


def _composition(run: NoisySGD, delta: float) -> Reading:
    require(not run.order.fresh, "batches that use a record at known times")
    require(run.constant, "constant step size and noise")
    uses = -(-run.data_steps // run.steps_per_epoch)
    each = run.sensitivity / (run.batch_size * float(run.gradient_noise_std))
    return read(dong.corollary_3_3(mus=[each] * uses), delta)


def _noise(run: NoisySGD) -> dict[str, Any]:
    return {"L": run.sensitivity, "noise_std": float(run.gradient_noise_std)}


def _bok_4_1(run: NoisySGD, delta: float) -> Reading:
    _full(run)
    return read(bok.theorem_4_1(n=run.n, steps=run.steps, **_noise(run)), delta)


def _bok_4_2(run: NoisySGD, delta: float) -> Reading:
    _full(run)
    slope = _strongly_convex(run)
    return read(bok.theorem_4_2(n=run.n, steps=run.steps, slope=slope, **_noise(run)), delta)


def _bok_4_3(run: NoisySGD, delta: float) -> Reading:
    _full(run)
    _convex(run)
    found = bok.theorem_4_3(
        n=run.n, steps=run.steps, step_size=run.step_size, diameter=_diameter(run), **_noise(run)
    )
    return read(found, delta)


def _bok_4_4(run: NoisySGD, delta: float) -> Reading:
    epochs = _cyclic(run)
    return read(bok.theorem_4_4(b=run.batch_size, epochs=epochs, **_noise(run)), delta)


def _bok_4_5(run: NoisySGD, delta: float) -> Reading:
    epochs = _cyclic(run)
    found = bok.theorem_4_5(
        b=run.batch_size,
        slope=_strongly_convex(run),
        batches_per_epoch=run.steps_per_epoch,
        epochs=epochs,
        **_noise(run),
    )
    return read(found, delta)


def _bok_4_6(run: NoisySGD, delta: float) -> Reading:
    epochs = _cyclic(run)
    _convex(run)
    found = bok.theorem_4_6(
        b=run.batch_size,
        step_size=run.step_size,
        diameter=_diameter(run),
        batches_per_epoch=run.steps_per_epoch,
        epochs=epochs,
        **_noise(run),
    )
    return read(found, delta)


def _bok_4_8(run: NoisySGD, delta: float) -> Reading:
    _sampled(run, "fixed_size")
    found = bok.theorem_4_8(b=run.batch_size, n=run.n, steps=run.steps, **_noise(run))
    return read(found, delta)


def _best_window(
    longest: int, guess: Callable[[int], float], epsilon: Callable[[int], float]
) -> float:
    """The least ε found over the numbers of last steps, 1..longest, in which the theorem lets one pay.

    From the best of `guess` downhill, in steps that are halved until they are one. Every number is valid.
    """
    here = min({round(x) for x in np.geomspace(1, longest, 200)}, key=guess)
    best, stride = epsilon(here), max(1, here // 8)
    while True:
        tried = {k: epsilon(k) for k in (here - stride, here + stride) if 1 <= k <= longest}
        nearest = min(tried, key=lambda k: tried[k], default=here)
        if tried.get(nearest, math.inf) < best:
            here, best = nearest, tried[nearest]
        elif stride == 1:
            return best
        else:
            stride //= 2


def _clt(run: NoisySGD, factor: float, steps: int, shift: float) -> float:
    """The central limit's guess of the μ of a shift and `steps` subsampled factors."""
    mu = factor * run.sensitivity / (run.batch_size * float(run.gradient_noise_std))
    return math.hypot(shift, clt_mu(run.batch_size / run.n, mu, steps))


def _bok_4_9(run: NoisySGD, delta: float) -> Reading:
    _sampled(run, "fixed_size")
    slope, t = _strongly_convex(run), run.steps
    require(t >= 2, "at least 2 steps")
    unit = 2.0 * math.sqrt(2.0) * run.sensitivity / (run.batch_size * float(run.gradient_noise_std))

    def guess(left: int) -> float:
        moved = unit * (slope ** (left + 1) - slope**t) / (1.0 - slope)
        return _clt(run, 2.0, left, moved)

    @cache
    def epsilon(left: int) -> float:
        found = bok.theorem_4_9(
            b=run.batch_size, n=run.n, slope=slope, steps=t, start=t - left, **_noise(run)
        )
        return read(found, delta)[0]

    return _best_window(t - 1, guess, epsilon), None


def _bok_4_10(run: NoisySGD, delta: float) -> Reading:
    _sampled(run, "fixed_size")
    _convex(run)
    diameter, t = _diameter(run), run.steps
    unit = math.sqrt(2.0) * diameter / (run.step_size * float(run.gradient_noise_std))

    def guess(left: int) -> float:
        return _clt(run, 2.0 * math.sqrt(2.0), left, unit / math.sqrt(left))

    @cache
    def epsilon(left: int) -> float:
        found = bok.theorem_4_10(
            b=run.batch_size,
            n=run.n,
            step_size=run.step_size,
            diameter=diameter,
            steps=t,
            start=t - left,
            **_noise(run),
        )
        return read(found, delta)[0]

    return _best_window(t, guess, epsilon), None


def _ye_shokri(run: NoisySGD, delta: float) -> Reading:
    epochs = _cyclic(run)
    require(run.steps_per_epoch >= 2, "at least 2 batches an epoch")
    found = ye_shokri.theorem_3_3(
        b=run.batch_size,
        slope=_strongly_convex(run),
        batches_per_epoch=run.steps_per_epoch,
        epochs=epochs,
        **_noise(run),
    )
    return read(found, delta)


def _feldman(run: NoisySGD, delta: float) -> Reading:
    epochs = _cyclic(run)
    require(run.batch_size == 1 and epochs == 1, "one pass, one record at a time")
    _convex(run)
    _replaced(run)
    _unregularised(run)
    noise = float(run.gradient_noise_std)
    found = feldman.theorem_23(L=_record_bound(run), n=run.n, position=run.n, noise_std=noise)
    return read(found, delta)


# Kong, Ribero.


def _clipped(run: NoisySGD) -> dict[str, Any]:
    _plain(run)
    require(run.batches.kind in ("cyclic", "full_batch"), "cyclic batches")
    require(run.n % run.batch_size == 0, "a batch size that divides n")
    _replaced(run)
    _unregularised(run)
    return {
        "clip_norm": _record_bound(run),
        "step_size": run.step_size,
        "step_noise_std": run.step_size * float(run.gradient_noise_std),
    }


def _kong_4_3(run: NoisySGD, delta: float) -> Reading:
    given = _clipped(run)
    require(run.steps >= run.steps_per_epoch, "at least one epoch")
    return read(kong_ribero.theorem_4_3(steps=run.steps, **given), delta)


def _kong_4_4(run: NoisySGD, delta: float) -> Reading:
    given, (m, big) = _clipped(run), _curvature(run)
    found = kong_ribero.theorem_4_4(m=m, M=big, b=run.batch_size, diameter=_diameter(run), **given)
    return read(found, delta)


def _kong_4_5(run: NoisySGD, delta: float) -> Reading:
    given, (m, big) = _clipped(run), _curvature(run)
    found = kong_ribero.theorem_4_5(
        m=m,
        M=big,
        b=run.batch_size,
        batches_per_epoch=run.steps_per_epoch,
        steps=run.steps,
        **given,
    )
    return read(found, delta)


def _kong_22(run: NoisySGD, delta: float) -> Reading:
    given, (m, big) = _clipped(run), _curvature(run)
    require(m == 0.0, "convex losses")
    found = kong_ribero.equation_22(
        M=big,
        b=run.batch_size,
        batches_per_epoch=run.steps_per_epoch,
        steps=run.steps,
        **given,
    )
    return read(found, delta)


def _kong_c_3(run: NoisySGD, delta: float) -> Reading:
    given, (m, big) = _clipped(run), _curvature(run)
    require(run.steps >= run.steps_per_epoch, "at least one epoch")
    found = kong_ribero.corollary_c_3(
        m=m,
        M=big,
        b=run.batch_size,
        batches_per_epoch=run.steps_per_epoch,
        epochs=run.steps // run.steps_per_epoch,
        **given,
    )
    return read(found, delta)


# Bravo, Flores-Mella, Guzmán; Altschuler, Talwar; Asoodeh, Diaz.


def _bounded_sgd(run: NoisySGD, kind: str) -> dict[str, Any]:
    _sampled(run, kind)
    _replaced(run)
    _unregularised(run)
    return {
        "L": _record_bound(run),
        "b": run.batch_size,
        "n": run.n,
        "diameter": _diameter(run),
        "step_size": run.step_size,
        "noise_std": float(run.gradient_noise_std),
    }


def _holder(run: NoisySGD) -> list[tuple[float, float]]:
    """Pairs (p, M): convex losses whose gradient is p-Hölder with constant M."""
    require(
        not run.loss.clips(run.clip_norm, run.clipping), "gradients that are bounded by themselves"
    )
    pairs = [(float(p), float(c)) for p, c in dict(run.loss.parameters).get("pairs", ())]
    curvature, bound = run.loss.curvature, run.loss.gradient_bound
    convex = bool(pairs) or run.loss.kind == "lipschitz" or bool(curvature and curvature[0] >= 0.0)
    require(convex, "convex losses")
    if curvature is not None and curvature[1] > 0.0:
        pairs.append((1.0, curvature[1]))
    if bound is not None:
        pairs.append((0.0, 2.0 * bound))
    return pairs


def _bravo_5(bound: Bound[...]) -> Evaluate:
    def evaluate(run: NoisySGD, delta: float) -> Reading:
        given = _bounded_sgd(run, "poisson")
        best, reason = math.inf, "no Hölder exponent"
        for exponent, constant in _holder(run):

            def at(order: float, p: float = exponent, big: float = constant) -> Published:
                return bound(exponent=p, constant=big, steps=run.steps, order=order, **given)

            try:
                best = min(best, read_orders(at, delta)[0])
            except NotApplicable as no:
                reason = no.reason
        if best == math.inf:
            raise NotApplicable(reason)
        return best, None

    return evaluate


def _chien_li(run: NoisySGD, delta: float) -> Reading:
    _plain(run)
    _full(run)
    _unregularised(run)
    p = dict(run.loss.parameters)
    rough = (p["exponent"], p["constant"]) if run.loss.kind == "holder" else None
    exponent, constant = rough or (1.0, max(_curvature(run)))
    s, sigma = run.step_constants(np.array([run.step_size]), np.array([run.gradient_noise_std]))
    found = chien_li.theorem_3_1(
        exponent=exponent,
        constant=constant,
        step_size=run.step_size,
        step_sensitivity=float(s[0]),
        step_noise_std=float(sigma[0]),
        diameter=_diameter(run),
        steps=run.steps,
        order=2.0,
    )
    return read(found, delta)  # linear in the order


def _altschuler(run: NoisySGD, delta: float) -> Reading:
    given = _bounded_sgd(run, "poisson")
    _convex(run)

    def at(order: float) -> Published:
        return altschuler_talwar.theorem_3_1(steps=run.steps, order=order, **given)

    return read_orders(at, delta)


def _bravo_5_4(run: NoisySGD, delta: float) -> Reading:
    given, smoothness = _bounded_sgd(run, "fixed_size"), max(_curvature(run))

    def at(order: float) -> Published:
        return bravo.theorem_5_4(smoothness=smoothness, steps=run.steps, order=order, **given)

    return read_orders(at, delta)


def _asoodeh(run: NoisySGD, delta: float) -> Reading:
    return read(asoodeh_diaz.equation_24(delta=delta, **_bounded_sgd(run, "fixed_size")), delta)


def _asoodeh_2(run: NoisySGD, delta: float) -> Reading:
    return read(asoodeh_diaz.theorem_2(delta=delta, **_bounded_sgd(run, "fixed_size")), delta)


CANDIDATES = (
    Candidate(dong.corollary_3_3, _composition),
    Candidate(bok.theorem_4_1, _bok_4_1),
    Candidate(bok.theorem_4_2, _bok_4_2),
    Candidate(bok.theorem_4_3, _bok_4_3),
    Candidate(bok.theorem_4_4, _bok_4_4),
    Candidate(bok.theorem_4_5, _bok_4_5),
    Candidate(bok.theorem_4_6, _bok_4_6),
    Candidate(bok.theorem_4_8, _bok_4_8),
    Candidate(bok.theorem_4_9, _bok_4_9),
    Candidate(bok.theorem_4_10, _bok_4_10),
    Candidate(ye_shokri.theorem_3_3, _ye_shokri),
    Candidate(feldman.theorem_23, _feldman),
    Candidate(kong_ribero.theorem_4_3, _kong_4_3),
    Candidate(kong_ribero.theorem_4_4, _kong_4_4),
    Candidate(kong_ribero.theorem_4_5, _kong_4_5),
    Candidate(kong_ribero.equation_22, _kong_22),
    Candidate(kong_ribero.corollary_c_3, _kong_c_3),
    Candidate(chien_li.theorem_3_1, _chien_li),
    Candidate(bravo.theorem_5_2, _bravo_5(bravo.theorem_5_2)),
    Candidate(bravo.remark_5_3, _bravo_5(bravo.remark_5_3)),
    Candidate(bravo.theorem_5_4, _bravo_5_4),
    Candidate(altschuler_talwar.theorem_3_1, _altschuler),
    Candidate(asoodeh_diaz.theorem_2, _asoodeh_2),
    Candidate(asoodeh_diaz.equation_24, _asoodeh),
)
