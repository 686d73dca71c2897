"""Where Headgate keeps things: one folder, or object store, per installation.

``HEADGATE_HOME`` names it (a path or any fsspec URL); without it, ``var/headgate`` below the
working directory.

===================  =====================================================================
below the home       what
===================  =====================================================================
``landing/<name>``   monitoring samples arrive here, unless a definition names another place
``runs/<name>/…``    what one planning run made: samples, quarantine, statistics, verdict
``plans/<name>/…``   published artifacts
``ledger.sqlite``    which landing file was used by which run
``keys/``            signing key; ``keys/trusted/`` the public keys that readers trust
``validation/``      Great Expectations Data Docs
===================  =====================================================================
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from upath import UPath

from planning.errors import StoreError

if TYPE_CHECKING:
    from planning.artifacts import Store


class _Below:
    """A place of a given name below the home."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, home: Home, _: type[Home]) -> UPath:
        return home.root / self.name


@dataclass(frozen=True, slots=True)
class Home:
    """The folders of one installation.

    Examples
    --------
    >>> Home.at("memory://headgate").plans.as_posix()
    'memory://headgate/plans'
    >>> Home.at("/srv/headgate").resolve("landing/ticks").as_posix()
    '/srv/headgate/landing/ticks'
    """

    root: UPath

    plans = _Below("plans")
    """Root of the artifact store."""
    runs = _Below("runs")
    """Root of the planning runs' working folders."""
    ledger = _Below("ledger.sqlite")
    """The ledger of used landing files."""
    keys = _Below("keys")
    """Folder of the signing key and of the trusted public keys."""
    validation = _Below("validation")
    """Root of the Data Docs sites."""
    reports = _Below("reports")
    """Folder of the HTML reports."""

    @classmethod
    def at(cls, root: str | os.PathLike[str]) -> Home:
        """Return the home at ``root``, absolute if it is a local path."""
        path = UPath(root)
        return cls(path.absolute() if path.protocol in ("", "file") else path)

    @classmethod
    def from_environment(cls) -> Home:
        """Return the home that ``HEADGATE_HOME`` names, else ``var/headgate`` here."""
        return cls.at(os.environ.get("HEADGATE_HOME") or "var/headgate")

    def resolve(self, location: str) -> UPath:
        """Return ``location`` as a path: URLs and absolute paths as they are, others below home."""
        try:
            path = UPath(location)
        except ValueError as error:
            raise StoreError(
                f"{location} cannot be reached ({error}); check the address (for example "
                "samples.landing of the stream definition) and install its fsspec package"
            ) from error
        if path.protocol in ("", "file") and not path.is_absolute():
            return self.root / location
        return path

    def store(self) -> Store:
        """Return the store of published plans; it trusts the keys of this home."""
        from planning.artifacts import Store, TrustedKeys

        return Store(self.plans, TrustedKeys.load(self.keys))
