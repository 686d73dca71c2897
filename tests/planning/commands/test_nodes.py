"""``headgate nodes`` as a user or a script meets it, on a store and over HTTP."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from headgate_serve.tokens import Tokens

from planning.artifacts import SigningKey, Status
from planning.examples import demo_plan
from planning.home import Home

HEADGATE = Path(sys.executable).parent / "headgate"
AT = "2026-01-05T00:10:00Z"


def headgate(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [HEADGATE, *map(str, arguments)], capture_output=True, text=True,
        env=os.environ | {"COLUMNS": "300"},
    )  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with two versions of ``ticks`` and a node that runs the newer one."""
    home = Home.at(tmp_path / "home")
    signer = SigningKey.load_or_create(home.keys)
    for _ in range(2):
        home.store().publish(
            "ticks", demo_plan("sifter"), family="sifter", signer=signer,
            created_at="2026-01-05T00:00:00Z",
        )  # fmt: skip
    home.store().report(
        "ticks", Status(node="edge-1", at=AT, version=2, counters={"kept": 1, "offered": 4})
    )
    return home


def fall_silent(home: Home, node: str) -> None:
    heard = time.time() - 240
    os.utime(home.plans / "ticks" / "nodes" / f"{node}.json", (heard, heard))


def test_silent_and_refusing_nodes_are_on_top(home: Home) -> None:
    home.store().report("ticks", Status(node="edge-8", at=AT, version=2, heartbeat_s=30.0))
    fall_silent(home, "edge-8")
    home.store().report("ticks", Status(node="edge-9", at=AT, version=1, refused={2: "[/b] rot"}))
    shown = headgate("nodes", "ticks", "--home", home.root)
    assert (shown.returncode, shown.stderr) == (0, "")
    text = re.sub(r"\d+ seconds? ago", "just now", shown.stdout)
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    assert lines[2:] == [
        "ticks edge-8 was last heard 4 minutes ago 2 of 2 1 4 minutes ago",
        "ticks edge-9 refuses version 2: [/b] rot 1 of 2 1 just now",
        "ticks edge-1 runs version 2 2 of 2 1 25.0% just now",
        "ticks: 1 of 3 nodes runs version 2; edge-8 was last heard 4 minutes ago; edge-9 refuses "
        "version 2: [/b] rot.",
    ]


@pytest.mark.parametrize(
    ("status", "within", "code"),
    [
        (Status(node="edge-2", at=AT, version=2), 0, 0),
        (Status(node="edge-2", at=AT, version=1, ready=2), 0, 0),
        (Status(node="edge-2", at=AT, version=1), 60, 1),
        (Status(node="edge-2", at=AT, version=1), 1e10, 0),
        (Status(node="edge-2", at=AT, version=1, refused={2: "rot"}), 60, 1),
        (Status(node="edge-2", at=AT, version=2, heartbeat_s=30.0), 60, 1),
        (Status(node="edge-2", at=AT, version=2, heartbeat_s=30.0), 300, 0),
        (Status(node="edge-2", at=AT, version=2, heartbeat_s=90.0), 60, 0),
    ],
)
def test_check_tells_scripts(home: Home, status: Status, within: float, code: int) -> None:
    home.store().report("ticks", status)
    fall_silent(home, "edge-2")
    done = headgate("nodes", "--check", "--within", within, "--home", home.root)
    assert (done.returncode, done.stderr) == (code, "")


def test_json_over_http_is_the_same_as_from_the_store(home: Home, tmp_path: Path) -> None:
    home.store().report("ticks", Status(node="edge-9", at=AT, version=1, refused={2: "rot"}))
    tokens, file = tmp_path / "tokens.json", tmp_path / "token"
    file.write_text(Tokens(tokens).add("boss", ("*",), "operator") + "\n")
    server = subprocess.Popen(
        [HEADGATE, "serve", "--home", str(home.root), "--tokens", tokens, "--port", "0"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        url = server.stdout.readline().split()[-1]
        over_http = headgate("nodes", "ticks", "--url", url, "--token-file", file, "--json")
        stored = headgate("nodes", "ticks", "--home", home.root, "--json")
        assert (over_http.returncode, over_http.stderr) == (0, "")
        assert _timeless(over_http.stdout) == _timeless(stored.stdout)
        assert [told["state"] for told in json.loads(stored.stdout)] == ["refuses", "in force"]
        refused = headgate("nodes", "ticks", "--url", url)
        assert (refused.returncode, "answered 401" in refused.stderr) == (5, True)
    finally:
        server.terminate()
        server.wait()


def _timeless(text: str) -> list[dict[str, object]]:
    told = json.loads(text)
    for node in told:
        node["lasting_s"] = node["status"]["age_s"] = None
    return list(told)


def test_mistakes_are_named(home: Home, tmp_path: Path) -> None:
    missing = headgate("nodes", "--home", tmp_path / "nowhere")
    assert (missing.returncode, "is missing" in missing.stderr) == (5, True)
    unnamed = headgate("nodes", "--url", "http://127.0.0.1:9")
    assert (unnamed.returncode, "stream must be named" in unnamed.stderr) == (1, True)
    no_token = headgate("nodes", "x", "--url", "http://127.0.0.1:9", "--token-file", tmp_path / "t")
    assert (no_token.returncode, "--token-file" in no_token.stderr) == (1, True)
    unknown = headgate("nodes", "tocks", "--home", home.root)
    assert (unknown.returncode, unknown.stdout) == (0, "tocks: No node follows this stream yet.\n")
