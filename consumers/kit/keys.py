"""Keys: values in every form, the hash of the key and its draw."""

from __future__ import annotations

import random
import struct
from typing import Any

from planning import keys

COUNT = 2000


def vectors() -> dict[str, Any]:
    """Return keys; a value is a pair of its kind and itself.

    Kinds: ``null``; ``flag``; ``long``, digits; ``double``, its eight bytes in hex, the lowest
    first; ``text``; ``bytes``, in hex.
    """
    r = random.Random(18)
    made = []
    for _ in range(COUNT):
        pairs = [_value(r) for _ in range(r.randrange(1, 4))]
        salt = r.choice([None, r.getrandbits(64) - 2**63])
        hashed = keys.hash_one([value for _, value in pairs], salt)
        made.append(
            {
                "key": [written for written, _ in pairs],
                "salt": None if salt is None else str(salt),
                "hash": str(hashed),
                "draw": hashed >> 32,
            }
        )
    return {"keys": made}


def _value(r: random.Random) -> tuple[list[Any], Any]:
    long = r.getrandbits(r.choice([8, 40, 65])) - r.choice([0, 2**7, 2**39, 2**63])
    text = "".join(r.choices("aZ09 é\0日🎈", k=r.randrange(70)))
    data = r.randbytes(r.randrange(70))
    number = r.choice([r.gauss(0, 1e3), float(r.randrange(-9, 9)), 2.0**63, -0.0, float("inf")])
    return r.choice(
        [
            (["null", 0], None),
            (["flag", True], True),
            (["long", str(long)], long),
            (["double", struct.pack("<d", number).hex()], number),
            (["text", text], text),
            (["bytes", data.hex()], data),
        ]
    )
