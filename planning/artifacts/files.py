"""Whole-or-nothing file operations, on local files and on any fsspec file system.

Local files are written under a temporary name, synced, and then given their name in one system
call. Other file systems (object stores) always write an object in one piece; there, exclusive
creation is the file system's own conditional write. S3 has its own way where s3fs would look around
first: one request per listing, reading, writing and deletion.
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
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from planning.errors import ArtifactError, MissingExtra, PlanningError, StoreError

if TYPE_CHECKING:
    from upath import UPath

Location: TypeAlias = "str | os.PathLike[str] | UPath"
TEMPORARY = ".tmp-"
LOCK = ".lock"
SMALL_BYTES = 16 * 2**20  # at most, of a manifest, a status or a key
PAYLOAD_BYTES = 256 * 2**20  # at most, of an encoded plan
INPUT_BYTES = 64 * 2**20  # at most, of a text that a plan was made from and that is kept with it
NO_BUCKET = "NoSuchBucket"
CONFLICTS = ("PreconditionFailed", "ConditionalRequestConflict")  # another writer's object
# A request to S3 fails after about 12 s if nobody answers, 35 s if the answer never comes.
S3_LIMITS = {
    "connect_timeout": 3,
    "read_timeout": 10,
    "retries": {"mode": "standard", "total_max_attempts": 3},
}


def folder(location: Location) -> UPath:
    """Return ``location`` as a path, absolute if it is local.

    A local path is an ordinary one: a node that needs no other file systems does not load them.
    """
    if not hasattr(location, "protocol") and "://" not in os.fspath(location):
        return cast("UPath", Path(location).absolute())
    from upath import UPath

    path = UPath(location)
    if is_local(path):
        return cast("UPath", local(path).absolute())
    return _bounded(path) if on_s3(path) else path


def is_local(path: UPath) -> bool:
    """Whether ``path`` is on a file system of this machine."""
    return getattr(path, "protocol", "") in ("", "file", "local")


def on_s3(path: UPath) -> bool:
    """Whether ``path`` is on S3 or a store that speaks its protocol."""
    return getattr(path, "protocol", "") in ("s3", "s3a")


def local(path: UPath | Path) -> Path:
    """Return a local path as an ordinary one."""
    return path if isinstance(path, Path) else Path(path.path)


@contextmanager
def reaching(path: UPath, doing: str, expected: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Turn any failure of the file system, except an expected one, into a :class:`StoreError`."""
    try:
        yield
    except Exception as error:
        if isinstance(error, (PlanningError, *expected)) and _s3_code(error) != NO_BUCKET:
            raise
        detail = " ".join(str(error).split()) or type(error).__name__
        raise StoreError(
            f"{path} cannot be {doing} ({detail}); check that the store's path or URL is right "
            "and mounted or reachable, that this user may use it, and that it has space left"
        ) from error


def names(path: UPath) -> list[str]:
    """Return the sorted names in a folder; none if the folder does not exist."""
    with reaching(path, "listed"):
        if on_s3(path):
            return _s3_names(path)
        if not is_local(path):
            # A client that polls must see what others published since its last look.
            path.fs.invalidate_cache()
        try:
            return sorted(child.name for child in path.iterdir())
        except FileNotFoundError:
            return []
        except NotADirectoryError:  # which an object store says of what does not exist
            if is_local(path):
                raise
            return []


def read(path: UPath, limit: int = SMALL_BYTES) -> bytes:
    """Return a file's bytes; a missing file raises ``FileNotFoundError``.

    What is not a regular file (a folder, a FIFO, a device) and what has more than ``limit`` bytes
    is an :class:`ArtifactError` before a byte is read (on S3, before a byte more than ``limit`` and
    one), so that no file can block or flood a reader.
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
        if on_s3(path):
            return _s3_create(path, data)
        try:
            if is_local(path):
                _link(local(path), data, mode)
            else:
                path.fs.pipe_file(path.path, data, mode="create")
        except FileExistsError:
            return False
        # Without conditional writes, one of two concurrent writers overwrites the other's file: the
        # one that does not read back its own bytes has lost.
        return is_local(path) or path.fs.cat_file(path.path, start=0, end=len(data) + 1) == data


def make(path: UPath) -> None:
    """Create a folder and those above it, durably; S3 has none, and its buckets are not ours."""
    with reaching(path, "created"):
        if on_s3(path):
            return
        if not is_local(path):
            path.mkdir(parents=True, exist_ok=True)
            return
        target = local(path)
        missing = [p for p in (target, *target.parents) if not p.exists()]
        target.mkdir(parents=True, exist_ok=True)
        for made in missing:
            _sync(made.parent)


def remove(path: UPath) -> bool:
    """Delete a file; return False if no file is there (S3 does not say)."""
    with reaching(path, "deleted"):
        try:
            path.fs.rm_file(path.path) if on_s3(path) else path.unlink()
        except (FileNotFoundError, IsADirectoryError):
            return False
        return True


def age_s(path: UPath) -> float:
    """Return the seconds since a file was last written, on S3 by its clock; 0 if not known."""
    with reaching(path, "looked at"):
        try:
            if on_s3(path):
                return max(0.0, _s3_age_s(path))
            if is_local(path):
                return max(0.0, time.time() - path.stat().st_mtime)
            return max(0.0, time.time() - float(path.fs.modified(path.path).timestamp()))
        except (FileNotFoundError, NotImplementedError, AttributeError, TypeError, KeyError):
            return 0.0


def sweep(path: UPath, older_than_s: float) -> int:
    """Delete the temporary files that killed writers left behind; return how many."""
    if not is_local(path):
        return 0
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
    if on_s3(path):
        try:
            return bytes(path.fs.cat_file(path.path, start=0, end=limit + 1))
        except OSError as error:
            # No such object, or a range of an empty one: a closer look tells.
            if not isinstance(error, FileNotFoundError) and error.errno != errno.EINVAL:
                raise
    info = path.fs.info(path.path)
    if info.get("type") != "file":
        raise _not_a_file(path)
    size = info.get("size")
    _refuse_larger(path, size or 0, limit)
    # Many object stores refuse a range of an empty object.
    return b"" if size == 0 else bytes(path.fs.cat_file(path.path, start=0, end=limit + 1))


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


def _bounded(path: UPath) -> UPath:
    """Return a path whose requests have :data:`S3_LIMITS`, unless the user has set others."""
    from fsspec.config import conf  # type: ignore[import-untyped]

    if "config_kwargs" in {**conf.get("s3", {}), **path.storage_options}:
        return path
    path = type(path)(path, config_kwargs=S3_LIMITS)
    try:
        # botocore repeats what is worth repeating; s3fs would repeat all of that five times.
        path.fs.retries = 1
    except ImportError:
        raise MissingExtra(
            f"{path} is on S3, which needs s3fs; run `pip install 'headgate[s3]'`"
        ) from None
    return path


def _s3_code(error: Exception) -> str:
    answer = getattr(error.__cause__, "response", None) or {}
    return str(answer.get("Error", {}).get("Code", ""))


def _s3_names(path: UPath) -> list[str]:
    bucket, key, _ = path.fs.split_path(path.path)
    prefix = f"{key.rstrip('/')}/" if key else ""
    query = {"Bucket": bucket, "Prefix": prefix, "Delimiter": "/"}
    found: set[str] = set()
    while True:
        page: dict[str, Any] = path.fs.call_s3("list_objects_v2", **query)
        found.update(item["Key"] for item in page.get("Contents", ()))
        found.update(item["Prefix"] for item in page.get("CommonPrefixes", ()))
        if not page.get("IsTruncated"):
            return sorted({name.removeprefix(prefix).rstrip("/") for name in found} - {""})
        query["ContinuationToken"] = page["NextContinuationToken"]


def _s3_create(path: UPath, data: bytes) -> bool:
    # A request whose answer is lost is sent again, and then its own first attempt is in its way:
    # whatever the answers were, the mark of what lies there tells whose it is.
    mark = secrets.token_hex(16)
    failure: Exception | None = None
    try:
        path.fs.pipe_file(path.path, data, mode="create", Metadata={"writer": mark})
    except Exception as error:
        failure = error
    try:
        return bool(path.fs.metadata(path.path).get("writer") == mark)
    except FileNotFoundError as gone:
        if failure is not None and _s3_code(failure) in CONFLICTS:
            return False
        raise (failure or gone) from None


def _s3_age_s(path: UPath) -> float:
    bucket, key, _ = path.fs.split_path(path.path)
    told = path.fs.call_s3("head_object", Bucket=bucket, Key=key)
    now = parsedate_to_datetime(told["ResponseMetadata"]["HTTPHeaders"]["date"])
    return float((now - told["LastModified"]).total_seconds())
