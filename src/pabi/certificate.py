"""What to write down so that a guarantee can be checked by someone who trusts none of our solvers.

A certificate is a JSON object (docs, "Certificates"): the theorem, the description it is about, and for
each case (a record's position, with its probability) the steps, the start τ and the payments.
`pabi.verify` checks it in ball arithmetic, and derives the assumptions from the description itself.

What files promise to those who keep them:

- The meaning of a key, a theorem, a kind of factor and a field of a description never changes, and none is
  removed. What means something else has another name.
- What comes on top comes with a new version if an older reader that does not know it could take a file to
  say more than it does (version 2: `assumes`, further assumptions of the release).
- Whatever a version proves, every later pabi verifies: files of all versions in `VERSIONS` are read, each by
  the keys that it knows. Any other version, key, theorem or kind is refused by name, never guessed.
- Sentences of assumptions belong to a version. A better wording comes with a new one, and files of the old
  version are checked against the old wording.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from pabi import encoding
from pabi.encoding import parse_json
from pabi.errors import InvalidInput
from pabi.iteration import Groups, NoisyIteration, Schedule, Steps
from pabi.mechanisms import IteratedExponentialMechanism
from pabi.moduli import Modulus
from pabi.rounding import up
from pabi.shifts.nonlinear import Payments
from pabi.shifts.periodic import PeriodicShifts
from pabi.shifts.records import Record, Shifts
from pabi.shifts.start import Start
from pabi.tradeoff import Gaussian, Mixture, TradeOff

if TYPE_CHECKING:
    from pabi.analyses.nonlinear_shifts import Solved
    from pabi.analyses.secret_order import Case
    from pabi.description import Description
    from pabi.langevin import LangevinChain, LangevinDiffusion
    from pabi.mechanisms import ExponentialMechanism
    from pabi.positions import Uses
    from pabi.runs import NoisySGD
    from pabi.verification import Verdict

FORMAT, VERSION = "pabi.certificate", 2
VERSIONS = (1, VERSION)

_LARGEST = sys.float_info.max  # JSON has no ∞

_READING = 1.004  # how much more than its own value of ε a certificate of random batches claims

# Written-out steps that a certificate repeats although its description implies them.
_REPEATED = 20_000


class Certificate:
    """A proof to be verified, as the JSON text that `pabi.verify` reads; nothing changes it.

    `payload`: its JSON object, a new copy every time. `verdict`: what `pabi.verify` last said of this very
    text. Source of the format and of what is checked: docs, "Certificates".
    """

    __slots__ = ("_text", "_verified")

    def __init__(self, payload: dict[str, Any]) -> None:
        """Raises InvalidInput for what JSON cannot hold."""
        try:
            text = json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        except (TypeError, ValueError, RecursionError) as bad:
            raise InvalidInput("json", f"expected what JSON can hold: {bad}") from None
        self._text = text
        self._verified: tuple[str, Verdict] | None = None

    @property
    def payload(self) -> dict[str, Any]:
        """The JSON object."""
        found: dict[str, Any] = json.loads(self._text)
        return found

    @property
    def verdict(self) -> Verdict | None:
        """What `pabi.verify` last said of this text, None if it did not."""
        if self._verified is None or self._verified[0] != self._text:
            return None
        return self._verified[1]

    def accept(self, verdict: Verdict) -> None:
        """Keeps what `pabi.verify` said."""
        self._verified = self._text, verdict

    def assuming(self, sentences: Sequence[str]) -> Certificate:
        """The same proof of a release that rests on these sentences as well."""
        if not sentences:
            return self
        payload = self.payload
        said = dict.fromkeys((*payload.get("assumes", ()), *sentences))
        return Certificate(payload | {"version": VERSION, "assumes": list(said)})

    def to_json(self) -> str:
        """The certificate as JSON."""
        return self._text

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """The certificate written by `to_json`. Raises InvalidInput for another format or version."""
        return cls.from_dict(parse_json(text))

    @classmethod
    def from_dict(cls, payload: Any) -> Certificate:
        """The certificate with this payload. Raises InvalidInput for another format or version."""
        return cls(check_format(payload, FORMAT, VERSIONS))

    def __repr__(self) -> str:
        return f"<certificate: {self.payload.get('theorem')}, {len(self._text)} bytes>"


def check_format(data: Any, form: str, versions: Sequence[int]) -> dict[str, Any]:
    """`data` if it is an object of this format and one of these versions."""
    if not isinstance(data, dict):
        raise InvalidInput("json", f"expected an object, got {type(data).__name__}")
    if data.get("format") != form:
        raise InvalidInput("format", f"expected {form!r}, got {data.get('format')!r}")
    if type(data.get("version")) is not int or data["version"] not in versions:
        known = " or ".join(map(str, versions))
        raise InvalidInput(
            "version", f"expected {known}, which this pabi reads, got {data.get('version')!r}"
        )
    return data


def of_run(
    run: NoisySGD,
    theorem: str,
    curve: TradeOff,
    records: Sequence[tuple[Record, Case | None]] = (),
    position: int | None = None,
) -> Certificate:
    """The certificate of a guarantee of `run`."""
    from pabi.description import to_dict

    written = any(isinstance(r.schedule, Steps) for r, _ in records)
    payload = _header(theorem, run.adjacency)
    payload["run"] = to_dict(run)
    payload["position"] = position
    payload["claim"] = _claim(curve)
    if written:
        payload["steps"] = _written(run)
    payload["cases"] = [_case(record, case) for record, case in records]
    return Certificate(payload)


def of_sampled(
    run: NoisySGD, theorem: str, curve: TradeOff, delta: float, plan: dict[str, Any]
) -> Certificate:
    """The certificate of a guarantee of a run with random batches: the factors it claims, what they
    amount to at `delta`, and the `plan` of payments that needs them."""
    from pabi.description import to_dict

    payload = _header(theorem, run.adjacency)
    payload["run"] = to_dict(run)
    payload["position"] = None
    payload["claim"] = {"product": curve.to_dict()}
    # Rounded up by more than another grid errs.
    payload["reading"] = {"delta": delta, "epsilon": _number(curve.epsilon(delta) * _READING)}
    payload["plan"] = plan
    return Certificate(payload)


def of_iteration(
    iteration: NoisyIteration,
    theorem: str,
    mu: float,
    schedule: Schedule | None,
    shifts: Shifts | None,
) -> Certificate:
    """The certificate of a guarantee of a bare iteration: its steps are taken as stated."""
    payload = _header(theorem, iteration.adjacency)
    payload["run"] = None
    payload["claim"] = _claim(Gaussian(mu))
    payload["diameter"] = iteration.diameter
    payload["start"] = iteration.start
    if schedule is None:  # composition, for which no slope matters
        schedule = iteration.schedule
        if isinstance(schedule, Steps):
            schedule = schedule._replace(c=np.nan_to_num(schedule.c))
        else:
            schedule = Groups(
                g._replace(
                    stretches=tuple(x._replace(c=float(np.nan_to_num(x.c))) for x in g.stretches)
                )
                for g in schedule
            )
    if isinstance(schedule, Steps):
        payload["steps"] = {
            name: encoding.floats(column) for name, column in zip(_COLUMNS, schedule, strict=True)
        }
    else:
        payload["groups"] = _groups(schedule)
    payload["cases"] = [] if shifts is None else [_shifts(shifts)]
    return Certificate(payload)


def of_nonlinear_run(
    run: NoisySGD,
    theorem: str,
    curve: TradeOff,
    alike: bool,
    solved: Sequence[Solved],
    cases: Sequence[Case] | None,
    position: int | None,
) -> Certificate:
    """The certificate of a guarantee of `run` from moduli that are not all linear. `alike`: whether all
    steps with data are taken to be alike, and the cool-down is left out."""
    from pabi.description import to_dict

    payload = _header(theorem, run.adjacency)
    payload["run"] = to_dict(run)
    payload["position"] = position
    payload["claim"] = _claim(curve)
    payload["alike"] = alike
    every: Sequence[Case | None] = cases or [None] * len(solved)
    payload["cases"] = [
        _header_of_case(x.uses, x.mu, case) | _payments(x.payments)
        for x, case in zip(solved, every, strict=True)
    ]
    return Certificate(payload)


def of_nonlinear_iteration(
    iteration: NoisyIteration, theorem: str, mu: float, payments: Payments
) -> Certificate:
    """The certificate of a guarantee of a bare iteration whose moduli are not all linear.

    A modulus known as a function only is written down by its values where they matter.
    """
    assert iteration.steps is not None
    given = iteration.moduli
    every = [given] * iteration.steps if isinstance(given, Modulus) else list(given or ())
    distinct = list(dict.fromkeys(every))
    payload = _header(theorem, iteration.adjacency)
    payload["run"] = None
    payload["claim"] = _claim(Gaussian(mu))
    payload["diameter"] = iteration.diameter
    payload["start"] = iteration.start
    payload["moduli"] = [_modulus(m) for m in distinct]
    index = {m: i for i, m in enumerate(distinct)}
    payload["which"] = encoding.floats([index[m] for m in every]) if len(distinct) > 1 else None
    payload["steps"] = {
        name: encoding.floats(np.broadcast_to(np.asarray(x, dtype=np.float64), iteration.steps))
        for name, x in (("s", iteration.step_sensitivity), ("sigma", iteration.step_noise_std))
    }
    case = _payments(payments)
    functions = [k for k in range(payments.first, len(every)) if _modulus(every[k]) is None]
    if functions and case:
        z = [min(float(payments.z[k - payments.first]), _LARGEST) for k in functions]
        values = [min(up(float(every[k](x))), _LARGEST) for k, x in zip(functions, z, strict=True)]
        case |= {"at": encoding.floats(z), "values": encoding.floats(values)}
    payload["cases"] = [case]
    return Certificate(payload)


def of_chains(chain: LangevinChain, one: Certificate, curve: TradeOff) -> Certificate:
    """The certificate of independent Langevin chains, `one` being that of one of them as noisy SGD."""
    payload = _described(chain, one.payload["theorem"])
    payload["one"] = one.payload
    if "reading" in one.payload:
        payload |= {name: one.payload[name] for name in ("claim", "reading")}
    else:
        payload["claim"] = {"tradeoff": curve.to_dict()}
    return Certificate(payload)


def of_diffusion(
    diffusion: LangevinDiffusion, theorem: str, mu: float, proof: dict[str, float | None]
) -> Certificate:
    """The certificate of a closed form for a diffusion; `proof`: the "window" that begins at distance D
    (None: the whole time, from 0), or the "distance" from which paths on a dissipative loss return."""
    payload = _described(diffusion, theorem) | proof
    payload["claim"] = _claim(Gaussian(mu))
    return Certificate(payload)


def of_mechanism(
    mechanism: ExponentialMechanism | IteratedExponentialMechanism, theorem: str, curve: TradeOff
) -> Certificate:
    """The certificate of an exponential mechanism."""
    payload = _described(mechanism, theorem)
    if isinstance(mechanism, IteratedExponentialMechanism):
        payload["rounds"] = [[r.diameter, r.inverse_temperature] for r in mechanism.rounds]
    payload["claim"] = {"tradeoff": curve.to_dict()}
    return Certificate(payload)


def _described(description: Description, theorem: str) -> dict[str, Any]:
    from pabi.description import to_dict

    return _header(theorem, description.adjacency) | {"run": to_dict(description)}


def _modulus(modulus: Modulus) -> dict[str, Any] | None:
    try:
        return modulus.to_dict()
    except InvalidInput:
        return None


def _payments(payments: Payments | None) -> dict[str, Any]:
    if payments is None or not math.isfinite(payments.square):
        return {}
    return {
        "tau": payments.first,
        "distance": float(payments.z[0]),
        "payments": encoding.floats(payments.a),
    }


def composed(parts: Sequence[Certificate]) -> Certificate:
    """The certificate of several releases from the same data."""
    payload = _header("composed", parts[0].payload["adjacency"])
    payload["parts"] = [p.payload for p in parts]
    return Certificate(payload)


_COLUMNS = ("c", "s", "sigma")


def _header(theorem: str, adjacency: str) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "theorem": theorem,
        "adjacency": adjacency,
        "assumes": [],
    }


def _number(x: float) -> float | str:
    return "inf" if math.isinf(x) else x


def _claim(curve: TradeOff) -> Any:
    if isinstance(curve, Gaussian):
        return {"mu": _number(curve.mu)}
    assert isinstance(curve, Mixture)
    return {
        "mixture": [[w, _number(p.mu)] for p, w in zip(curve.parts, curve.weights, strict=True)]
    }


def _written(run: NoisySGD) -> Any:
    """The steps of a varying schedule, s as if the record were in every batch; left to the
    description when they are many."""
    from pabi.positions import View

    if run.steps > _REPEATED:
        return None
    view = View(run)
    if run.constant:
        return None
    return {
        name: encoding.floats(column) for name, column in zip(_COLUMNS, view.arrays, strict=True)
    }


def _header_of_case(uses: Uses, mu: float, case: Case | None) -> dict[str, Any]:
    out: dict[str, Any] = {
        "uses": [uses.first, uses.epochs, list(uses.then)],
        "mu": _number(mu),
    }
    if case is not None:
        weight: Fraction = case.weight
        out["weight"] = [weight.numerator, weight.denominator]
        out["ranges"] = [None if r is None else list(r) for r in case.ranges]
    return out


def _case(record: Record, case: Case | None) -> dict[str, Any]:
    out = _header_of_case(record.uses, record.mu, case)
    if record.shifts is not None:
        out |= _shifts(record.shifts)
    return out


def _shifts(shifts: Shifts) -> dict[str, Any]:
    if isinstance(shifts, PeriodicShifts):
        return {
            "tau": shifts.skipped if shifts.distance else 0,
            "distance": shifts.distance,
            "skipped": shifts.skipped,
            "blocks": [
                {"times": b.times, "groups": _groups(Groups(b.groups))} for b in shifts.blocks
            ],
        }
    assert isinstance(shifts, Start)
    payments = shifts.payments
    finite = math.isfinite(payments.energy)
    return {
        "tau": shifts.tau,
        "distance": shifts.distance,
        "first": payments.first,
        "unit": shifts.unit,
        "ends": encoding.integers(payments.ends if finite else []),
        "q": encoding.floats(np.asarray(payments.q) if finite else []),
        **({"shift": encoding.integers(payments.shift)} if payments.shift.any() else {}),
    }


def _groups(groups: Groups) -> list[Any]:
    return [[g.times, [[x.n, x.c, x.s, x.sigma] for x in g.stretches]] for g in groups]
