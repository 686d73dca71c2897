"""The key hash in JavaScript equals the one of planning.keys, driven through Node."""

from __future__ import annotations

import json
import math
import random
import re
import shutil
import struct
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from planning import keys

ROOM = Path(__file__).resolve().parents[2] / "consumers" / "js"
PAGE = ROOM.parents[1] / "docs" / "keys.md"
NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed")

DRIVER = """
import { readFileSync } from "node:fs";
import { draw, dropStep, keyHash } from "./keys.mjs";
const read = {
  null: () => null, undefined: () => undefined, text: (x) => x, flag: (x) => x, long: BigInt,
  number: Number, bytes: (x) => Buffer.from(x, "hex"), date: (x) => new Date(Number(x)),
  double: (x) => Buffer.from(x, "hex").readDoubleLE(), units: (x) => String.fromCharCode(...x),
};
const answers = JSON.parse(readFileSync(0)).map(({ key, salt, fraction }) => {
  const values = key.map(([kind, x]) => read[kind](x));
  const hash = keyHash(values, salt === null ? {} : { salt: BigInt(salt) });
  return [String(hash), draw(hash), dropStep(fraction)];
});
console.log(JSON.stringify(answers));
"""


def node(script: str, given: str = "") -> str:
    assert NODE is not None
    call = [NODE, "--input-type=module", "-e", script]
    done = subprocess.run(call, input=given, capture_output=True, text=True, cwd=ROOM, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def double(value: float) -> tuple[list[str], float]:
    return ["double", struct.pack("<d", value).hex()], value


def value(r: random.Random) -> tuple[list[Any], Any]:
    """Return a value as JavaScript reads it, and the same for Python."""
    big, number, flag = r.getrandbits(66) - 2**65, r.randrange(-(2**53), 2**53), r.random() < 0.5
    text = "".join(r.choices("aZ09 é\0日🎈", k=r.randrange(90)))
    data, ms = r.randbytes(r.randrange(90)), r.randrange(-(10**13), 10**13)
    date = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    edges = [0.0, -0.0, 2.0**53, 2.0**63, -(2.0**63), 1e300, 5e-324, math.inf, -math.inf, math.nan]
    return r.choice(
        [
            (["null", 0], None),
            (["undefined", 0], None),
            (["date", "NaN"], None),
            (["flag", flag], flag),
            (["long", str(big)], big),
            (["long", str(number)], number),
            (["number", str(number)], number),
            (["text", text], text),
            (["bytes", data.hex()], data),
            (["date", str(ms)], date),
            double(r.gauss(0, 1000)),
            double(r.choice(edges)),
            double(struct.unpack("<d", r.randbytes(8))[0]),
        ]
    )


def test_any_values_give_the_same_hashes() -> None:
    r = random.Random(3)
    questions, expected = [], []
    for _ in range(4000):
        pairs = [value(r) for _ in range(r.randrange(1, 4))]
        salt = r.choice([None, r.getrandbits(64) - 2**63])
        fraction = r.choice([0.0, 1.0, r.random(), 2.0**-40])
        key = [python for _, python in pairs]
        asked = {"key": [asked for asked, _ in pairs], "fraction": fraction}
        questions.append({**asked, "salt": None if salt is None else str(salt)})
        hashed = keys.hash_one(key, salt)
        expected.append([str(hashed), hashed >> 32, keys.drop_step(fraction)])
    assert json.loads(node(DRIVER, json.dumps(questions))) == expected


def test_every_length_and_half_a_surrogate_pair() -> None:
    texts = ["x" * n for n in range(100)]
    asked = [{"key": [["text", text]], "salt": None, "fraction": 0} for text in texts]
    asked.append({"key": [["units", [97, 0xD800]]], "salt": None, "fraction": 0})
    answers = json.loads(node(DRIVER, json.dumps(asked)))
    assert [int(hashed) for hashed, *_ in answers[:-1]] == keys.hashes([texts]).tolist()
    assert int(answers[-1][0]) == keys.hash_one(["a\ud800"])


def test_the_documented_example() -> None:
    (block,) = re.findall(r"```js\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    printed = node(block + "console.log(`${hash} ${kept} ${salted}`);")
    hashed, salted = keys.hash_one([42, "Spark"]), keys.hash_one([42, "Spark"], salt=7)
    assert printed.split() == [str(hashed), "false", str(salted)]
    assert [f"// {hashed}n" in block, f"// {salted}n" in block] == [True, True]
