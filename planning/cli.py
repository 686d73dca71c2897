"""The ``headgate`` command: what the console script starts."""

from __future__ import annotations

import sys

from planning.errors import MissingExtra, PlanningError
from planning.exit_codes import exit_code

INSTALL = "pip install 'headgate[planning]'"


def main() -> None:
    """Run the command line; every expected error is one paragraph on standard error."""
    try:
        from planning.commands import app
    except ModuleNotFoundError as error:
        missing = MissingExtra(
            f"the headgate command needs {error.name}, which a source node's installation leaves "
            f"out; install it with: {INSTALL}"
        )
        sys.exit(f"headgate: {missing}")
    try:
        app(prog_name="headgate")
    except PlanningError as error:
        print(f"headgate: {error}", file=sys.stderr)
        sys.exit(exit_code(error))


if __name__ == "__main__":
    main()
