"""Access to a Headgate installation: this one, or the one that a connection names."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec
from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowNotFoundException
from upath import UPath

from headgate_airflow import places
from headgate_airflow.rest import Rest
from planning.artifacts import Status, Store, TrustedKeys
from planning.errors import PlanningError
from planning.home import Home


class HeadgateHook(BaseHook):
    """Plans and nodes of an installation, from its store or from its plan API.

    A connection of type ``headgate`` names the installation in one of two ways: ``home`` in its
    extra is the folder or URL of the home (``plans`` and ``keys`` too, if they are elsewhere);
    a host is an API server that has the plugin, with login and password, or with a token as the
    password alone. Without such a connection it is the installation that this Airflow runs.
    """

    conn_name_attr = "headgate_conn_id"
    default_conn_name = "headgate_default"
    conn_type = "headgate"
    hook_name = "Headgate"

    def __init__(self, headgate_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.headgate_conn_id = headgate_conn_id

    def get_conn(self) -> Store | Rest:
        """Return what the plans are read from: the plan API if a host is named, else the store."""
        return self.api or self.store

    def latest(self, stream: str) -> int:
        """Return the version of the stream that is in force."""
        if self.api is not None:
            return int(self.api.call("GET", f"/headgate/api/streams/{stream}/latest")["version"])
        return self.store.latest(stream).version

    def nodes(self, stream: str) -> list[Status]:
        """Return what every node of the stream last said about itself."""
        if self.api is not None:
            words = self.api.call("GET", f"/headgate/api/streams/{stream}/nodes")
            return msgspec.convert(words, list[Status], str_keys=True)
        return list(self.store.nodes(stream))

    def test_connection(self) -> tuple[bool, str]:
        """List the streams that have a plan; say how many there are, or what is wrong."""
        try:
            if self.api is not None:
                streams = self.api.call("GET", "/headgate/api/streams")
                place, count = self.api.url, sum(s["version"] is not None for s in streams)
            else:
                place, count = str(self.store_folder), len(self.store.streams())
        except (PlanningError, AirflowNotFoundException, OSError) as error:
            return False, str(error)
        return True, f"{place} can be read; streams with a plan: {count}"

    @cached_property
    def home(self) -> Home:
        """The installation's home."""
        named = self._extra.get("home")
        return Home.at(named) if named else places.home()

    @cached_property
    def store(self) -> Store:
        """The store of published plans; it trusts the installation's keys."""
        keys = self._extra.get("keys")
        trusted = TrustedKeys.load(self.home.resolve(keys) if keys else self.home.keys)
        return Store(self.store_folder, trusted)

    @property
    def store_folder(self) -> UPath:
        """Where the published plans are."""
        plans = self._extra.get("plans")
        return self.home.resolve(plans) if plans else self.home.plans

    @cached_property
    def api(self) -> Rest | None:
        """The plan API, if the connection names a host."""
        connection = self._connection
        if connection is None or not connection.host:
            return None
        url = connection.host
        if "://" not in url:
            url = f"{connection.schema or 'http'}://{url}"
        if connection.port:
            url = f"{url}:{connection.port}"
        user, password = connection.login or "", connection.password or ""
        return Rest(url.rstrip("/"), user, password, token="" if user else password)

    @cached_property
    def _connection(self) -> Connection | None:
        """The connection; only the default one may be missing."""
        try:
            return self.get_connection(self.headgate_conn_id)
        except AirflowNotFoundException:
            if self.headgate_conn_id != self.default_conn_name:
                raise
            return None

    @property
    def _extra(self) -> dict[str, Any]:
        return dict(self._connection.extra_dejson) if self._connection is not None else {}
