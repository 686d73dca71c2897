"""A publisher process for the tests: forks, on request, children that publish until they die.

Commands on stdin, one per line: ``<root> <keys> <stream> <log> <count> <keep>``. A child publishes
``count`` times (0: until killed), keeps ``keep`` versions (0: all) and appends every version it was
told of to the log. The answer on stdout is the child's process id; an empty line reaps it.
"""

import importlib.util
import os
import sys
import tempfile
from pathlib import Path

from planning.artifacts import SigningKey, Store, TrustedKeys

spec = importlib.util.spec_from_file_location(
    "tally_family", Path(__file__).parent / "tally_family.py"
)
tally = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tally)


def work(root, keys, stream, log, count, keep):
    signer = SigningKey.load_or_create(keys)
    store = Store(root, TrustedKeys.load(keys), temporary_max_age_s=0.5)
    told = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    done = 0
    while count == 0 or done < count:
        plan = tally.tally_plan(f"{os.getpid()}-{done % 3}", (0.0, done % 3 + 1.0))
        version = tally.publish(store, signer, plan, stream).version
        os.write(told, f"{version}\n".encode())
        done += 1
        if keep:
            store.prune(stream, keep)


def main():
    with tally.registered():
        # Children start with everything loaded, so that they die while publishing, not importing.
        if "AWS_ENDPOINT_URL" in os.environ:
            importlib.import_module("s3fs")
        with tempfile.TemporaryDirectory() as folder:
            work(f"{folder}/plans", f"{folder}/keys", "ticks", f"{folder}/log", 1, 1)
        children = []
        for line in sys.stdin:
            if not line.strip():
                for child in children:
                    os.waitpid(child, 0)
                children.clear()
                print("reaped", flush=True)
                continue
            root, keys, stream, log, count, keep = line.split()
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    work(root, keys, stream, log, int(count), int(keep))
                    status = 0
                finally:
                    os._exit(status)
            children.append(child)
            print(child, flush=True)


if __name__ == "__main__":
    main()
