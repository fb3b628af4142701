"""How much is tried: a slice of every property always, ten times as much at night.

`make nightly` chooses the profile of that name, and runs all properties besides the tests marked nightly.
Tests that cost more an example than others take a share of the profile's number.
"""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("always", max_examples=50)
settings.register_profile("nightly", max_examples=500)
settings.load_profile("always")
