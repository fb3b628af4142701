"""What a guarantee knows of an entry in the Differential Privacy Deployments Registry.

The schema has no version number. This is `schemas/deployments-schema.yaml` of the repository
`opendp/deployments-registry-data` on GitHub, commit 3e9c812a of 15 July 2026, which is based on Nanayakkara,
Ghazi and Vadhan, "Practitioners' Perspectives on a Differential Privacy Deployment Registry",
arXiv:2509.13509. A field that a guarantee does not know is left out, even if the schema requires it: name,
curator, purpose, dates, tier, authors.
"""

from __future__ import annotations

import json
import math
import re
from html import escape
from typing import Any

from pabi.describe.accounted import RETRAINED
from pabi.learn.plans import not_covered
from pabi.numbers.errors import InvalidInput
from pabi.numbers.showing import exact, one_line, shown
from pabi.tradeoff.certificate import (
    SHA256,
    adjacent,
    curve_in_words,
    models_in,
    releases_in,
    stamp,
)
from pabi.tradeoff.guarantee import TESTING, Guarantee
from pabi.verification import Verdict

SCHEMA = (
    "schemas/deployments-schema.yaml of opendp/deployments-registry-data, commit 3e9c812a (2026-07-15), "
    "arXiv:2509.13509"
)


# YAML takes 1e-05 for text, and 1.0e-05 for a number.
_EXPONENT = re.compile(r'(": \d+)(e[-+]\d+,?)$', re.M)


def entry_text(guarantee: Guarantee, delta: float, verdict: Verdict) -> str:
    """The entry as JSON that YAML reads alike, one field a line."""
    entry = registry_entry(guarantee, delta, verdict)
    return _EXPONENT.sub(r"\1.0\2", json.dumps(entry, ensure_ascii=False, indent=2)) + "\n"


def registry_entry(guarantee: Guarantee, delta: float, verdict: Verdict) -> dict[str, Any]:
    """The entry as data, with ε at `delta`, rounded up.

    Strings are what the registry renders as Markdown. `verdict` is the checker's. Raises `InvalidInput` for
    guarantees of forgetting, which are no differential privacy of a deployment, for those of tests, and where
    ε is infinite.
    """
    if guarantee.adjacency == RETRAINED:
        raise InvalidInput(
            "guarantee", "expected one of a release for the registry, got one of forgetting"
        )
    if TESTING in guarantee.assumptions:
        raise InvalidInput("guarantee", f"expected one that protects somebody, got: {TESTING}")
    epsilon = guarantee.epsilon(delta)
    if math.isinf(epsilon):
        raise InvalidInput("guarantee", f"expected a finite epsilon at delta = {exact(delta)}")
    deployment: dict[str, Any] = {
        "dp_variant": {
            "variant_name": "Approximate DP",
            "unprotected_quantities": "How many records or users there are.",
        },
        "privacy_loss": {
            "privacy_unit": _text(guarantee.unit),
            "privacy_unit_details": _text(
                f"{guarantee.adjacency}: {adjacent(guarantee.adjacency, guarantee.unit)}"
            ),
            "privacy_parameters": {
                "epsilon": float(shown(epsilon)),
                "delta": delta,
            },
            "privacy_parameters_details": _text(_curve(guarantee, delta)),
        },
        "accounting": {"composition": _text(f"{guarantee.method}: {guarantee.source}")},
        "implementation": {
            "mechanisms": _text(_proof(verdict, guarantee)),
            "justification": _listed(
                "The guarantee holds if all of these are true:", guarantee.assumptions
            ),
        },
        "administrative": {"notes": _listed(f"Written by pabi for {SCHEMA}.", _notes(guarantee))},
    }
    if outside := not_covered(guarantee.assumptions):
        deployment["implementation"]["preprocessing_and_hyperparameter_tuning"] = _listed(
            "Not covered by the guarantee:", outside
        )
    if models_in(guarantee.notes):
        deployment = {"basic": {"data_product_type": "Machine learning model"}, **deployment}
    return {"status": "Draft", "deployment": deployment}


def _text(text: str) -> str:
    """One line in which nothing becomes a tag."""
    return escape(one_line(text), quote=False)


def _listed(head: str, texts: tuple[str, ...]) -> str:
    """A line, and a list in Markdown."""
    return "\n\n".join((_text(head), "\n".join(f"- {_text(text)}" for text in texts))).rstrip()


def _curve(guarantee: Guarantee, delta: float) -> str:
    mu = (
        ""
        if guarantee.mu is None
        else f" μ of Gaussian differential privacy: {shown(guarantee.mu)}."
    )
    words = curve_in_words(guarantee.curve)
    return f"ε is rounded up, at δ = {exact(delta)}. The trade-off function is known: {words}.{mu}"


def _proof(verdict: Verdict, guarantee: Guarantee) -> str:
    now = stamp()
    by = f"Accounted by pabi; read by pabi {now['pabi']} on {now['date']}."
    if guarantee.proof is None:
        return f"{by} The guarantee has no certificate that could be checked."
    opinion = "accepted" if verdict.ok else "refused"
    scope = f", scope {verdict.scope}" if verdict.scope else ""
    return f"{by} Its certificate was {opinion} by pabi's independent checker{scope}."


def _notes(guarantee: Guarantee) -> tuple[str, ...]:
    """Versions, days and hashes, as whoever wrote the file noted them."""
    releases = (
        f"Release noted by pabi {one.get('pabi')} on {one.get('date')}, SHA-256 {one.get(SHA256)}"
        for one in releases_in(guarantee.notes)
    )
    return (*releases, *(f"SHA-256 of the model: {one}" for one in models_in(guarantee.notes)))
