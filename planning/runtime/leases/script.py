"""What assigns the shares: a script that runs in Redis, in one step per call."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from planning.errors import InvalidInput, MissingExtra, StoreError

Call: TypeAlias = "Callable[[dict[str, Any]], dict[str, Any]]"
WHOLE = 10**9  # shares are counted in billionths, so that sums are exact

SCRIPT = Path(__file__).with_name("shares.lua").read_text(encoding="ascii")


def connect(url: str, name: str) -> Call:
    """Return what runs the script on the state of a capacity."""
    try:
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ModuleNotFoundError:
        raise MissingExtra("leases need redis; pip install 'headgate[redis]'") from None
    try:
        client = Redis.from_url(
            url, socket_timeout=1.0, socket_connect_timeout=1.0, retry=Retry(NoBackoff(), 0)
        )
    except ValueError as error:
        raise InvalidInput(f"url must be a Redis URL, got {url!r}: {error}") from None
    script, key = client.register_script(SCRIPT), f"headgate:capacity:{name}"

    def call(request: dict[str, Any]) -> dict[str, Any]:
        request = {"nonce": secrets.token_hex(8), "epoch": "", **request}
        try:
            reply: dict[str, Any] = json.loads(script(keys=[key], args=[json.dumps(request)]))
        except Exception as error:
            raise StoreError(f"Redis does not answer: {error}; check its URL and rights") from error
        return reply

    return call
