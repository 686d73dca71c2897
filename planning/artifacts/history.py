"""What an operator asks of published versions: are they sound, what changed, what can go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec
import numpy as np
from msgspec import Struct

from planning.arrays import FloatArray
from planning.artifacts import codec, files
from planning.errors import ArtifactError, InvalidInput, NoPlan, StoreError

if TYPE_CHECKING:
    from planning.artifacts.reading import Reader
    from planning.artifacts.store import Store

T = TypeVar("T")
# On file systems without locks, a younger payload may belong to a publication under way.
PAYLOAD_GRACE_S = 3600.0


class Check(Struct, frozen=True):
    """One thing that was checked.

    Examples
    --------
    >>> from planning.examples import demo_store
    >>> store, _ = demo_store("sifter")
    >>> payload = store.latest("ticks").payloads.json
    >>> _ = store.payload_path("ticks", payload, "json").write_bytes(b"{}")
    >>> [check.name for check in store.verify("ticks").checks if not check.passed]
    ['json digest', 'json plan']
    """

    name: str
    passed: bool
    detail: str = ""


class Report(Struct, frozen=True):
    """Everything that was checked about one version.

    Examples
    --------
    >>> from planning.examples import demo_store
    >>> store, _ = demo_store("sifter")
    >>> report = store.verify("ticks")
    >>> report.version, report.ok, [check.name for check in report.checks][:2]
    (1, True, ['manifest', 'signature'])
    """

    stream: str
    version: int
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)


class Change(Struct, frozen=True, omit_defaults=True):
    """One difference; for numeric arrays, only how many values changed and by how much at most.

    Examples
    --------
    >>> [change] = changes({"z": [0.0, 0.5, 1.0]}, {"z": [0.25, 0.5, 0.5]})
    >>> change.path, change.kind, change.count_changed, change.max_abs_change
    ('z', 'array', 2, 0.5)
    """

    path: str
    kind: Literal["changed", "added", "removed", "array", "resized"]
    old: Any = None
    new: Any = None
    count_changed: int = 0
    max_abs_change: float = 0.0


class Difference(Struct, frozen=True):
    """What differs between two versions.

    Examples
    --------
    >>> from planning.examples import demo_store
    >>> store, _ = demo_store("sifter", versions=2)
    >>> difference = store.diff("ticks", 1, 2)
    >>> [change.path for change in difference.manifest], difference.plan
    (['created_at', 'parent', 'version'], ())
    """

    stream: str
    old: int
    new: int
    manifest: tuple[Change, ...]
    plan: tuple[Change, ...]


class Pruned(Struct, frozen=True):
    """What retention deleted; ``note`` says why payloads were left alone.

    Examples
    --------
    >>> from planning.examples import demo_store
    >>> store, _ = demo_store("sifter", versions=3)
    >>> pruned = store.prune("ticks", keep=2)
    >>> pruned.versions, store.versions("ticks")
    ((1,), (2, 3))
    """

    versions: tuple[int, ...]
    payloads: int
    note: str = ""
    inputs: int = 0


def verify(store: Reader, stream: str, version: int) -> Report:
    """Check manifest, signature, digests, decoding, and that both encodings give the same plan."""
    checks: list[Check] = []

    def attempt(name: str, action: Callable[[], T]) -> T | None:
        try:
            result = action()
        except (ArtifactError, StoreError) as error:
            checks.append(Check(name, False, str(error)))
            return None
        checks.append(Check(name, True))
        return result

    manifest = attempt("manifest", lambda: store.unverified(stream, version))
    if manifest is None:
        return Report(stream, version, tuple(checks))
    path = str(store.manifest_path(stream, version))
    attempt("signature", lambda: store.trusted.verify(manifest, path))
    attempt("json digest", lambda: store.payload(manifest, "json"))
    attempt("binary digest", lambda: store.payload(manifest, "binary"))
    from_json = attempt("json plan", lambda: store.plan(manifest, "json"))
    from_binary = attempt("binary plan", lambda: store.plan(manifest, "binary"))
    if from_json is not None and from_binary is not None:
        same = codec.document(from_json) == codec.document(from_binary)
        detail = "" if same else "the two encodings hold different plans; publish again"
        checks.append(Check("json equals binary", same, detail))
    return Report(stream, version, tuple(checks))


def diff(store: Reader, stream: str, old: int, new: int) -> Difference:
    """Compare two versions, field by field."""
    before, after = store.load(stream, old), store.load(stream, new)
    manifests = [msgspec.to_builtins(p.manifest) for p in (before, after)]
    for document in manifests:
        del document["signature"]
    return Difference(
        stream,
        old,
        new,
        manifest=tuple(changes(manifests[0], manifests[1])),
        plan=tuple(changes(codec.document(before.plan), codec.document(after.plan))),
    )


def changes(old: Any, new: Any, path: str = "") -> Iterator[Change]:
    """Yield the differences between two JSON-like values, in the order of their paths.

    >>> for change in changes({"a": 1, "t": [0.0, 0.5]}, {"a": 2, "t": [0.0, 0.25]}):
    ...     print(change.path, change.kind, change.count_changed, change.max_abs_change)
    a changed 0 0.0
    t array 1 0.25
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            below = f"{path}.{key}" if path else str(key)
            if key not in new:
                yield Change(below, "removed", old=old[key])
            elif key not in old:
                yield Change(below, "added", new=new[key])
            else:
                yield from changes(old[key], new[key], below)
    elif isinstance(old, list | tuple) and isinstance(new, list | tuple):
        yield from _array_changes(old, new, path)
    elif old != new or type(old) is not type(new):
        yield Change(path, "changed", old=old, new=new)


def _array_changes(old: Any, new: Any, path: str) -> Iterator[Change]:
    numbers = _numbers(old), _numbers(new)
    if numbers[0] is not None and numbers[1] is not None:
        if numbers[0].shape != numbers[1].shape:
            shapes = ["x".join(map(str, array.shape)) for array in numbers if array is not None]
            yield Change(path, "resized", old=shapes[0], new=shapes[1])
            return
        moved = np.abs(numbers[1] - numbers[0])
        if moved.any():
            yield Change(
                path,
                "array",
                count_changed=int(np.count_nonzero(moved)),
                max_abs_change=float(moved.max()),
            )
        return
    if len(old) != len(new):
        yield Change(path, "resized", old=str(len(old)), new=str(len(new)))
    for i, (a, b) in enumerate(zip(old, new, strict=False)):
        yield from changes(a, b, f"{path}[{i}]")


def _numbers(values: Any) -> FloatArray | None:
    """Return nested lists of numbers as an array; None if they contain anything else or nothing."""

    def only_numbers(value: Any) -> bool:
        if isinstance(value, list | tuple):
            return all(map(only_numbers, value))
        return isinstance(value, int | float) and not isinstance(value, bool)

    if not only_numbers(values):
        return None
    try:
        return np.array(values, dtype=np.float64)
    except (ValueError, OverflowError):
        return None


def prune(store: Store, stream: str, keep: int) -> Pruned:
    """Delete old versions, never the newest, and then what no kept version names."""
    if keep < 1:
        raise InvalidInput(f"keep must be at least 1, got {keep}; the newest version always stays")
    if not store.versions(stream):
        return Pruned((), 0)
    with files.lock(store.folder(stream), exclusive=True):
        versions = store.versions(stream)
        named: set[str] = set()
        for version in versions[-keep:]:
            try:
                kept = store.unverified(stream, version)
            except (ArtifactError, NoPlan, StoreError) as error:
                return Pruned((), 0, f"nothing was deleted: {error}")
            named |= {kept.payloads.json.digest, kept.payloads.binary.digest}
            named |= set(kept.inputs.values())
        gone = [v for v in versions[:-keep] if files.remove(store.manifest_path(stream, v))]
        payloads, inputs = (_drop(store, stream, part, named) for part in ("payloads", "inputs"))
        return Pruned(tuple(gone), payloads, inputs=inputs)


def _drop(store: Store, stream: str, part: str, named: set[str]) -> int:
    folder = store.folder(stream, part)
    grace = 0.0 if files.is_local(folder) else PAYLOAD_GRACE_S
    unnamed = [
        folder / name
        for name in files.names(folder)
        if not name.startswith(files.TEMPORARY) and name.split(".")[0] not in named
    ]
    return sum(files.remove(path) for path in unnamed if files.age_s(path) >= grace)
