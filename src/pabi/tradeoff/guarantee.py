"""What was proven, and everything that can be read from it.

The kernel makes it of what an analysis proposes (`verification.granting`), and the best one is chosen in
`account.best`. Here are its readings, its file, and what follows for several releases together.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, reduce
from typing import Any, ClassVar, overload

from pabi.describe.accounted import (
    MOST_GROUPED,
    RETRAINED,
    UNITS,
    USUAL_DELTA,
    Adjacency,
    Compared,
    checked_adjacency,
    checked_comparison,
    checked_protected,
    group_sentences,
    groups_of,
    require_alike,
)
from pabi.describe.unlearning import Unlearning
from pabi.numbers import showing, validate
from pabi.numbers.encoding import parse_json
from pabi.numbers.errors import InvalidInput, must_be, require
from pabi.numbers.locking import OutOfTime, until
from pabi.numbers.rounding import Array
from pabi.numbers.showing import exact, shown
from pabi.tradeoff import Gaussian, TradeOff, grouped
from pabi.tradeoff.base import Readings, decode, encode
from pabi.tradeoff.certificate import (
    Certificate,
    Proof,
    Written,
    adjacent,
    check_format,
    curve_in_words,
    described,
    mu_equivalent,
    notes_of_all,
    read_proof,
    refuse_strong,
    sentences,
    stated_curve,
    stated_sentence,
    whom,
    words,
    writable,
)
from pabi.tradeoff.kinds import known_curve

FORMAT, VERSION = "pabi.guarantee", 2
VERSIONS = (1, VERSION)
# What a file states: nothing else may stand in it. Notes are shown, and read by nobody.
_STATED = frozenset(
    {
        "format",
        "version",
        "tradeoff",
        "mu",
        "adjacency",
        "unit",
        "method",
        "source",
        "assumptions",
        "certificate",
    }
)
_READING, _NOTES = frozenset({"epsilon", "delta"}), frozenset({"notes"})
_NOTES_OF_1 = frozenset({"tuned_at", "composition", "candidates"})  # which stood beside the rest
_QUICK = 0.3  # seconds that a notebook's picture may take
TESTING = "noise reproducible: testing only"
_ONE_BATCH = re.compile(
    r"the (record|user) is one of (batch [0-9]+) \(0-based\); no other \1 is spoken of"
)
GROUPS, GROUPS_SOURCE = (
    "group privacy",
    "Dong, Roth, Su 2022, Thm 2.14; docs, Theory, 19.2 (Theorem 28)",
)
INDEPENDENT = "the releases are computed with independent noise and independent orders of batches"


def reading(curve: TradeOff, delta: float) -> float:
    """ε of a curve at `delta` in [0, 1), computed once. Raises InvalidInput for a curve that is not pabi's:
    which other curves it equals would be its own to say."""
    return _reading(known_curve(curve), delta)


@lru_cache(maxsize=256)
def _reading(curve: TradeOff, delta: float) -> float:
    return curve.epsilon(delta)


@dataclass(frozen=True, eq=False)
class Guarantee(Readings):
    """A proven privacy guarantee: a trade-off function that holds under the listed assumptions.

    Built by `guarantee()` of a description, by `compose` or by `from_json`. Readings take ε, δ and rates as
    plain numbers, and as arrays where they say so. They err on the safe side: ε, δ, Rényi divergences and
    attack rates are upper bounds, type II errors are lower bounds.

    Parameters
    ----------
    curve : TradeOff
        The trade-off function of (release, release of an adjacent data set).
    adjacency : str
        "replace_one" or "zero_out": which data sets are adjacent. "retrained": a model that was made to
        forget records is compared with one that was trained without them.
    method : str
        The name of the analysis.
    source : str
        Where the analysis is published.
    assumptions : tuple of str
        Sentences that the user must be able to stand behind.
    tuned_at : float, optional
        The δ in [0, 1) at which the analysis was chosen. The guarantee is valid at every δ.
    composition : TradeOff, optional
        What charging for every iterate would give, for comparison, where it is known.
    besides : tuple of str
        Those of the assumptions that do not follow from the description.
    notes : mapping
        What a file says that is not proven. Nobody has checked it.
    unit : str
        Whom it protects: one "record", one "user", or "groups of 5 records".
    proof : Proof or Certificate, optional
        What its certificate is made of, or the certificate that came with it. None where there is nothing to
        verify.

    Raises
    ------
    InvalidInput
        For a `curve` that is not one of `pabi.tradeoff`, an unknown `adjacency`, an unknown `unit`, and a
        `proof` of a class that extends Certificate.

    References
    ----------
    Dong, Roth, Su 2022, §2; docs, "Theory", 1.
    """

    curve: TradeOff
    adjacency: Compared
    method: str
    source: str
    assumptions: tuple[str, ...]
    tuned_at: float | None = None
    composition: TradeOff | None = None
    besides: tuple[str, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict, repr=False)
    unit: str = "record"
    proof: Proof | Certificate | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        known_curve(self.curve)
        if isinstance(self.proof, Certificate):  # a subclass may say of itself that it was verified
            validate.exactly("proof", self.proof, Certificate, "a pabi certificate")
        validate.keep(self, adjacency=checked_comparison(self.adjacency))
        checked_protected(self.unit)

    @classmethod
    def from_tradeoff(
        cls,
        tradeoff: TradeOff,
        *,
        adjacency: Adjacency,
        method: str,
        source: str,
        assumptions: Sequence[str] = (),
        unit: str = "record",
    ) -> Guarantee:
        """The guarantee of a mechanism that pabi did not make, as its owner states it.

        It composes with any other, and a ledger takes it where it has a certificate.

        Parameters
        ----------
        tradeoff : TradeOff
            The function of the mechanism, for both orders of the data sets and whatever was released before.
        adjacency : str
            "replace_one" or "zero_out": the adjacency under which it holds.
        method : str
            What the mechanism is called.
        source : str
            Where its trade-off function comes from.
        assumptions : sequence of str
            Sentences that it rests on besides. That nothing here derives the function is always one.
        unit : str
            Whom it protects: one "record" or one "user".

        Returns
        -------
        Guarantee
            With a certificate if the checker knows the function and it protects one record. That certificate
            proves what follows from the function, and not the function.

        Raises
        ------
        InvalidInput
            For anything but a trade-off function of `pabi.tradeoff`, such as a callable, for one of a single
            order of the data sets, and for an unknown adjacency or unit.

        References
        ----------
        Dong, Roth, Su 2022, Def. 2.3; docs, "Theory", 20.
        """
        curve = stated_curve(tradeoff)
        name, origin = words("method", method), words("source", source)
        body = {"mechanism": {"method": name, "source": origin}}
        proof = Written(
            "stated mechanism", lambda: {**body, "claim": {"tradeoff": curve.to_dict()}}
        )
        return cls(
            curve,
            checked_adjacency(adjacency),
            name,
            origin,
            (stated_sentence(name, origin),),
            unit=checked_protected(unit),
            proof=proof if unit == "record" and writable(curve) else None,
        ).assuming(*sentences("assumptions", assumptions))

    # Readings.

    @property
    def _function(self) -> TradeOff:
        return self.curve

    def epsilon(self, delta: float) -> float:
        """The least ε proven at `delta`, an upper bound; ∞ where there is none.

        Parameters
        ----------
        delta : float in [0, 1)
            The δ at which ε is read.

        Returns
        -------
        float
            ε ≥ 0.

        Raises
        ------
        InvalidInput
            For a `delta` outside [0, 1).
        """
        return reading(self.curve, validate.number("delta", delta, at_least=0.0, below=1.0))

    def epsilon_bounds(self, delta: float, rtol: float = 1e-3) -> tuple[float, float]:
        """Lower and upper numerical bounds on the ε that the proven trade-off function implies.

        Parameters
        ----------
        delta : float in [0, 1)
            The δ at which ε is read.
        rtol : float in (0, 1]
            How far apart the two bounds may be, relative, where the numerics allow it.

        Returns
        -------
        tuple of float
            (lower, upper).

        Raises
        ------
        InvalidInput
            For a `delta` outside [0, 1), and for an `rtol` outside (0, 1] where ε is computed numerically.
        """
        return self.curve.epsilon_bounds(
            validate.number("delta", delta, at_least=0.0, below=1.0), rtol
        )

    @overload
    def tradeoff(self, fpr: float) -> float: ...
    @overload
    def tradeoff(self, fpr: Array | Sequence[float]) -> Array: ...
    def tradeoff(self, fpr: Any) -> Any:
        """A lower bound on an attacker's type II error at type I error `fpr`.

        Parameters
        ----------
        fpr : float or array of any shape, in [0, 1]
            The attack's false-positive rate.

        Returns
        -------
        float or array
            Errors in [0, 1], of the shape of `fpr`.

        Raises
        ------
        InvalidInput
            For an `fpr` outside [0, 1].
        """
        return self.curve(fpr)

    @property
    def mu(self) -> float | None:
        """The Gaussian-DP parameter μ, or None when the guarantee is not Gaussian."""
        return self.curve.mu if isinstance(self.curve, Gaussian) else None

    def mu_equivalent(self, delta: float) -> float:
        """The μ of the Gaussian guarantee with the same ε at `delta`: a reading, and no guarantee.

        It compares releases by one number. At another δ, and against other attacks, a guarantee that is not
        Gaussian may promise less than G(μ). Of a Gaussian one it is `mu`.

        Parameters
        ----------
        delta : float in (0, 1)
            The δ at which both have the same ε. Where that is 0, both have the same δ at ε = 0.

        Returns
        -------
        float
            μ ≥ 0, rounded up; ∞ where ε is.

        Raises
        ------
        InvalidInput
            For a `delta` outside (0, 1).

        References
        ----------
        Dong, Roth, Su 2022, Cor. 2.13.
        """
        at = validate.number("delta", delta, above=0.0, below=1.0)
        return mu_equivalent(self.curve, at)

    # Pickling (joblib, skops, copies): as the JSON text, so that a stored model carries the
    # certificate, and nothing of the solver or the run that computed it.

    def __getstate__(self) -> dict[str, str]:
        return {"json": self.to_json()}

    def __setstate__(self, state: dict[str, str]) -> None:
        vars(self).update(vars(Guarantee.from_json(state["json"])))

    # What proves it.

    @cached_property
    def certificate(self) -> Certificate | None:
        """What an independent checker verifies, computed on first access; None for test runs.

        Raises
        ------
        InvalidInput
            For a theorem that the checker does not know, and for a proof that JSON cannot hold.
        """
        from pabi.verification.theorems import table

        match self.proof:
            case None:
                return None
            case Certificate() as written:
                return written.assuming(self.besides)
            case proof if proof.theorem not in table():
                raise InvalidInput("theorem", f"nobody could check a proof of {proof.theorem!r}")
            case proof:
                return Certificate.of(proof, self.adjacency, self.besides, self.unit)

    @property
    def _payload(self) -> dict[str, Any] | None:
        """The JSON object of its certificate, a new copy every time; None without one."""
        return None if self.certificate is None else self.certificate.payload

    @property
    def verified(self) -> bool:
        """Whether the checker has accepted this very certificate, and it implies all that this guarantee
        states as it is now. That of a description was accepted before the guarantee was made; what was
        composed of guarantees here is checked when it is asked for; what was read has to be verified."""
        from pabi.verification import not_implied, verify

        if not isinstance(self.proof, Certificate | None) and "certificate" not in self.__dict__:
            return verify(self).ok
        verdict = None if self.certificate is None else self.certificate.verdict
        return verdict is not None and verdict.ok and not_implied(verdict, self.to_dict()) is None

    def assuming(self, *sentences: str) -> Guarantee:
        """The same guarantee under further assumptions, which its certificate carries as well.

        With `TESTING` among them it protects nobody, and nothing proves it.

        Parameters
        ----------
        *sentences : str
            The further assumptions. One that is there already is not repeated.

        Returns
        -------
        Guarantee

        Raises
        ------
        Nothing
            Sentences are taken as they are.
        """
        besides = tuple(dict.fromkeys((*self.besides, *sentences)))
        testing = TESTING in besides
        every = (*((TESTING,) if testing else ()), *self.assumptions, *sentences)
        return replace(
            self,
            assumptions=tuple(dict.fromkeys(every)),
            besides=besides,
            proof=None if testing else self.proof,
        )

    def noting(self, notes: Mapping[str, Any]) -> Guarantee:
        """The same guarantee with these remarks in its file, in place of others of the same name.

        Parameters
        ----------
        notes : mapping
            What JSON can hold, by name. Nobody checks it.

        Returns
        -------
        Guarantee

        Raises
        ------
        Nothing
            Notes are taken as they are.
        """
        return replace(self, notes={**self.notes, **notes})

    def for_testing(self) -> Guarantee:
        """The same numbers for a run with reproducible noise: they protect nobody, so no certificate.

        Returns
        -------
        Guarantee
        """
        return self.assuming(TESTING)

    def for_groups(self, size: int) -> Guarantee:
        """What the same release costs `size` records, or users, together.

        Data sets that differ in so many are joined by a chain of adjacent ones. Of G(μ) that is G(size·μ), of
        ε-DP size·ε, and of any other trade-off function f it is 1 − (1 − f)∘…∘(1 − f), rounded down.

        Parameters
        ----------
        size : int
            How many, from 1 to 10⁹.

        Returns
        -------
        Guarantee
            Of unit "groups of 5 records", say, with a certificate if this one has one. Under "zero_out" the
            contributions of a whole group become zero.

        Raises
        ------
        InvalidInput
            For a `size` out of range, a guarantee that is one of groups already, one of forgetting, whose
            `records` say how many are forgotten together, and a trade-off function of one order of the data
            sets.
        NotApplicable
            Under "zero_out" for losses that are strongly convex or dissipative, and for bare iterations:
            where the contributions of others are zero already, less is known of a step. Also for what has no
            certificate, which would say what it counts on.

        References
        ----------
        Dong, Roth, Su 2022, Theorem 2.14; docs, "Theory", 19.
        """
        size = validate.integer("size", size, at_least=1, at_most=MOST_GROUPED)
        must_be(self.unit in UNITS, "unit", '"record" or "user"', self.unit)
        adjacency = _of_data(self.adjacency)
        if size == 1:
            return self
        if adjacency == "zero_out":
            read_proof(lambda: refuse_strong(self._payload))
        curve = grouped(self.curve, size)
        sentences = group_sentences(size, self.unit, adjacency)
        return Guarantee(
            curve,
            adjacency,
            GROUPS,
            GROUPS_SOURCE,
            tuple(dict.fromkeys((*self.assumptions, *sentences))),
            self.tuned_at,
            besides=self.besides,
            unit=groups_of(size, self.unit),
            proof=None if self.proof is None else groups_proof(self, size, curve),
        )

    # Writing and showing.

    def to_dict(self, certificate: bool = False) -> dict[str, Any]:
        """A JSON-ready dictionary, with ε at the δ at which the analysis was chosen.

        What is not proven stands under `notes`.

        Parameters
        ----------
        certificate : bool
            Whether what proves it is included.

        Returns
        -------
        dict

        Raises
        ------
        InvalidInput
            With `certificate`, for a proof that cannot be written or checked.
        """
        reading, notes = {}, dict(self.notes)
        if self.tuned_at is not None:
            reading = {"epsilon": encode(self.epsilon(self.tuned_at)), "delta": self.tuned_at}
        if self.composition is not None:
            notes["composition"] = self.composition.to_dict()
        return {
            "format": FORMAT,
            "version": VERSION,
            "tradeoff": self.curve.to_dict(),
            "mu": None if self.mu is None else encode(self.mu),
            **reading,
            "adjacency": self.adjacency,
            "unit": self.unit,
            "method": self.method,
            "source": self.source,
            "assumptions": list(self.assumptions),
            "certificate": self._payload if certificate else None,
            **({"notes": notes} if notes else {}),
        }

    def to_json(self) -> str:
        """Everything, certificate included, as JSON.

        Returns
        -------
        str
        """
        return json.dumps(self.to_dict(certificate=True), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Guarantee:
        """The guarantee written by `to_json`, unverified.

        Parameters
        ----------
        text : str
            A JSON object.

        Returns
        -------
        Guarantee

        Raises
        ------
        InvalidInput
            For what is not such a file, naming the field.
        """
        return cls.from_dict(parse_json(text))

    @classmethod
    def from_dict(cls, data: Any) -> Guarantee:
        """The guarantee written by `to_dict`, unverified.

        Parameters
        ----------
        data : dict
            The object of the file.

        Returns
        -------
        Guarantee

        Raises
        ------
        InvalidInput
            For what is not such an object, naming the field.
        """
        data = check_format(data, FORMAT, VERSIONS)
        notes = notes_in(data)
        for name, kind in (
            ("adjacency", str),
            ("method", str),
            ("source", str),
            ("assumptions", list),
        ):
            must_be(isinstance(data.get(name), kind), name, f"a {kind.__name__}", data.get(name))
        proof = data.get("certificate")
        certificate = None if proof is None else Certificate.from_dict(proof)
        guarantee = cls(
            _read_curve("tradeoff", data.get("tradeoff")),
            checked_comparison(data["adjacency"]),
            data["method"],
            data["source"],
            tuple(_sentence(a) for a in data["assumptions"]),
            _read_delta(data),
            besides=_besides(proof),
            notes=notes,
            unit=checked_protected(data.get("unit", "record")),
            proof=certificate,
        )
        _ = guarantee.certificate  # the very one that came with it
        claimed = math.inf if data.get("mu") == "inf" else data.get("mu")
        alike = claimed == guarantee.mu and not isinstance(claimed, bool)
        must_be(alike, "mu", f"{guarantee.mu!r} as in tradeoff", claimed)
        return guarantee

    def plot(self, ax: Any = None) -> Any:
        """Draw the trade-off curve and ε(δ), beside composition; see `pabi.plotting`.

        Parameters
        ----------
        ax : pair of matplotlib axes, optional
            Where to draw; None for a new figure.

        Returns
        -------
        pair of matplotlib axes

        Raises
        ------
        InvalidInput
            For an `ax` that is not a pair.
        """
        from pabi.show.pictures import plot_guarantee

        return plot_guarantee(self, ax)

    def report(self, format: str = "md", delta: float | None = None) -> str:
        """A report for officers, auditors and model cards: what is promised, to whom, and who attests what.

        Its certificate is verified for the report, which says what came of it.

        Parameters
        ----------
        format : str
            "md" for Markdown, "html" for one page that needs no other file, "hf" for a model card of Hugging
            Face: metadata and a section.
        delta : float in (0, 1), optional
            The δ at which ε is read. None: the one at which the analysis was chosen, or 1e-5.

        Returns
        -------
        str
            The text of the file.

        Raises
        ------
        InvalidInput
            For another `format`, and for a `delta` outside (0, 1).

        References
        ----------
        docs, "Report a guarantee".
        """
        from pabi.show.report import report_on

        return report_on(self, format, delta)

    def cite(self) -> str:
        """BibTeX of the papers whose theorems stand behind it, and of pabi where the theorem is its own.

        Returns
        -------
        str
            An entry for each paper that `source` names; its note says which theorems. What pabi has no paper
            for, such as the source of a mechanism that somebody stated, is a comment.
        """
        from pabi.show.papers import bibtex

        return bibtex(self.source)

    @property
    def _reading_delta(self) -> float:
        """The δ at which it is shown."""
        return USUAL_DELTA if self.tuned_at is None else self.tuned_at

    def __str__(self) -> str:
        at = self._reading_delta
        unit = () if self.unit == "record" else (self.unit,)
        details = (
            curve_in_words(self.curve),
            self.adjacency,
            *unit,
            self.method,
            *limits(self.assumptions),
        )
        return f"ε = {shown(self.epsilon(at))} at δ = {exact(at)} ({'; '.join(details)})"

    def __repr__(self) -> str:
        return f"<guarantee: {self}>"

    def _repr_html_(self) -> str:
        """What notebooks show: a short table, its curve where that is quick, the assumptions folded."""
        at, count = self._reading_delta, len(self.assumptions)
        rows = [
            (f"ε at δ = {exact(at)}", shown(self.epsilon(at))),
            ("μ", "none" if self.mu is None else shown(self.mu)),
            ("curve", curve_in_words(self.curve)),
            ("protects", whom(self.adjacency, self.unit)),
            ("adjacency", f"{self.adjacency}: {adjacent(self.adjacency, self.unit)}"),
            ("method", self.method),
        ]
        rows += [("WARNING", limit) for limit in limits(self.assumptions)]
        title = f"{count} assumption{'s' * (count != 1)}"
        folded = showing.folded(title, showing.items(self.assumptions))
        return showing.facts(rows) + self._small_picture() + folded

    def _small_picture(self) -> str:
        """Its curve as an element of HTML, or who draws it where that takes long; "" where it fails, as the
        table is shown anyway."""
        from pabi.show.pictures import small_picture

        try:
            with until(_QUICK):
                return small_picture(self)
        except OutOfTime:
            return showing.element("p", "The curve takes longer: plot() draws it.")
        except Exception:  # a notebook would show its traceback in place of the table
            return ""


def _of_data(compared: Compared) -> Adjacency:
    """What the data sets of a chain differ by. Raises InvalidInput for forgetting, which no chain joins: each
    of its links would be compared with another retrained model."""
    if compared == RETRAINED:
        raise InvalidInput(
            "adjacency",
            'expected "replace_one" or "zero_out", got \'retrained\': state how many are forgotten together '
            "in `unlearning`, as records=",
        )
    return compared


SEVERAL = "pabi.Guarantee objects"


def limits(assumptions: Sequence[str]) -> tuple[str, ...]:
    """What keeps numbers from being those of everybody: that a test protects nobody, or of which batch's
    records alone they are."""
    spoken = map(_ONE_BATCH.fullmatch, assumptions)
    alone = tuple(f"{one[1]}s of {one[2]} alone" for one in spoken if one is not None)
    return (*((TESTING,) if TESTING in assumptions else ()), *alone)


def require_unlimited(field: str, guarantee: Guarantee) -> None:
    """InvalidInput for one that `limits` says something of, where only its numbers are taken."""
    for limit in limits(guarantee.assumptions):
        who = "somebody" if limit == TESTING else "everybody"
        raise InvalidInput(field, f"expected one that protects {who}, got one of {limit!r}")


def require_besides(field: str, value: Any) -> None:
    """InvalidInput unless a release can be counted beside others: it protects everybody, and a certificate
    verifies. What was read from a file may state less than that proves."""
    from pabi.verification import verify

    validate.exactly(field, value, Guarantee, SEVERAL)
    require_unlimited(field, value)
    if value.proof is not None and not value.verified:
        verdict = verify(value)
        require(verdict.ok, field, f"expected a certificate that verifies: {verdict.reason}")


def require_same_forgetting(field: str, one: Any, other: Any) -> None:
    """InvalidInput where two guarantees of forgetting, or a description and one, may compare with different
    retrained models."""
    if one.adjacency != RETRAINED:
        return
    first, second = map(_compared, (one, other))
    require(
        first is not None and second is not None,
        field,
        "expected guarantees of forgetting with certificates, which say what is forgotten",
    )
    require(
        first == second,
        field,
        "expected the same to be forgotten throughout, got (how many, what becomes of them, whether "
        f"models were handed out) {first} and {second}",
    )


def _compared(value: Any) -> tuple[int, Adjacency, bool] | None:
    """What forgetting is compared with, None where nothing says it."""
    if isinstance(value, Guarantee):
        value = read_proof(lambda: described(value._payload or {}))
    return value.compared if type(value) is Unlearning else None


def compose(*guarantees: Guarantee) -> Guarantee:
    """The guarantee of releasing several results computed from the same data.

    Lossless but for `tradeoff.Best`, whose bounds are paired: in closed form where there is one (Gaussians,
    and mixtures of them), otherwise composed numerically where it is read.

    Parameters
    ----------
    *guarantees : Guarantee
        At least one. All have the same adjacency and the same unit. Those of forgetting have certificates,
        and compare with the same retrained model: as many are forgotten, in the same way.

    Returns
    -------
    Guarantee
        Valid if the releases are computed with independent noise and independent orders of batches, which is
        added to its assumptions. It has a certificate if all of them have one.

    Raises
    ------
    InvalidInput
        For mixed adjacencies, units or requests to forget, and for anything but guarantees.

    References
    ----------
    Dong, Roth, Su 2022, Thm 3.2.
    """
    require(guarantees, "guarantees", "expected at least one")
    for g in guarantees:
        apart = ", passed one by one" if isinstance(g, list | tuple) else ""
        validate.exactly("guarantees", g, Guarantee, SEVERAL + apart)
    first = guarantees[0]
    for g in guarantees[1:]:
        for name in ("adjacency", "unit"):
            require_alike(name, getattr(first, name), getattr(g, name))
        require_same_forgetting("guarantees", first, g)
    references = [g.composition for g in guarantees if g.composition is not None]
    complete = len(references) == len(guarantees)
    proven = all(g.proof is not None for g in guarantees)
    return Guarantee(
        reduce(TradeOff.compose, (g.curve for g in guarantees)),
        first.adjacency,
        " + ".join(g.method for g in guarantees),
        "; ".join(dict.fromkeys(g.source for g in guarantees)) + "; Dong, Roth, Su 2022, Thm 3.2",
        tuple(dict.fromkeys((*(a for g in guarantees for a in g.assumptions), INDEPENDENT))),
        max((g.tuned_at for g in guarantees if g.tuned_at is not None), default=None),
        reduce(TradeOff.compose, references) if complete else None,
        tuple(dict.fromkeys(a for g in guarantees for a in g.besides)),
        notes_of_all(g.notes for g in guarantees),
        unit=first.unit,
        proof=Composed(guarantees) if proven else None,
    )


@dataclass(frozen=True, eq=False)
class Composed:
    """The proof of several releases from the same data: those of its parts."""

    parts: Sequence[Guarantee]
    theorem: ClassVar[str] = "composed"

    def written(self) -> dict[str, Any]:
        """The certificate of every part."""
        # Equal parts, as of a release that is made many times, are proven once.
        payloads = {id(part): part._payload for part in self.parts}
        return {"parts": [payloads[id(part)] for part in self.parts]}


def groups_proof(member: Guarantee, size: int, curve: TradeOff) -> Proof:
    """The proof of a guarantee of groups: that of one member, and what is claimed of so many."""
    claim = {"tradeoff": curve.to_dict()}
    return Written(GROUPS, lambda: {"member": member._payload, "size": size, "claim": claim})


def notes_in(data: dict[str, Any]) -> dict[str, Any]:
    """What a file says that is not proven. Raises InvalidInput for a key that is neither."""
    aside = _NOTES_OF_1 if data["version"] == 1 else _NOTES
    for key in data:
        listed = key in _STATED | _READING | aside
        require(listed, str(key), "unknown key: what is not proven stands under notes")
    if data["version"] == 1:
        return {key: data[key] for key in data if key in _NOTES_OF_1 and data[key] is not None}
    notes = data.get("notes", {})
    require(isinstance(notes, dict), "notes", f"expected an object, got {type(notes).__name__}")
    return dict(notes)


def _read_delta(data: dict[str, Any]) -> float | None:
    """δ of the reading in a file, None where there is none."""
    stated = _READING & set(data)
    if not stated:
        return None
    for name in sorted(_READING - stated):
        raise InvalidInput(name, f"missing beside {', '.join(stated)}")
    must_be(decode("epsilon", data["epsilon"]) >= 0.0, "epsilon", "a number ≥ 0", data["epsilon"])
    delta = validate.number("delta", data["delta"], at_least=0.0, at_most=1.0)
    return delta if delta < 1.0 else None


def _besides(proof: Any) -> tuple[str, ...]:
    """The further assumptions that a certificate carries."""
    listed = proof.get("assumes", []) if proof is not None else []
    require(isinstance(listed, list), "assumes", f"expected a list, got {type(listed).__name__}")
    return tuple(_sentence(a) for a in listed)


def _sentence(value: Any) -> str:
    """`value` if it is a string, as assumptions are. Raises InvalidInput."""
    if not isinstance(value, str):
        raise InvalidInput("assumptions", f"expected sentences, got {value!r}")
    return value


def _read_curve(field: str, data: Any) -> TradeOff:
    """The trade-off function written at `field`."""
    expected = f"expected a trade-off function, got {type(data).__name__}"
    require(isinstance(data, dict), field, expected)
    try:
        return TradeOff.from_dict(data)
    except InvalidInput:
        raise
    except (TypeError, ValueError, ArithmeticError, AttributeError) as bad:
        raise InvalidInput(field, f"expected a trade-off function: {bad}") from None
