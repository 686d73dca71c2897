"""The file of tokens: what it holds, who may touch it, and what happens when it is damaged."""

from __future__ import annotations

import json
import logging
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from headgate_serve.tokens import Tokens
from typer.testing import CliRunner

from planning.commands import app
from planning.errors import InvalidInput, StoreError


@pytest.fixture
def tokens(tmp_path):
    return Tokens(tmp_path / "secrets" / "tokens.json")


def test_only_digests_are_kept_and_only_for_the_owner(tokens):
    secret = tokens.add("edge-7", ("ticks",))
    text = tokens.path.read_text()
    assert len(secret) >= 43  # 256 bits
    assert secret not in text
    assert stat.S_IMODE(tokens.path.stat().st_mode) == 0o600
    found = tokens.find(secret)
    assert (found.name, found.node, found.role, found.streams) == (
        "edge-7", "edge-7", "node", ("ticks",)
    )  # fmt: skip
    assert tokens.find(found.sha256) is None
    assert tokens.find("") is None


def test_a_removed_token_stops_working_in_another_process(tokens):
    running = Tokens(tokens.path)
    first, second = tokens.add("a", ("*",)), tokens.add("b", ("*",))
    assert running.find(first)
    assert running.find(second)
    tokens.remove("a")
    assert not running.find(first)
    assert running.find(second)


def test_a_token_ends_when_it_says(tokens):
    assert tokens.find(tokens.add("old", ("*",), not_after="2026-01-02T03:04:05Z")) is None
    assert tokens.find(tokens.add("new", ("*",), not_after="9999-01-02T03:04:05Z")) is not None


@pytest.mark.parametrize(
    "damage", [b"", b"[", b"{}", b'[{"name":"x"}]', b"\xff", b"[" * 10_000, None, "mode"]
)
def test_a_damaged_file_keeps_the_last_good_tokens(tokens, damage, caplog):
    secret = tokens.add("edge-7", ("ticks",))
    good = tokens.path.read_bytes()
    running = Tokens(tokens.path)
    assert running.find(secret)
    if damage is None:
        tokens.path.unlink()
    elif damage == "mode":
        tokens.path.chmod(0o666)
    else:
        tokens.path.write_bytes(damage)
    with caplog.at_level(logging.ERROR):
        assert running.find(secret)
        assert running.find(secret)
    assert len(caplog.records) == 1
    assert "the tokens that were valid before stay valid" in caplog.text
    if damage is not None:
        with pytest.raises(StoreError, match="is not a file of tokens|chmod 600"):
            Tokens(tokens.path).load()
    tokens.path.unlink(missing_ok=True)
    tokens.path.touch(0o600)
    tokens.path.write_bytes(good)
    assert running.find(secret)
    assert running.problem == ""


@pytest.mark.parametrize(
    "bad",
    [
        {"name": "a/b"}, {"name": ""}, {"streams": ()}, {"node": "a b"}, {"not_after": "tomorrow"},
    ],
)  # fmt: skip
def test_what_cannot_be_a_token(tokens, bad):
    tokens.add("good", ("*",))
    before = tokens.path.read_bytes()
    with pytest.raises(InvalidInput, match="cannot be a token"):
        tokens.add(**{"name": "edge-7", "streams": ("ticks",), **bad})
    assert tokens.path.read_bytes() == before


def test_names_are_unique_and_known(tokens):
    tokens.add("edge-7", ("ticks",))
    with pytest.raises(InvalidInput, match="none of those"):
        tokens.add("edge-7", ("other",))
    with pytest.raises(InvalidInput, match="one of those"):
        tokens.remove("edge-8")


def test_tokens_added_at_the_same_time_are_all_there(tokens):
    with ThreadPoolExecutor(8) as pool:
        secrets = list(pool.map(lambda i: Tokens(tokens.path).add(f"edge-{i}", ("*",)), range(40)))
    assert all(tokens.find(secret) for secret in secrets)


def test_commands(tmp_path):
    path = str(tmp_path / "tokens.json")
    runner = CliRunner()

    def run(*words):
        result = runner.invoke(app, ["tokens", *words, "--tokens", path])
        assert result.exit_code == 0, result.output
        return result.stdout

    secret = run("add", "edge-7", "--stream", "ticks", "--stream", "fleet-*").strip()
    run("add", "anna", "--stream", "*", "--operator")
    assert Tokens(path).find(secret).streams == ("ticks", "fleet-*")
    listed = run("list")
    assert "edge-7" in listed
    assert "operator" in listed
    assert secret not in listed
    assert [token["node"] for token in json.loads(run("list", "--json"))] == ["edge-7", None]
    run("remove", "edge-7")
    assert Tokens(path).find(secret) is None


def test_a_server_without_tokens_does_not_start(tmp_path):
    result = CliRunner().invoke(app, ["serve", "--home", str(tmp_path), "--tokens", "none.json"])
    assert isinstance(result.exception, InvalidInput)
    assert "headgate tokens add" in str(result.exception)


def test_without_its_extra_the_server_says_what_to_install():
    script = (
        "import sys; sys.modules['uvicorn'] = None; sys.argv = ['headgate', 'serve']\n"
        "from planning.cli import main; main()"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ran.returncode == 1
    assert ran.stderr.startswith("headgate: headgate serve needs")
    assert "pip install 'headgate[serve]'" in ran.stderr
