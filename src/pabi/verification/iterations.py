"""Certificates of bare iterations: the steps are taken as stated, the arithmetic is checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from flint import arb

from pabi import encoding
from pabi.validate import adjacency
from pabi.verification.arithmetic import Repeated, Steps, block_cost, check_cost, replay
from pabi.verification.claims import Factors, read_mu
from pabi.verification.limits import positions, timed
from pabi.verification.moduli import Omega, least_of, pay, stated
from pabi.verification.reading import HEADER, closed, columns, groups, integer, nonnegative
from pabi.verification.refusal import Refused

# Of payments, as the solver of linear slopes writes them.
SHIFTS = ("tau", "distance", "skipped", "blocks", "first", "unit", "ends", "q", "shift")
_ITERATION = (*HEADER, "run", "claim", "diameter", "start", "steps", "groups", "cases")
_NONLINEAR = ("tau", "distance", "payments", "at", "values")


def check_iteration(payload: dict[str, Any]) -> tuple[str, tuple[str, ...], Factors]:
    """(adjacency, assumptions, what is proven) of a certificate without a description."""
    from pabi.assumptions import iteration_sentences

    bent = payload["theorem"] == "nonlinear shifts"
    closed("the certificate", payload, (*_ITERATION, "moduli", "which") if bent else _ITERATION)
    closed("the claim", payload["claim"], ("mu",))
    if "steps" in payload:
        closed("steps", payload["steps"], ("s", "sigma") if bent else ("c", "s", "sigma"))
    if "steps" in payload and "groups" in payload:
        raise Refused("groups: the steps are stated twice")
    cases = 0 if payload["theorem"] == "composition" else 1
    if not isinstance(payload["cases"], list) or len(payload["cases"]) != cases:
        raise Refused(f"cases: expected a list of {cases}")
    for case in payload["cases"]:
        closed("a case", case, _NONLINEAR if bent else SHIFTS)
    name = adjacency(payload["adjacency"])
    diameter = None
    if payload["diameter"] is not None:
        diameter = nonnegative("diameter", payload["diameter"])
    start = nonnegative("start", payload["start"])
    mu = read_mu(payload["claim"]["mu"])
    hidden = payload["theorem"] != "composition"
    if bent:
        _check_nonlinear(payload, mu, diameter, start)
    elif payload["theorem"] == "shifted interpolation":
        check_case(payload, payload["cases"][0], mu, diameter, start)
    elif payload["theorem"] != "composition":
        raise Refused(f"theorem: the checker knows no {payload['theorem']!r} of an iteration")
    elif start > 0.0:
        raise Refused("start: composition needs equal starts")
    else:
        check_cost(_composition(payload), mu, "composition")
    proven = Factors(((Fraction(1), mu),))
    return name, iteration_sentences(name, diameter, start, hidden), proven


def _check_nonlinear(
    payload: dict[str, Any], mu: float, diameter: float | None, start: float
) -> None:
    """Refuse unless the payments prove `mu` for moduli taken as stated.

    A modulus without a table is a function, which never decreases: what is stated of it at a distance
    holds for all smaller ones.
    """
    if mu == float("inf"):
        return
    case, tables = payload["cases"][0], payload["moduli"]
    s, sigma = (column.tolist() for column in columns(payload["steps"], ("s", "sigma")))
    positions("steps", len(s))
    which = [0] * len(s)
    if payload["which"] is not None:
        which = [int(i) for i in encoding.read_floats("which", payload["which"]).tolist()]
    if len(which) != len(s) or not 0 <= min(which) <= max(which) < len(tables):
        raise Refused("which: expected a modulus for every step")
    known = [None if table is None else least_of(stated(table)) for table in tables]
    tau = integer("tau", case["tau"])
    distance = arb(check_start(case, diameter, start))
    points = zip(
        encoding.read_floats("at", case.get("at", [])).tolist(),
        encoding.read_floats("values", case.get("values", [])).tolist(),
        strict=True,
    )
    moduli = []
    for k in range(tau, len(s)):
        modulus = known[which[k]]
        if modulus is None:
            point = next(points, None)
            if point is None:
                raise Refused(f"step {k + 1}: at: no value of its modulus is stated")
            modulus = _from_value(k, *point)
        moduli.append(modulus)
    paid = encoding.read_floats("payments", case["payments"]).tolist()
    demands, noises = ([arb(x) for x in column[tau:]] for column in (s, sigma))
    cost = pay(moduli, demands, noises, distance, paid, tau)
    check_cost(cost, mu, f"step {len(s)}")


def _from_value(k: int, at: float, value: float) -> Omega:
    """What ω(at) = value says of smaller distances."""

    def omega(z: Any) -> Any:
        if z.is_zero():
            return arb(0)
        if not (z <= arb(at) and value >= 0.0):
            raise Refused(f"step {k + 1}: at: the distance there is larger than {at!r}")
        return arb(value)

    return omega


def _composition(payload: dict[str, Any]) -> Any:
    total = arb(0)
    if "groups" in payload:
        for times, stretches in groups(payload["groups"]):
            for n, _, s, sigma in stretches:
                total += times * n * _paid(s, sigma)
        return total
    s, sigma = columns(payload["steps"])[1:]
    positions("steps", len(s))
    for sensitivity, noise in timed(zip(s.tolist(), sigma.tolist(), strict=True)):
        total += _paid(sensitivity, noise)
    return total


def _paid(s: float, sigma: float) -> Any:
    if s == 0.0:
        return arb(0)
    if sigma == 0.0:
        return arb("inf")
    ratio = arb(s) / arb(sigma)
    return ratio * ratio


def check_case(
    stated: dict[str, Any], case: dict[str, Any], mu: float, diameter: float | None, start: float
) -> None:
    """Refuse unless the payments of `case` prove `mu` for the stated steps."""
    if mu == float("inf"):
        return
    distance = arb(check_start(case, diameter, start))
    if "blocks" in case:
        blocks = read_blocks(case)
        skipped, steps_stated = integer("skipped", case["skipped"]), groups(stated["groups"])
        if case["tau"] not in (0, skipped):
            raise Refused(f"step {skipped + 1}: tau: expected the steps left out, or 0")
        if case["tau"] == 0 and skipped and (start > 0.0 or _demands_within(steps_stated, skipped)):
            raise Refused(f"step {skipped}: skipped: steps with something to pay are left out")
        _same_steps(list(flat(blocks)), list(_without(steps_stated, skipped)))
        check_cost(blocks_cost(blocks, distance, skipped), mu, "the last step")
        return
    c, s, sigma = (
        columns(stated["steps"]) if "steps" in stated else _expanded(groups(stated["groups"]))
    )
    positions("steps", len(c))
    steps = Steps(*([arb(x) for x in column.tolist()] for column in (c, s, sigma)))
    check_cost(replay_case(case, steps, distance), mu, f"step {len(steps.c)}")


def check_start(case: dict[str, Any], diameter: float | None, start: float) -> float:
    """z_τ, if the runs cannot be further apart at τ: w_0 at the beginning, D later."""
    tau, distance = integer("tau", case["tau"]), nonnegative("distance", case["distance"])
    least = start if tau == 0 else diameter
    if least is None:
        raise Refused(f"step {tau + 1}: tau: a later start needs a diameter")
    if distance < least:
        raise Refused(f"step {tau + 1}: distance: expected at least {least!r}, got {distance!r}")
    return distance


def replay_case(case: dict[str, Any], steps: Steps, distance: Any) -> Any:
    """The cost of written-out payments."""
    ends = encoding.read_integers("ends", case["ends"]).tolist()
    q = encoding.read_floats("q", case["q"]).tolist()
    tau, first = integer("tau", case["tau"]), integer("first", case["first"])
    if tau >= len(steps.c):
        raise Refused(f"step {tau + 1}: tau: the run is over")
    unit = nonnegative("unit", case["unit"])
    if unit == 0.0:
        raise Refused("unit: expected a number > 0")
    if not len(ends) == len(q) <= len(steps.c):
        raise Refused(f"q: expected one for each of the {len(ends)} ends, at most one a step")
    shift = encoding.read_integers("shift", case.get("shift", [0] * len(q))).tolist()
    slopes = [arb(x) * arb(2) ** power / arb(unit) for x, power in zip(q, shift, strict=True)]
    return replay(steps, tau, distance, first, ends, slopes)


Blocks = list[tuple[int, list[Repeated]]]


def read_blocks(case: dict[str, Any]) -> Blocks:
    """Blocks of run-length encoded steps; only a block of one group may be repeated."""
    blocks = []
    for block in timed(case["blocks"]):
        closed("a block", block, ("times", "groups"))
        times, inner = integer("times", block["times"]), groups(block["groups"])
        if times < 1 or not inner or (times > 1 and len(inner) > 1):
            raise Refused("blocks: expected repetitions of a single group")
        blocks.append((times, inner))
    return blocks


def flat(blocks: Blocks) -> Iterator[Repeated]:
    """All groups in order."""
    for times, inner in blocks:
        for repeated, stretches in inner:
            yield times * repeated, stretches


def blocks_cost(blocks: Blocks, distance: Any, skipped: int) -> Any:
    """The cost of all blocks, the first of which also pays off `distance`."""
    total, k = arb(0), skipped
    for times, inner in timed(blocks):
        k += times * sum(m * sum(x.n for x in stretches) for m, stretches in inner)
        where = f"step {k}"
        if distance > 0 and times > 1:
            raise Refused(f"{where}: the first block cannot be repeated")
        total += times * block_cost(inner, distance, where)
        distance = arb(0)
    if not distance.is_zero():
        raise Refused(f"step {k + 1}: blocks: the distance at the start is never paid off")
    return total


def _demands_within(stated: Sequence[Repeated], steps: int) -> bool:
    """Whether any of the first steps has a sensitivity."""
    k = 0
    for times, stretches in stated:
        for stretch in stretches:
            if k < steps and stretch.s > 0.0:
                return True
            k += stretch.n
        k += (times - 1) * sum(x.n for x in stretches)
    return False


def _without(stated: Sequence[Repeated], skipped: int) -> Iterator[Repeated]:
    """The stated groups without their first steps."""
    for times, stretches in stated:
        length = sum(x.n for x in stretches)
        whole = min(times, skipped // length)
        skipped -= whole * length
        times -= whole
        if times and skipped:
            left = []
            for stretch in stretches:
                gone = min(skipped, stretch.n)
                skipped -= gone
                if stretch.n > gone:
                    left.append(stretch._replace(n=stretch.n - gone))
            yield 1, tuple(left)
            times -= 1
        if times:
            yield times, stretches


def _merged(parts: Sequence[Repeated]) -> list[Repeated]:
    out: list[Repeated] = []
    for times, stretches in parts:
        if out and out[-1][1] == stretches:
            out[-1] = (out[-1][0] + times, stretches)
        else:
            out.append((times, stretches))
    return out


def _same_steps(used: Sequence[Repeated], stated: Sequence[Repeated]) -> None:
    if not used:
        if any(x.s > 0.0 for _, stretches in stated for x in stretches):
            raise Refused("blocks: demands are left unpaid")
        return
    if _merged(used) != _merged(stated):
        raise Refused("blocks: their steps are not the stated ones")


def _expanded(stated: Sequence[Repeated]) -> tuple[Any, Any, Any]:
    import numpy as np

    positions("steps", sum(m * sum(x.n for x in stretches) for m, stretches in stated))
    parts = [
        np.tile(np.repeat([x[1:] for x in stretches], [x.n for x in stretches], axis=0), (times, 1))
        for times, stretches in stated
    ]
    table = np.concatenate(parts)
    return table[:, 0], table[:, 1], table[:, 2]
