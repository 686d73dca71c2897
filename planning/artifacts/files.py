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
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

from planning.errors import ArtifactError, PlanningError, StoreError

if TYPE_CHECKING:
    from upath import UPath

Location: TypeAlias = "str | os.PathLike[str] | UPath"
TEMPORARY = ".tmp-"
LOCK = ".lock"
SMALL_BYTES = 16 * 2**20  # at most, of a manifest, an acknowledgement or a key
PAYLOAD_BYTES = 256 * 2**20  # at most, of an encoded plan


def folder(location: Location) -> UPath:
    """Return ``location`` as a path, absolute if it is local.

    A local path is an ordinary one: a node that needs no other file systems does not load them.
    """
    if not hasattr(location, "protocol") and "://" not in os.fspath(location):
        return cast("UPath", Path(location).absolute())
    from upath import UPath

    path = UPath(location)
    return cast("UPath", local(path).absolute()) if is_local(path) else path


def is_local(path: UPath) -> bool:
    """Whether ``path`` is on a file system of this machine."""
    return getattr(path, "protocol", "") in ("", "file", "local")


def local(path: UPath | Path) -> Path:
    """Return a local path as an ordinary one."""
    return path if isinstance(path, Path) else Path(path.path)


@contextmanager
def reaching(path: UPath, doing: str, expected: tuple[type[Exception], ...] = ()) -> Iterator[None]:
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


def read(path: UPath, limit: int = SMALL_BYTES) -> bytes:
    """Return a file's bytes; a missing file raises ``FileNotFoundError``.

    What is not a regular file (a folder, a FIFO, a device) and what has more than ``limit`` bytes
    is an :class:`ArtifactError` before a byte is read, so that no file can block or flood a reader.
    """
    with reaching(path, "read", expected=(FileNotFoundError,)):
        data = (_read_local if is_local(path) else _read_remote)(path, limit)
        _refuse_larger(path, len(data), limit)
        return data


def replace(path: UPath, data: bytes, mode: int = 0o644) -> None:
    """Write a file whole or not at all, whether or not it exists."""
    with reaching(path, "written"):
        if not is_local(path):
            path.fs.pipe_file(path.path, data)
            return
        target = local(path)
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
                _link(local(path), data, mode)
            else:
                path.fs.pipe_file(path.path, data, mode="create")
        except FileExistsError:
            return False
        # Without conditional writes, one of two concurrent writers overwrites the other's file: the
        # one that does not read back its own bytes has lost.
        return is_local(path) or path.fs.cat_file(path.path, 0, len(data) + 1) == data


def make(path: UPath) -> None:
    """Create a folder and those above it, durably."""
    with reaching(path, "created"):
        if not is_local(path):
            path.mkdir(parents=True, exist_ok=True)
            return
        target = local(path)
        missing = [p for p in (target, *target.parents) if not p.exists()]
        target.mkdir(parents=True, exist_ok=True)
        for made in missing:
            _sync(made.parent)


def remove(path: UPath) -> bool:
    """Delete a file; return False if no file is there."""
    with reaching(path, "deleted"):
        try:
            path.unlink()
        except (FileNotFoundError, IsADirectoryError):
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
        handle = os.open(local(path) / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        with reaching(path, "locked"):
            fcntl.flock(handle, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)


def _read_local(path: UPath, limit: int) -> bytes:
    # Without O_NONBLOCK, opening a FIFO waits for a writer.
    handle = os.open(local(path), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise _not_a_file(path)
        _refuse_larger(path, status.st_size, limit)
        with open(handle, "rb", closefd=False) as file:
            return file.read(limit + 1)
    finally:
        os.close(handle)


def _read_remote(path: UPath, limit: int) -> bytes:
    info = path.fs.info(path.path)
    if info.get("type") != "file":
        raise _not_a_file(path)
    size = info.get("size")
    _refuse_larger(path, size or 0, limit)
    # Many object stores refuse a range of an empty object.
    return b"" if size == 0 else bytes(path.fs.cat_file(path.path, 0, limit + 1))


def _not_a_file(path: UPath) -> ArtifactError:
    return ArtifactError(
        f"{path} must be a regular file, got something else (a folder, a FIFO or a device); remove "
        "what is in its place"
    )


def _refuse_larger(path: UPath, size: int, limit: int) -> None:
    if size > limit:
        raise ArtifactError(
            f"{path} must have at most {limit} bytes, got {size}; it is damaged or was replaced; "
            "restore it, roll back, or publish again"
        )


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
