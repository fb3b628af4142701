"""Another part of the program lowers the precision of ball arithmetic."""

from __future__ import annotations

import pytest

from support.certificates import payload_of, refused

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")


def test_precision_set_elsewhere():
    """Balls stay balls when another part of the program lowers flint's working precision."""
    import flint

    for name in ("path, shuffle once", "path", "cyclic", "falling", "reshuffle"):
        payload = payload_of(name)
        if "mu" in payload["claim"]:
            payload["claim"]["mu"] *= 1 - 1e-9
        else:
            payload["claim"]["mixture"][-1][1] *= 1 - 1e-9
        for bits in (8, 24, 53):
            with flint.ctx.workprec(bits):
                refused(payload)
