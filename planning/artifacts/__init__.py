"""Published plans: manifest, encodings, signatures, and the store that keeps them."""

from planning.artifacts.history import Change, Check, Difference, Pruned, Report
from planning.artifacts.listing import Broken, Listing
from planning.artifacts.manifest import (
    Certificate,
    CertifiedLoad,
    GateVerdict,
    KeptGuarantee,
    Manifest,
    Payload,
    Payloads,
    PredictedLimit,
    Prediction,
    Validity,
)
from planning.artifacts.reading import LastGood, Published, Reader
from planning.artifacts.signing import UNVERIFIED, SigningKey, TrustedKeys, Unverified
from planning.artifacts.status import Status
from planning.artifacts.store import Store

__all__ = [
    "UNVERIFIED",
    "Broken",
    "Certificate",
    "CertifiedLoad",
    "Change",
    "Check",
    "Difference",
    "GateVerdict",
    "KeptGuarantee",
    "LastGood",
    "Listing",
    "Manifest",
    "Payload",
    "Payloads",
    "PredictedLimit",
    "Prediction",
    "Pruned",
    "Published",
    "Reader",
    "Report",
    "SigningKey",
    "Status",
    "Store",
    "TrustedKeys",
    "Unverified",
    "Validity",
]
