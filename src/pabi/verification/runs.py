"""Certificates of noisy SGD: everything is derived again from the embedded description."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from flint import arb, fmpq

from pabi import encoding
from pabi.assumptions import noisy_sgd
from pabi.description import from_dict
from pabi.runs import NoisySGD
from pabi.verification import random_batches
from pabi.verification.arithmetic import Steps, check_cost, root_up
from pabi.verification.claims import Bounds, Factors, Part, read_mu
from pabi.verification.derivation import Derived, Uses, check_arrays, check_groups
from pabi.verification.iterations import (
    SHIFTS,
    blocks_cost,
    check_start,
    flat,
    read_blocks,
    replay_case,
)
from pabi.verification.langevin import CheckRun, check_described
from pabi.verification.limits import in_time, positions, timed
from pabi.verification.moduli import Omega, derived_rows, largest_of, least_of, pay
from pabi.verification.reading import HEADER, closed, columns, integer
from pabi.verification.refusal import Refused

Range = tuple[int, int] | None

_KEYS = (*HEADER, "run", "claim", "position")
_LINEAR_KEYS = (*_KEYS, "cases", "steps")
_OF = {
    "composition": (*_KEYS, "cases"),
    "shifted interpolation": _LINEAR_KEYS,
    "secret order": _LINEAR_KEYS,
    "nonlinear shifts": (*_KEYS, "cases", "alike"),
}
_ANY = (*_LINEAR_KEYS, "alike")
_OF_SAMPLED = (*_KEYS, "plan", "reading")
_CASE = ("uses", "mu", "weight", "ranges", "tau", "distance")
_NONLINEAR = (*_CASE, "payments")
_LINEAR = (*_CASE, *SHIFTS)


def check_run(
    payload: dict[str, Any], check_whole: CheckRun
) -> tuple[str, tuple[str, ...], Bounds]:
    """(adjacency, assumptions, what is proven) of a certificate with a description.

    `check_whole` checks a certificate that is part of it.
    """
    if "epsilons" in payload["run"]:  # each of which is a round, gone through where it is read
        positions("rounds", len(payload["run"]["epsilons"]))
    run = from_dict(payload["run"])
    if not isinstance(run, NoisySGD):
        return check_described(run, payload, check_whole)
    theorem, position = payload["theorem"], payload["position"]
    keys = (
        _OF_SAMPLED if (run.batches.kind in ("fixed_size", "poisson")) else _OF.get(theorem, _ANY)
    )
    closed("the certificate", payload, keys)
    derived = Derived(run)
    if position is not None:
        if run.batches.kind not in ("cyclic", "full_batch"):
            raise Refused("position: it is known in cyclic runs only")
        if integer("position", position) >= derived.period:
            raise Refused(f"position: expected less than {derived.period}, got {position}")
    hidden = theorem != "composition"
    if hidden and (run.release != "last" or not run.rule.plain):
        raise Refused("run: the theorem needs plain noisy SGD with a hidden path")
    said = noisy_sgd(run, hidden=hidden, position=position)
    if run.batches.kind in ("fixed_size", "poisson"):
        if position is not None:
            raise Refused("position: nobody has one in random batches")
        proven = random_batches.proven(derived, theorem, payload["plan"])
        return run.adjacency, said, (proven,)
    if theorem == "composition":
        if payload["cases"] != []:
            raise Refused("cases: composition has none")
        cases = _composition(derived, position, payload["claim"])
    elif theorem == "shifted interpolation":
        cases = _worst(derived, position, payload)
    elif theorem == "secret order":
        cases = _secret_order(derived, payload)
    elif theorem == "nonlinear shifts":
        cases = _nonlinear(derived, position, payload)
    else:
        raise Refused(f"theorem: the checker knows no {theorem!r} for these batches")
    return run.adjacency, said, (Factors(tuple(cases)),)


def _composition(derived: Derived, position: int | None, claim: Any) -> list[Part]:
    """Σ (s_k/σ_k)² over the uses of every position."""
    totals = _totals(derived, position)
    if derived.run.batches.kind != "shuffle_once":
        mu = read_mu(claim["mu"])
        check_cost(arb(max(total for total, _ in totals)), mu, "composition")
        return [(Fraction(1), mu)]
    return [(_fraction(share), root_up(total)) for total, share in totals if share]


def _totals(derived: Derived, position: int | None) -> list[tuple[Any, Any]]:
    """(Σ (s_k/σ_k)², share of the records) for every position, equal ones together."""
    period, data = derived.period, derived.data
    epochs, rest = divmod(data, period)
    if derived.constant:
        once, more = derived.privacy_loss(0), 1 if rest else 0
        if position is not None:
            return [(once * (epochs + (1 if position < rest else 0)), fmpq(1))]
        if derived.run.batches.kind == "reshuffle":
            return [(once * (epochs + more), fmpq(1))]
        late = derived.share(0, rest - 1) if rest else fmpq(1)
        return [(once * (epochs + more), late), (once * epochs, 1 - late)]
    positions("steps", data)
    losses = [derived.privacy_loss(k) for k in timed(range(data))]
    if position is not None:
        return [(sum(timed(losses[position::period]), fmpq(0)), fmpq(1))]
    if derived.run.batches.kind == "reshuffle":
        worst = (max(losses[a : a + period]) for a in range(0, data, period))
        return [(sum(timed(worst), fmpq(0)), fmpq(1))]
    used = min(period, data)
    found = [(sum(timed(losses[j::period]), fmpq(0)), derived.share(j, j)) for j in range(used)]
    return [*found, (fmpq(0), derived.share(used, period - 1))] if used < period else found


def _check_weight(case: dict[str, Any], weight: Fraction) -> None:
    if list(case["weight"]) != [weight.numerator, weight.denominator]:
        raise Refused(f"weight: expected {weight}, got {case['weight']!r}")


def _fraction(x: Any) -> Fraction:
    return Fraction(int(x.p), int(x.q))


def _worst(derived: Derived, position: int | None, payload: dict[str, Any]) -> list[Part]:
    """One case, or one for every position that could be the worst."""
    if derived.run.batches.kind == "reshuffle":
        raise Refused("theorem: a record's place changes every epoch")
    later_is_worse = position is None and derived.later_is_worse()
    return _worst_position(
        derived, position, later_is_worse, payload["cases"], CaseCheck(derived, payload)
    )


def _worst_position(
    derived: Derived,
    position: int | None,
    later_is_worse: bool,
    cases: Sequence[Any],
    check: Callable[[dict[str, Any], Uses], float],
) -> list[Part]:
    if position is not None:
        needed = [position]
    elif later_is_worse:
        needed = [(derived.data - 1) % derived.period]
    else:
        needed = list(range(positions("positions", derived.period)))
    if len(cases) != len(needed):
        raise Refused(f"cases: expected {len(needed)}, one for every position that can be worst")
    mus = [check(case, _cyclic_uses(derived, j)) for case, j in zip(cases, needed, strict=True)]
    return [(Fraction(1), max(mus))]


def _nonlinear(derived: Derived, position: int | None, payload: dict[str, Any]) -> list[Part]:
    """Payments under moduli that are not linear, for the worst position or averaged over a secret order.

    If all steps are taken to be alike, a record used later is never safer.
    """
    alike, kind, cases = payload["alike"], derived.run.batches.kind, payload["cases"]
    if not isinstance(alike, bool) or (alike and not (derived.constant and position is None)):
        raise Refused("alike: steps that vary are not alike, and one position needs none of it")
    check = NonlinearCheck(derived, alike)
    if kind == "shuffle_once":
        return _shuffled_once(derived, cases, check, alike)
    if kind == "reshuffle":
        raise Refused("theorem: a record's place changes every epoch")
    return _worst_position(derived, position, alike, cases, check)


class NonlinearCheck:
    """Checks the payments of one case after another; `alike`: every step with data has the largest of their
    moduli, and the cool-down is left out."""

    def __init__(self, derived: Derived, alike: bool) -> None:
        self.derived, self.alike = derived, alike
        self.end = derived.data if alike else derived.total
        d = derived.run.range_diameter
        self.diameter = None if d == float("inf") else d
        self._known: dict[Any, Any] = {}

    def __call__(self, case: dict[str, Any], uses: Uses) -> float:
        """The μ of the case, if its payments prove it for a record with these uses."""
        closed("a case", case, _NONLINEAR)
        check_uses(case, uses)
        mu = read_mu(case["mu"])
        if uses.total == 0 or mu == float("inf"):
            return mu
        distance = arb(check_start(case, self.diameter, 0.0))
        paid = encoding.read_floats("payments", case["payments"]).tolist()
        tau = integer("tau", case["tau"])
        if tau + len(paid) != self.end:
            raise Refused(f"payments: step {tau + len(paid)}: expected the last at step {self.end}")
        used, derived = set(uses.all()), self.derived
        positions("steps", self.end)
        steps = range(tau, self.end)
        s = [arb(derived.s(k)) if k in used else arb(0) for k in steps]
        sigma = [arb(derived.sigma(k)) for k in timed(steps)]
        cost = pay([self._modulus(k) for k in steps], s, sigma, distance, paid, tau)
        check_cost(cost, mu, f"step {self.end}")
        return mu

    def _modulus(self, k: int) -> Omega:
        derived = self.derived
        if self.alike:
            kinds = derived.kinds(0, min(derived.data, derived.period))
            fractions = tuple(sorted({derived.fraction(j) for j in kinds}))
        else:
            fractions = (derived.fraction(k),)
        key = derived.step_size(k), fractions
        if key not in self._known:
            rows = [derived_rows(derived, k, f) for f in fractions]
            self._known[key] = largest_of([least_of(r) for r in rows])
        return self._known[key]  # type: ignore[no-any-return]


def check_uses(case: dict[str, Any], uses: Uses) -> None:
    """Refuse unless the case is about a record with these uses."""
    first, count, then = case["uses"]
    if [first, count, list(then)] != [uses.first, uses.count, list(uses.then)]:
        raise Refused(
            f"uses: expected {[uses.first, uses.count, list(uses.then)]}, got {case['uses']}"
        )


def _cyclic_uses(derived: Derived, j: int) -> Uses:
    count = max(0, -(-(derived.data - j) // derived.period))
    return Uses(j, count, (), derived.period)


class CaseCheck:
    """Checks the payments of one case after another against one description."""

    def __init__(self, derived: Derived, payload: dict[str, Any]) -> None:
        self.derived = derived
        d = derived.run.range_diameter
        self.diameter = None if d == float("inf") else d
        self.written: tuple[Any, Any, Any] | None = None
        if payload.get("steps") is not None:
            c, s, sigma = columns(payload["steps"])
            check_arrays(derived, c, s, sigma)
            balls = ([arb(x) for x in column.tolist()] for column in (c, s, sigma))
            self.written = tuple(balls)  # type: ignore[assignment]

    def __call__(self, case: dict[str, Any], uses: Uses) -> float:
        """The μ of the case, if its payments prove it for a record with these uses."""
        in_time()
        closed("a case", case, _LINEAR)
        check_uses(case, uses)
        mu = read_mu(case["mu"])
        if uses.total == 0 or mu == float("inf"):
            return mu
        distance = arb(check_start(case, self.diameter, 0.0))
        if "blocks" in case:
            skipped = integer("skipped", case["skipped"])
            blocks = read_blocks(case)
            if case["tau"] not in (0, skipped) or (case["tau"] == 0 and uses.among(0, skipped)):
                raise Refused(
                    f"step {skipped + 1}: skipped: steps that use the record are left out"
                )
            if not self.derived.constant:
                raise Refused("blocks: the schedule varies")
            check_groups(self.derived, uses, skipped, list(flat(blocks)))
            check_cost(blocks_cost(blocks, distance, skipped), mu, f"step {self.derived.total}")
            return mu
        cost = replay_case(case, self._steps(uses), distance)
        check_cost(cost, mu, f"step {self.derived.total}")
        return mu

    def _steps(self, uses: Uses) -> Steps:
        positions("steps", self.derived.total)
        used = set(uses.all())
        if self.written is None:
            return self.derived.steps(used)
        c, s, sigma = self.written
        return Steps(c, [x if k in used else arb(0) for k, x in enumerate(s)], sigma)


def _secret_order(derived: Derived, payload: dict[str, Any]) -> list[Part]:
    kind, cases = derived.run.batches.kind, payload["cases"]
    check = CaseCheck(derived, payload)
    if kind == "shuffle_once":
        return _shuffled_once(derived, cases, check, None)
    if kind == "reshuffle":
        return _reshuffled(derived, cases, check)
    raise Refused("theorem: the order of the batches is not secret")


def _shuffled_once(
    derived: Derived,
    cases: Sequence[Any],
    check: Callable[[dict[str, Any], Uses], float],
    later_is_worse: bool | None,
) -> list[Part]:
    """Every position, by itself or rounded to one that is used later; `later_is_worse`: None if that has
    to be found out."""
    period = derived.period
    rest = derived.data % period  # by last use, positions come in the order rest.., 0..rest − 1
    following, proven = 0, []
    for case in timed(cases):
        (covered,) = map(_range, case["ranges"])
        if covered is None:
            raise Refused("ranges: every position is in the order, got none")
        a, b = covered
        if a != following or not a <= b < derived.period:
            raise Refused(f"ranges: expected one that begins at {following}, got {[a, b]}")
        if a < b and later_is_worse is None:
            later_is_worse = derived.later_is_worse()
        if a < b and not later_is_worse:
            raise Refused(f"ranges: positions {[a, b]} may not be rounded to a later one")
        following = b + 1
        weight = _fraction(derived.share((rest + a) % period, (rest + b) % period))
        _check_weight(case, weight)
        proven.append((weight, check(case, _cyclic_uses(derived, (rest + b) % period))))
    if following != derived.period:
        raise Refused(f"ranges: positions from {following} on are missing")
    return proven


def _reshuffled(derived: Derived, cases: Sequence[Any], check: CaseCheck) -> list[Part]:
    """Every pair of positions in the last two epochs, older uses at the end of their epochs."""
    if not (derived.nonexpansive() and derived.later_is_worse()):
        raise Refused("theorem: under reshuffling it needs later uses to be worse")
    period, data = derived.period, derived.data
    epochs, length = -(-data // period), data % period or period
    before = sorted({_range(case["ranges"][0]) for case in cases}, key=str)
    last = sorted({_range(case["ranges"][1]) for case in cases}, key=str)
    _check_partition(before, period if epochs > 1 else 0, period)
    _check_partition(last, length, period)
    seen = set()
    proven = []
    for case in cases:
        pair = tuple(_range(r) for r in case["ranges"])
        if pair in seen:
            raise Refused(f"ranges: {pair} comes twice")
        seen.add(pair)
        weight, then = fmpq(1), []
        for epoch, where, covered in (
            (epochs - 2, pair[0], period if epochs > 1 else 0),
            (epochs - 1, pair[1], length),
        ):
            if where is None:
                weight *= derived.share(covered, period - 1)
            else:
                weight *= derived.share(*where)
                then.append(epoch * period + where[1])
        uses = Uses(period - 1, max(0, epochs - 2), then, period)
        _check_weight(case, _fraction(weight))
        proven.append((_fraction(weight), check(case, uses)))
    if len(seen) != len(before) * len(last):
        raise Refused("ranges: some pairs are missing")
    return proven


def _range(value: Any) -> Range:
    return None if value is None else (integer("ranges", value[0]), integer("ranges", value[1]))


def _check_partition(ranges: Sequence[Range], length: int, period: int) -> None:
    """Refuse unless the ranges cut 0..length−1, and None stands for the rest of the epoch."""
    following = 0
    for a, b in sorted(r for r in ranges if r is not None):
        if a != following or b < a:
            raise Refused(f"ranges: expected one that begins at {following}, got {[a, b]}")
        following = b + 1
    if following != length or (None in ranges) != (length < period):
        raise Refused(f"ranges: expected 0..{length - 1} to be covered")
