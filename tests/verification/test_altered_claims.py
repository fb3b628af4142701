"""Altered claims: a μ or a weight smaller by one part in a million, or no number at all."""

from __future__ import annotations

import math

import pytest

from support.certificates import LITTLE_LESS, POSITIVE, payload_of, refused

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")


# Whose certificates claim a mixture, and those with cases that claim a μ above 0.
MIXTURES = [n for n in POSITIVE if "mixture" in payload_of(n)["claim"]]
WITH_MU = [n for n in POSITIVE if any(case.get("mu") for case in payload_of(n)["cases"])]


@pytest.mark.parametrize("name", POSITIVE)
def test_claim(name):
    payload = payload_of(name)
    if "mu" in payload["claim"]:
        payload["claim"]["mu"] *= LITTLE_LESS
    else:
        payload["claim"]["mixture"][-1][1] *= LITTLE_LESS
    refused(payload, "mu")


@pytest.mark.parametrize("name", MIXTURES)
@pytest.mark.one_in(3)
def test_every_part_of_a_mixture(name):
    for j in range(len(payload_of(name)["claim"]["mixture"])):
        payload = payload_of(name)
        if payload["claim"]["mixture"][j][1] > 0.0:
            payload["claim"]["mixture"][j][1] *= LITTLE_LESS
            refused(payload)
        payload = payload_of(name)
        payload["claim"]["mixture"][j][0] *= LITTLE_LESS
        refused(payload)
        payload = payload_of(name)
        if j:
            payload["claim"]["mixture"][j][0] -= 1e-6
            payload["claim"]["mixture"][0][0] += 1e-6
            refused(payload)


@pytest.mark.parametrize("name", WITH_MU)
def test_mu_of_a_case(name):
    for i, case in enumerate(payload_of(name)["cases"]):
        if "mu" not in case or case["mu"] == 0.0:
            continue
        payload = payload_of(name)
        payload["cases"][i]["mu"] *= LITTLE_LESS
        refused(payload, "mu", "step")


def test_no_mu_below_zero():
    for value in (-1.0, math.nan, "nan", "-inf", None, True, [], 10**400):
        for name in ("cyclic", "path", "bare"):
            payload = payload_of(name)
            payload["claim"]["mu"] = value
            refused(payload)
