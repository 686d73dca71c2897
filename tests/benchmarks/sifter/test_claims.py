"""Claims say what was measured, whatever the paper states."""

from benchmarks.figures import curves
from benchmarks.sifter.claims import _improvement_claims, _order_claims
from benchmarks.sifter.scene import WORKLOADS


def skewed(name, **lines):
    """A figure along G or L with the given QoS lines; partitioners not named equal random."""
    columns = ("x", "random", "UGRID", "DEDP", "QEDP", "QDPart", "cost tree")
    full = {"random": [0.5, 0.5]} | lines
    table = [[2.0, 10.0], *(full.get(label, full["random"]) for label in columns[1:])]
    return curves(name, name, "x", "QoS", columns, tuple(zip(*table, strict=True)))


def test_claims_follow_the_figures_not_the_paper():
    names = [f"figure-4-{s}-{d}-{q}" for s in "GL" for d, q in WORKLOADS]
    as_stated = {n: skewed(n, DEDP=[0.6, 0.6], QDPart=[0.55, 0.55]) for n in names}
    as_stated["figure-4-G-UNIF-SKEW"] = skewed("", QDPart=[0.8, 0.75], DEDP=[0.7, 0.7])
    as_stated["figure-4-L-UNIF-SKEW"] = skewed("", QDPart=[0.675, 0.825], DEDP=[0.6, 0.6])
    improvements = _improvement_claims(as_stated)
    assert [c.holds for c in improvements[:2]] == [True, True]
    assert improvements[0].ours == "60 % to 50 %; the cost tree 0 % to 0 %"
    assert improvements[0].verdict == "reproduced"
    orders = {c.stated: c.holds for c in _order_claims(as_stated)}
    assert orders["UNIF/SKEW: QDPart is best, DEDP next"]
    assert orders["SKEW/UNIF: DEDP is best, QDPart next"]
    reversed_order = as_stated | {
        f"figure-4-{s}-UNIF-SKEW": skewed("", DEDP=[0.9, 0.9], QDPart=[0.6, 0.6]) for s in "GL"
    }
    by_statement = {c.stated: c for c in _order_claims(reversed_order)}
    assert by_statement["UNIF/SKEW: QDPart is best, DEDP next"].verdict.startswith("differs: ")
    assert not _improvement_claims(reversed_order)[0].holds
