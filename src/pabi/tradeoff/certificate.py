"""Proofs, certificates around them, and guarantees that somebody states."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, assert_never

import numpy as np
from numpy.typing import NDArray

from pabi.describe.accounted import RETRAINED, Compared
from pabi.describe.losses import Loss
from pabi.numbers.encoding import parse_json
from pabi.numbers.errors import InvalidInput, NotApplicable, must_be
from pabi.numbers.gaussian import gdp_epsilon_bounds, gdp_to_delta
from pabi.numbers.rounding import bisected, down
from pabi.numbers.showing import exact, shown
from pabi.numbers.version import __version__
from pabi.tradeoff import (
    ApproxDP,
    Best,
    BoundedRange,
    FixedSizeSubsampled,
    Gaussian,
    Grouped,
    Laplace,
    Mixture,
    PoissonReplaced,
    PoissonSubsampled,
    PrivacyLossDistribution,
    Product,
    RandomAllocation,
    RenyiDP,
    SecretMixture,
    Selected,
    Subsampled,
    TradeOff,
)
from pabi.tradeoff.base import one_order
from pabi.tradeoff.kinds import Curve, known_curve

if TYPE_CHECKING:
    from pabi.verification import Verdict

T = TypeVar("T")

# A mechanism that pabi did not make, known by its trade-off function alone.
#
# Nothing derives that function here: it is taken as its owner states it, and one of the assumptions says
# so. What a checker can still do is to compare every reading with it, and to compose it.


# The Gaussian that agrees with a trade-off function at one δ, to compare releases by one number.


def mu_equivalent(curve: TradeOff, delta: float) -> float:
    """The least μ at which a Gaussian's ε at δ is no less than the curve's, a double above it."""
    if isinstance(curve, Gaussian):
        return curve.mu
    epsilon = curve.epsilon(delta)
    if math.isinf(epsilon):
        return math.inf
    if epsilon == 0.0:  # many Gaussians have that: the one that reveals as much at ε = 0
        reached = curve.delta(0.0)  # what is computed of G(μ) is at most an ulp above the truth
        return _least(lambda mu: reached == 0.0 or down(down(gdp_to_delta(mu, 0.0))) >= reached)
    return _least(lambda mu: gdp_epsilon_bounds(mu, delta)[0] >= epsilon)


def _least(holds: Callable[[float], bool]) -> float:
    """The least μ ≥ 0 from which on `holds` is true, a double above it; ∞ beyond the doubles."""
    if holds(0.0):
        return 0.0
    high = 1.0
    while high < math.inf and not holds(high):
        high *= 2.0
    return bisected(holds, 0.0, high)[1] if high < math.inf else high


# What a guarantee is, in a few words.


_WHOM = {"record": "one record", "user": "one user, with all records of that user"}
_WITHDRAWN = {
    "record": "the withdrawn records, all together",
    "user": "the withdrawn users, all together, with all records of each",
}
_ADJACENT: dict[Compared, tuple[str, str]] = {  # of one unit, of several
    "replace_one": ("{} is replaced by any other", "{} are replaced by any others"),
    "zero_out": ("the contribution of {} becomes zero, while n and all divisors stay",) * 2,
    "retrained": (
        "the model that went on after the requests is compared with one that was retrained, for as many "
        "steps, on the data as they are after the last of them",
    )
    * 2,
}
_GROUPS = "groups of "


def whom(adjacency: Compared, unit: str) -> str:
    """Whom a guarantee protects."""
    names = _WITHDRAWN if adjacency == RETRAINED else _WHOM
    return names.get(unit, f"{unit}, each group as a whole")


def adjacent(adjacency: Compared, unit: str) -> str:
    """What two adjacent data sets differ by, or what is compared where records were forgotten."""
    one, several = _ADJACENT[adjacency]
    if unit.startswith(_GROUPS):
        return several.format(f"up to {unit.removeprefix(_GROUPS)}")
    return one.format(f"one {unit}")


def curve_in_words(curve: TradeOff) -> str:
    """What kind of trade-off function it is, with its μ where it has some; short whatever its size."""
    match curve:
        case Mixture() as mixture:
            low, high = (shown(mixture.parts[k].mu, 4) for k in (0, -1))
            return f"average over {len(mixture.parts)} cases, μ from {low} to {high}"
        case Best() as best:
            return f"the best of {len(best.parts)} bounds"
        case Product(factors=((Mixture() as rounded, 1),), failure=0.0):
            return curve_in_words(rounded)
        case Product() as product:
            return f"a product of {sum(k for _, k in product.factors)} factors"
        case Selected() as selection:
            return f"the best of {exact(selection.mean_trials)} runs, in the mean"
        case Grouped() as chain:
            return f"a chain of {chain.size}"
        case RenyiDP() as divergence:
            return (
                f"a Rényi divergence of {shown(divergence.rho)} at order {exact(divergence.order)}"
            )
        case Gaussian() as gaussian:
            return f"μ = {shown(gaussian.mu)}"
        case RandomAllocation() as hidden:
            return str(hidden)
        case other:
            return repr(other)


# Of random batches: a certificate holds them in products alone.
_DRAWN = Subsampled | PoissonSubsampled | PoissonReplaced | FixedSizeSubsampled
_MOST_SECRET = 64  # equal mixtures of which a label stays secret, in one certificate


def stated_sentence(method: str, source: str) -> str:
    """The sentence that nobody but its owner vouches for a mechanism."""
    return (
        f"the mechanism {method!r} reveals no more than the stated trade-off function, whatever was "
        f"released before it: so says {source!r}, and no checker derives it"
    )


def stated_curve(tradeoff: object) -> Curve:
    """`tradeoff` if a mechanism may be stated by it: of a known kind, and for both orders of the data sets.

    A random batch is a product of one factor.
    """
    curve = known_curve(tradeoff)
    if isinstance(curve, _DRAWN):
        curve = Product(((curve, 1),))  # as which a certificate holds it
    if one_order(curve.orientation):
        raise InvalidInput(
            "tradeoff",
            f"expected a function for both orders of the data sets, got {curve!r}; use .symmetrised()",
        )
    return curve


def words(field: str, value: Any) -> str:
    """`value` if it is a text that says something. Raises InvalidInput naming `field`."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(field, f"expected a text, got {value!r}")
    return value


def sentences(field: str, values: Any) -> tuple[str, ...]:
    """`values` as a tuple of texts. Raises InvalidInput naming `field`."""
    several = isinstance(values, Sequence) and not isinstance(values, str)
    must_be(several, field, "a sequence of sentences", values)
    return tuple(words(field, value) for value in values)


def writable(curve: TradeOff) -> bool:
    """Whether a certificate can hold the function: closed forms, products, bests, selections, groups."""
    match known_curve(curve):
        case (
            BoundedRange()
            | FixedSizeSubsampled()
            | Gaussian()
            | Mixture()
            | PoissonReplaced()
            | PoissonSubsampled()
            | RandomAllocation()
            | RenyiDP()
            | SecretMixture()
            | Subsampled()
        ):
            return True
        case Selected(base=base) | Grouped(base=base):
            return writable(base)
        case Laplace(probability=p):
            return p == 1.0
        case ApproxDP(delta_0=delta):
            return delta == 0.0
        case Product(factors=factors):
            mixtures = sum(k for factor, k in factors if isinstance(factor, Mixture))
            secret = max(
                (k for factor, k in factors if isinstance(factor, SecretMixture)), default=0
            )
            few = mixtures <= 1 and secret <= _MOST_SECRET
            return few and all(writable(factor) for factor, _ in factors)
        case Best(parts=parts):
            alone = any(isinstance(part, _DRAWN) for part in parts)
            return not alone and all(map(writable, parts))
        case PrivacyLossDistribution():
            return False
        case other:
            assert_never(other)


# What an analysis hands over besides its guarantee: a proof, which knows how to write itself.
#
# The envelope, `pabi.tradeoff.certificate`, adds who is protected and what is assumed; the checker
# reads it without knowing who wrote it.


class Proof(Protocol):
    """What a stranger needs to check a guarantee."""

    @property
    def theorem(self) -> str:
        """The name by which the checker knows what is to be checked."""

    def written(self) -> dict[str, Any]:
        """The body of the certificate, as JSON can hold it; what it takes is solved here if it was not yet.

        Returns
        -------
        dict

        Raises
        ------
        InvalidInput
            For what JSON cannot hold.
        """


@dataclass(frozen=True, eq=False)
class Written:
    """The proof by a theorem whose body a function writes, once somebody asks for it."""

    theorem: str
    written: Callable[[], dict[str, Any]]


# The envelope in which a proof travels, so that a guarantee can be checked by someone who trusts none of
# our solvers.
#
# A certificate is a JSON object (docs, "Certificates"): the theorem, who is protected, further
# assumptions, and what the proof says of itself (`pabi.tradeoff.certificate`). `pabi.verify` checks it in
# ball arithmetic, and derives the assumptions from the description itself.
#
# What files promise to those who keep them:
#
# - The meaning of a key, a theorem, a kind of factor and a field of a description never changes, and none is
#   removed. What means something else has another name.
# - What comes on top comes with a new version if an older reader that does not know it could take a file to
#   say more than it does (version 2: `assumes`, further assumptions of the release).
# - Whatever a version proves, every later pabi verifies: files of all versions in `VERSIONS` are read, each
#   by the keys that it knows. Any other version, key, theorem or kind is refused by name, never guessed.
# - Sentences of assumptions belong to a version. A better wording comes with a new one, and files of the old
#   version are checked against the old wording.


FORMAT, VERSION = "pabi.certificate", 2
VERSIONS = (1, VERSION)


class Certificate:
    """A proof to be verified, as the JSON text that `pabi.verify` reads; nothing changes it.

    Parameters
    ----------
    payload : dict
        Its JSON object.

    Raises
    ------
    InvalidInput
        For what JSON cannot hold.

    References
    ----------
    docs, "Certificates": the format, and what is checked.
    """

    __slots__ = ("_text", "_verified")

    def __init__(self, payload: dict[str, Any]) -> None:
        try:
            text = json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        except (TypeError, ValueError, RecursionError) as bad:
            raise InvalidInput("json", f"expected what JSON can hold: {bad}") from None
        self._text = text
        self._verified: tuple[str, Verdict] | None = None

    @classmethod
    def of(
        cls,
        proof: Proof,
        adjacency: Compared,
        assumes: Sequence[str] = (),
        unit: str = "record",
    ) -> Certificate:
        """The certificate of a proof.

        Parameters
        ----------
        proof : Proof
            What an analysis handed over.
        adjacency : str
            "replace_one", "zero_out" or "retrained".
        assumes : sequence of str
            Sentences that the release rests on besides what follows from the description.
        unit : str
            Whom it protects; "record" is not written.

        Returns
        -------
        Certificate

        Raises
        ------
        InvalidInput
            For a proof that JSON cannot hold.
        """
        header = {
            "format": FORMAT,
            "version": VERSION,
            "theorem": proof.theorem,
            "adjacency": adjacency,
            **({} if unit == "record" else {"unit": unit}),
            "assumes": list(assumes),
        }
        return cls({**header, **proof.written(), **header})  # which is not the proof's to say

    @property
    def payload(self) -> dict[str, Any]:
        """The JSON object, a new copy every time."""
        payload: dict[str, Any] = json.loads(self._text)
        return payload

    @property
    def verdict(self) -> Verdict | None:
        """What `pabi.verify` last said of this text, None if it did not."""
        if self._verified is None or self._verified[0] != self._text:
            return None
        return self._verified[1]

    def accept(self, verdict: Verdict) -> None:
        """Keep what `pabi.verify` said of this text; it is read as `verdict`.

        Parameters
        ----------
        verdict : Verdict
            What `pabi.verify` returns.

        Raises
        ------
        Nothing
            The verdict is taken as it is.
        """
        self._verified = self._text, verdict

    def assuming(self, sentences: Sequence[str]) -> Certificate:
        """The same proof of a release that rests on further sentences.

        Parameters
        ----------
        sentences : sequence of str
            The further assumptions.

        Returns
        -------
        Certificate
            This very one where it carries them all.

        Raises
        ------
        InvalidInput
            For sentences that JSON cannot hold.
        """
        payload = self.payload
        before = payload.get("assumes", [])
        every = list(dict.fromkeys((*before, *sentences)))
        if len(every) == len(set(before)):
            return self
        return Certificate(payload | {"version": VERSION, "assumes": every})

    def to_json(self) -> str:
        """The certificate as JSON.

        Returns
        -------
        str
        """
        return self._text

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """The certificate written by `to_json`, unverified.

        Parameters
        ----------
        text : str
            A JSON object.

        Returns
        -------
        Certificate

        Raises
        ------
        InvalidInput
            For text that is no JSON, and for another format or version.
        """
        return cls.from_dict(parse_json(text))

    @classmethod
    def from_dict(cls, payload: Any) -> Certificate:
        """The certificate with this payload, unverified.

        Parameters
        ----------
        payload : dict
            The object of a file.

        Returns
        -------
        Certificate

        Raises
        ------
        InvalidInput
            For another format or version, and for what JSON cannot hold.
        """
        return cls(check_format(payload, FORMAT, VERSIONS))

    def __repr__(self) -> str:
        return f"<certificate: {self.payload.get('theorem')}, {len(self._text)} bytes>"


def check_format(data: Any, form: str, versions: Sequence[int]) -> dict[str, Any]:
    """`data` if it is an object of this format and one of these versions."""
    if not isinstance(data, dict):
        raise InvalidInput("json", f"expected an object, got {type(data).__name__}")
    must_be(data.get("format") == form, "format", f"{form!r}", data.get("format"))
    version, read = data.get("version"), " or ".join(map(str, versions))
    readable = type(version) is int and version in versions
    must_be(readable, "version", f"{read}, which this pabi reads", version)
    return data


def described(payload: dict[str, Any]) -> Any:
    """What a certificate is about, or the first part of one; None where it describes nothing."""
    from pabi.describe.files import from_dict

    while "parts" in payload:  # which agree
        payload = payload["parts"][0]
    return from_dict(payload["run"]) if "run" in payload else None


def read_proof(read: Callable[[], T]) -> T:
    """What is read of a certificate that nobody may have verified. Raises InvalidInput where it has no such
    form."""
    try:
        return read()
    except InvalidInput:
        raise
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as bad:
        raise InvalidInput("certificate", f"malformed: {bad}") from None


def refuse_strong(payload: dict[str, Any] | None) -> None:
    """NotApplicable for a certificate that counts on contributions which are not zero, and for none."""
    within = [] if payload is None else [*payload.get("parts", ()), *payload.get("trials", ())]
    scoring = None if payload is None else payload.get("scoring")
    for one in (*within, *(() if scoring is None else (scoring,))):
        refuse_strong(one)
    run = None if payload is None or "mechanism" in payload else payload.get("run", {})
    table = None if run is None else run.get("loss")
    if run is None or (table is not None and not Loss.from_dict(table).holds_of_zero):
        raise NotApplicable(
            "nothing is proven of groups whose contributions become zero for a strongly convex or "
            "dissipative loss, a bare iteration, a stated mechanism, or without a certificate; under "
            "replace_one it is"
        )


# What a file notes of a release: which pabi made it, when, and the hash of the released parameters.
#
# Nobody checks a note. The hash is there so that a reader can compare it with the model at hand; it is
# computed from what was released, so it reveals nothing more.


RELEASES = "releases"  # the key under notes
SHA256 = "parameters_sha256"
MODELS = "models_sha256"  # the key of the hashes of whole models


def today() -> str:
    """The date in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%d")


def stamp() -> dict[str, str]:
    """The version of this pabi, and the date."""
    return {"pabi": __version__, "date": today()}


def digest(parameters: Mapping[str, Any]) -> str:
    """SHA-256 of named values, in hexadecimal digits.

    Of every array of doubles, in the order of the names, the line `NAME <f8 SHAPE` with the numbers of the
    shape separated by commas, ended by a line feed, in UTF-8; then its entries as little-endian doubles in C
    order. Of what is no such array, labels and levels, the line `NAME json BYTES`; then so many bytes of JSON
    in ASCII, as Python's `json.dumps` writes it.
    """
    total = hashlib.sha256()
    for name in sorted(parameters):
        kind, content = _content(parameters[name])
        total.update(f"{name} {kind}\n".encode() + content)
    return total.hexdigest()


def _content(value: Any) -> tuple[str, bytes]:
    """(what follows the name, the bytes)."""
    array = _doubles(value)
    if array is not None:
        shape = ",".join(map(str, array.shape))
        return f"<f8 {shape}", array.tobytes(order="C")
    listed = value.tolist() if isinstance(value, np.ndarray) else value
    content = json.dumps(listed, default=_plain).encode("ascii")
    return f"json {len(content)}", content


def _doubles(value: Any) -> NDArray[np.float64] | None:
    """An array of doubles, None of labels and levels: other arrays, and lists of more than numbers."""
    try:
        array = np.asarray(value)
    except ValueError:  # a list of levels for each column, of lengths of their own
        return None
    kinds = "f" if isinstance(value, np.ndarray) else "iuf"
    return array.astype("<f8") if array.dtype.kind in kinds else None


def _plain(value: Any) -> Any:
    """What JSON has no word for: numpy's scalars as Python's, anything else as text."""
    return value.item() if isinstance(value, np.generic) else str(value)


def released_notes(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What is noted of the release of these parameters.

    It takes the place of what was noted of the releases that they are made of, which are not published.
    """
    own = {**stamp(), "parameters": sorted(parameters), SHA256: digest(parameters)}
    return {RELEASES: [own]}


def releases_in(notes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The releases that notes speak of; what does not have their form is left out."""
    listed = notes.get(RELEASES, [])
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def notes_of_all(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The notes of several releases together: every release and every model of every part; what else was
    noted was said of one of them."""
    every = list(parts)
    listed = [one for notes in every for one in releases_in(notes)]
    models = [one for notes in every for one in models_in(notes)]
    return ({RELEASES: listed} if listed else {}) | ({MODELS: models} if models else {})


def models_in(notes: Mapping[str, Any]) -> list[str]:
    """The hashes of whole models that notes have; what does not have their form is left out."""
    listed = notes.get(MODELS, [])
    return [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
