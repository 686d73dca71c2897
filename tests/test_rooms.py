"""The families' rooms have the same names; ``python tests/test_rooms.py`` shows the table."""

from __future__ import annotations

import sys
from pathlib import Path

from planning import families

PLANNING = Path(__file__).resolve().parents[1] / "planning"
MOST_FILES = 18
MOST_LINES = 47_000
COMMON = (
    "__init__", "parameters", "model", "statistics", "planner", "path", "program", "plan", "codec",
    "shedder", "simulate", "figures", "demo",
)  # fmt: skip
OPTIONAL = ("kernels", "memory", "reevaluation", "printed")
OWN = {
    "sifter": ("queries", "lookup"),
    "lira": ("queries", "stations"),
    "attributes": ("cycles", "receiver"),
    "joins": ("control", "layout"),
    "fit": ("network",),
}
"""At most two modules that are a family's own."""
SUBPACKAGES = {
    "sifter": ("partitioners",),
    "lira": ("partition",),
    "joins": ("engine",),
    "fit": ("simplex", "dfit"),
}
"""What takes more than one file and is a family's own."""


def names(family: str) -> set[str]:
    """Return the names of a family's modules and subpackages."""
    room = PLANNING / family
    return {path.stem for path in room.glob("*.py")} | {
        path.parent.name for path in room.glob("*/__init__.py")
    }


def table() -> str:
    """Return names × families; ``own`` marks what only one family may have."""
    everything = {family: names(family) for family in families.NAMES}
    order = [*COMMON, *OPTIONAL]
    order += sorted(set().union(*everything.values()) - set(order))
    lines = [f"{'':14}" + "".join(f"{family:>12}" for family in families.NAMES)]
    for name in order:
        cells = []
        for family in families.NAMES:
            package = (PLANNING / family / name).is_dir()
            kind = "own" if name in owned(family) else "folder" if package else "file"
            cells.append(kind if name in everything[family] else "")
        lines.append(f"{name:14}" + "".join(f"{cell:>12}" for cell in cells))
    files = [len(list((PLANNING / family).glob("*.py"))) for family in families.NAMES]
    lines.append(f"{'files':14}" + "".join(f"{count:>12}" for count in files))
    lines.append(f"{'lines':14}" + "".join(f"{line_count(f):>12,}" for f in families.NAMES))
    return "\n".join(lines)


def owned(family: str) -> tuple[str, ...]:
    """Return the names that are a family's own."""
    return (*OWN.get(family, ()), *SUBPACKAGES.get(family, ()))


def line_count(below: str = "") -> int:
    """Return the lines of the library, or of one room, without the papers' own algorithms."""
    files = (p for p in (PLANNING / below).rglob("*.py") if "printed" not in p.parts)
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)


def test_every_family_has_the_common_names():
    missing = {family: sorted(set(COMMON) - names(family)) for family in families.NAMES}
    missing = {family: absent for family, absent in missing.items() if absent}
    assert not missing, f"modules that every family must have are absent: {missing}"


def test_no_other_name_is_in_one_family_alone():
    allowed = {*COMMON, *OPTIONAL}
    strange = {f: sorted(names(f) - allowed - set(owned(f))) for f in families.NAMES}
    strange = {family: others for family, others in strange.items() if others}
    assert not strange, f"give these one of the common names, or list them in OWN: {strange}"
    assert all(len(own) <= 2 for own in OWN.values())


def test_rooms_are_small():
    for family in families.NAMES:
        files = list((PLANNING / family).glob("*.py"))
        assert len(files) <= MOST_FILES, f"{family} has {len(files)} files"
    lines = line_count()
    assert lines <= MOST_LINES, f"planning has {lines:,} lines, at most {MOST_LINES:,} are allowed"


if __name__ == "__main__":
    print(table())
    print(f"\nplanning without printed: {line_count():,} lines")
    for check in (
        test_every_family_has_the_common_names,
        test_no_other_name_is_in_one_family_alone,
        test_rooms_are_small,
    ):
        try:
            check()
        except AssertionError as error:
            sys.exit(f"{check.__name__}: {error}")
