"""Many nodes in one process, as far as a server can tell: each waits for news, then asks again.

Run by :mod:`benchmarks.serving`: ``python -m benchmarks.waiting PORT TOKEN CLIENTS NEWS``. Prints a
line whenever all wait, and at the end when each had seen and fetched each version.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import time

import uvloop

WAIT_S = 60


class Fleet:
    """Clients that count themselves."""

    def __init__(self, port: int, token: str, clients: int, news: int) -> None:
        self.port, self.token, self.clients, self.news = port, token, clients, news
        self.waiting = 0
        self.seen: dict[int, list[float]] = {}
        self.fetched: dict[int, list[float]] = {}

    async def ask(
        self, path: str, tag: str = "", *, counted: bool = False
    ) -> tuple[int, dict, bytes]:
        """Ask on a new connection, as nodes do."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        condition = f'If-None-Match: "{tag}"\r\n' if tag else ""
        writer.write(
            f"GET /streams/ticks/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            f"Authorization: Bearer {self.token}\r\n{condition}\r\n".encode()
        )
        if counted:
            self.waiting += 1
            if self.waiting % self.clients == 0:
                print("all wait", flush=True)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        writer.close()
        return int(head[0].split()[1]), headers, body

    async def node(self) -> None:
        """Follow the stream until all news has come."""
        _, headers, body = await self.ask("latest")
        for _ in range(self.news):
            counted = True
            while True:
                tag = hashlib.sha256(body).hexdigest()
                code, headers, news = await self.ask(f"latest?wait={WAIT_S}", tag, counted=counted)
                if code == 200:
                    break
                counted = False
            at, body = time.monotonic(), news
            version = int(headers["headgate-version"])
            self.seen.setdefault(version, []).append(at)
            digest = json.loads(body)["payloads"]["binary"]["digest"]
            _, _, plan = await self.ask(f"payloads/{digest}.bin")
            if hashlib.sha256(plan).hexdigest() != digest:
                raise RuntimeError("this is not the plan")
            self.fetched.setdefault(version, []).append(time.monotonic())

    async def run(self) -> None:
        """Let all nodes follow."""
        await asyncio.gather(*(self.node() for _ in range(self.clients)))
        print(json.dumps({"seen": self.seen, "fetched": self.fetched}))


if __name__ == "__main__":
    port, token, clients, news = sys.argv[1:]
    uvloop.run(Fleet(int(port), token, int(clients), int(news)).run())
