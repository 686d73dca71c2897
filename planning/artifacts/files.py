"""Whole-or-nothing file operations, on local files and on any fsspec file system.

Local files are written under a temporary name, synced, and then given their name in one system
call. Other file systems (object stores) always write an object in one piece; there, exclusive
creation is the file system's own conditional write.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from upath import UPath

from planning.errors import PlanningError, StoreError

Location = str | os.PathLike[str] | UPath
TEMPORARY = ".tmp-"
LOCK = ".lock"


def folder(location: Location) -> UPath:
    """Return ``location`` as a path, absolute if it is local."""
    path = UPath(location)
    return UPath(Path(path.path).absolute()) if is_local(path) else path


def is_local(path: UPath) -> bool:
    """Whether ``path`` is on a file system of this machine."""
    return path.protocol in ("", "file", "local")


@contextmanager
def reaching(
    path: UPath, doing: str, expected: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Turn any failure of the file system, except an expected one, into a :class:`StoreError`."""
    try:
        yield
    except Exception as error:
        if isinstance(error, (PlanningError, *expected)):
            raise
        detail = " ".join(str(error).split()) or type(error).__name__
        raise StoreError(
            f"{path} cannot be {doing} ({detail}); check that the store's path or URL is right "
            "and mounted, that this user may use it, and that it has space left"
        ) from error


def names(path: UPath) -> list[str]:
    """Return the sorted names in a folder; none if the folder does not exist."""
    with reaching(path, "listed"):
        if not is_local(path):
            # A client that polls must see what others published since its last look.
            path.fs.invalidate_cache()
        try:
            return sorted(child.name for child in path.iterdir())
        except FileNotFoundError:
            return []


def read(path: UPath) -> bytes:
    """Return a file's bytes; a missing file raises ``FileNotFoundError``."""
    with reaching(path, "read", expected=(FileNotFoundError,)):
        return bytes(path.read_bytes())


def replace(path: UPath, data: bytes, mode: int = 0o644) -> None:
    """Write a file whole or not at all, whether or not it exists."""
    with reaching(path, "written"):
        if not is_local(path):
            path.fs.pipe_file(path.path, data)
            return
        target = Path(path.path)
        temporary = _temporary(target, data, mode)
        try:
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync(target.parent)


def create(path: UPath, data: bytes, mode: int = 0o644) -> bool:
    """Write a new file whole or not at all; return False if its name is taken."""
    with reaching(path, "created"):
        try:
            if is_local(path):
                _link(Path(path.path), data, mode)
            else:
                path.fs.pipe_file(path.path, data, mode="create")
        except FileExistsError:
            return False
        # Without conditional writes, one of two concurrent writers overwrites the other's file: the
        # one that does not read back its own bytes has lost.
        return is_local(path) or path.read_bytes() == data


def make(path: UPath) -> None:
    """Create a folder and those above it, durably."""
    with reaching(path, "created"):
        if not is_local(path):
            path.mkdir(parents=True, exist_ok=True)
            return
        target = Path(path.path)
        missing = [p for p in (target, *target.parents) if not p.exists()]
        target.mkdir(parents=True, exist_ok=True)
        for made in missing:
            _sync(made.parent)


def remove(path: UPath) -> bool:
    """Delete a file; return False if it was not there."""
    with reaching(path, "deleted"):
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        return True


def age_s(path: UPath) -> float:
    """Return the seconds since a file was last written; 0 if that is not known."""
    with reaching(path, "looked at"):
        try:
            return max(0.0, time.time() - path.stat().st_mtime)
        except (FileNotFoundError, NotImplementedError, AttributeError, TypeError):
            return 0.0


def sweep(path: UPath, older_than_s: float) -> int:
    """Delete the temporary files that killed writers left behind; return how many."""
    left = [path / name for name in names(path) if name.startswith(TEMPORARY)]
    return sum(remove(file) for file in left if age_s(file) >= older_than_s)


@contextmanager
def lock(path: UPath, *, exclusive: bool) -> Iterator[None]:
    """Hold a folder's lock: publishers share it, a deletion excludes them. Ends with the process.

    Only local folders have one; elsewhere deletions are guarded by age.
    """
    if not is_local(path):
        yield
        return
    with reaching(path, "locked"):
        handle = os.open(Path(path.path) / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        with reaching(path, "locked"):
            fcntl.flock(handle, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)


def _temporary(target: Path, data: bytes, mode: int) -> Path:
    temporary = target.with_name(f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _link(target: Path, data: bytes, mode: int) -> None:
    temporary = _temporary(target, data, mode)
    try:
        os.link(temporary, target)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS):
            raise StoreError(
                f"{target.parent} lies on a file system without hard links, which atomic "
                "publication needs; put the store on another file system or an object store"
            ) from None
        raise
    finally:
        temporary.unlink(missing_ok=True)
    _sync(target.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
