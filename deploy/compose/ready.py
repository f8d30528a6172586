"""`python -m deploy.compose.ready`: succeeds when the service in this container says that it is ready, or degraded.

It asks the service's own metrics port, whose number it has from the environment as the service does.
"""

import os
import sys
import urllib.error
import urllib.request
from urllib.parse import urlunsplit

PATIENCE_SECONDS = 3.0


def refusal(port: int) -> str:
    """Why the service on this port is not ready; empty when it is."""
    url = urlunsplit(("http", f"127.0.0.1:{port}", "/ready", "", ""))
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS):  # noqa: S310 - the scheme is written above
            return ""
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.read().decode(errors="replace")
    except OSError as error:
        return f"nothing answers on port {port} ({type(error).__name__})"


def main() -> None:
    """Prints the refusal, which `docker inspect` then shows, and ends with code 1; or ends with 0."""
    reason = refusal(int(os.environ.get("KANDEV_METRICS_PORT") or 9100))
    sys.exit(reason or 0)


if __name__ == "__main__":
    main()
