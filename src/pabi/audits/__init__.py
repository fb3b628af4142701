"""Audits: what an attacker who knows the worst instance of a description gets, beside what is promised."""

from pabi.audits.audit import Audit
from pabi.audits.auditing import audit_outputs
from pabi.audits.canaries import CanaryData, canary_pair
from pabi.audits.conformity import Conformity, Reach, Reachable, reach
from pabi.audits.laws import LawPair
from pabi.audits.one_run import OneRunAudit, one_run
from pabi.audits.rates import Point

__all__ = [
    "Audit",
    "CanaryData",
    "Conformity",
    "LawPair",
    "OneRunAudit",
    "Point",
    "Reach",
    "Reachable",
    "audit_outputs",
    "canary_pair",
    "one_run",
    "reach",
]
