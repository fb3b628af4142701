"""Audits: what an attacker who knows the worst instance of a description gets, beside what is promised."""

from pabi.audits.auditing import Audit, OneRunAudit, audit_outputs, one_run
from pabi.audits.conformity import Conformity, Reach, Reachable, reach
from pabi.audits.laws import LawPair, Point
from pabi.audits.probes import CanaryData, canary_pair

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
