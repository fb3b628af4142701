"""Runs of Opacus 1.6: described for pabi, accounted within Opacus, and their loaders checked.

Importing the module registers the accountant, so that `PrivacyEngine(accountant="pabi")` has it.
"""

from pabi.integrations.opacus.accountant import PabiAccountant
from pabi.integrations.opacus.describing import (
    LoaderFinding,
    LoaderFindings,
    check_loader,
    from_opacus,
)

__all__ = ["LoaderFinding", "LoaderFindings", "PabiAccountant", "check_loader", "from_opacus"]
