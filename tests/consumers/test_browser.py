"""The consumer in a browser: it verifies and applies a published plan as it does in Node."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOM = Path(__file__).resolve().parents[2] / "consumers" / "js"
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
SCRIPT = """
async ({ version, trusted, one }) => {
  const { decode, draws, readManifest, readPayload } = await import("/headgate.mjs");
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const manifest = await readManifest(bytes(version.manifest), trusted, version);
  const payload = await readPayload(bytes(version.binary), manifest, "binary");
  const plan = decode(bytes(one.binary), "binary");
  const drawn = draws(one.keys, one.salt === null ? {} : { salt: BigInt(one.salt) });
  const kept = one.settings.map(({ load }) =>
    Array.from(plan.decide(one.columns, drawn, plan.at(load))).join(""));
  return [decode(payload, "binary").regions, kept];
}
"""


class Quiet(SimpleHTTPRequestHandler):
    extensions_map = {".mjs": "text/javascript"}

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(ROOM)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_a_browser_verifies_and_decides_alike(kit: Path, address: str) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    made = json.loads((kit / "manifests.json").read_text())
    cases = json.loads((kit / "sifter.json").read_text())["cases"]
    one = next(case for case in cases if case["name"] == "pins")
    given = {"version": made["good"][0], "trusted": made["trusted"], "one": one}
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"{address}/headgate.d.ts")
        regions, kept = page.evaluate(SCRIPT, given)
        browser.close()
    assert (regions, kept) == (16, one["decisions"])
