"""`up` around stand-in services: the real supervisor and servers, without the services' own code.

`standin_up.py DATA_FOLDER [GATEWAYS]`; addresses and port come from the environment, as for `up`.
"""

import sys
from pathlib import Path

from cli.up import chosen, run

SERVICE = Path(__file__).with_name("standin_service.py")


def command(service: str) -> list[str]:
    return [sys.executable, str(SERVICE), service]


if __name__ == "__main__":
    gateways = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    run(chosen(port=None, gateways=gateways, readers=1, revisions=1, data=Path(sys.argv[1])), command)
