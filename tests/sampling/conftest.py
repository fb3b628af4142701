import warnings

import pytest

from pabi.numbers.errors import PrivacyWarning, SamplingWarning


@pytest.fixture(autouse=True)
def _seeds_are_for_tests():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        warnings.simplefilter("ignore", SamplingWarning)  # most chains here are short on purpose
        yield
