"""A mosquitto of one's own on a free port, for benchmarks and tests."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Self

MOSQUITTO = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
CONFIGURATION = """\
listener {port} 127.0.0.1
allow_anonymous true
persistence false
sys_interval 1
log_type error
"""


class Broker:
    """A broker that can be killed and started again at the same address."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.address = f"mqtt://127.0.0.1:{self.port}"
        self._file = folder / "mosquitto.conf"
        self._file.write_text(CONFIGURATION.format(port=self.port))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it listens."""
        assert MOSQUITTO is not None
        self._process = subprocess.Popen([MOSQUITTO, "-c", str(self._file)])
        for _ in range(500):
            assert self._process.poll() is None, "mosquitto has ended"
            with socket.socket() as attempt:
                if attempt.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise TimeoutError("mosquitto does not listen")

    def kill(self) -> None:
        """End it without a farewell."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
