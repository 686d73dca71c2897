"""The library as one zip file, for Spark's drivers and executors."""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from headgate_airflow.places import package_folder

PACKAGES = ("planning", "expectations", "spark_apps")
SUFFIXES = (".py", ".json", ".yaml")
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip file can store


def code_archive(cache: Path, packages: Iterable[Path] | None = None) -> Path:
    """Return the zip of the library's installed packages, named after its content.

    The same content is zipped only once.
    """
    folders = packages if packages is not None else map(package_folder, PACKAGES)
    content = [
        (path.relative_to(folder.parent).as_posix(), path.read_bytes())
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.suffix in SUFFIXES and path.is_file()
    ]
    digest = hashlib.sha256()
    for name, data in content:
        digest.update(f"{name}\0{len(data)}\0".encode())
        digest.update(data)
    archive = cache / f"headgate-{digest.hexdigest()[:16]}.zip"
    if not archive.exists():
        _write(archive, content)
    return archive


def _write(archive: Path, content: list[tuple[str, bytes]]) -> None:
    archive.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(dir=archive.parent, suffix=".part")
    with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w") as archived:
        for name, data in content:
            archived.writestr(zipfile.ZipInfo(name, EPOCH), data, zipfile.ZIP_DEFLATED)
    os.replace(part, archive)
