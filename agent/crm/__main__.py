"""`python -m agent.crm --cloudlet OPERATOR/NAME --controller HOST:PORT`: the resource manager of a
cloudlet, until it is told to stop."""

import argparse
import sys
from functools import partial

import uvloop

from agent.crm.crm import Crm, cloudlet_key
from agent.crm.serving import serve
from agent.crm.simulated import Simulated
from domain.errors import DomainError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m agent.crm", description="Manage a cloudlet.")
    parser.add_argument("--cloudlet", required=True, metavar="OPERATOR/NAME", help="whose manager")
    parser.add_argument(
        "--controller",
        action="append",
        required=True,
        metavar="HOST:PORT",
        help="where an API process serves notify; given more than once, they are tried in turn",
    )
    given = parser.parse_args()
    try:
        crm = Crm(cloudlet_key(given.cloudlet), Simulated(), given.controller)
        uvloop.run(serve(crm, given.cloudlet, partial(print, flush=True)))
    except DomainError as error:
        print(f"error: {error.message}\n  do: {error.do}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
