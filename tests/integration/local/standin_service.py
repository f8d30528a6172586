"""Stands in for a service: serves `GET /ready` where the stack told it to, and names its lines.

`STANDIN_REFUSES` names a service that ends with the code for bad input, `STANDIN_CRASHES` one that ends with code 1,
`STANDIN_DEGRADED` one that answers as degraded, `STANDIN_STUBBORN` one that ignores SIGTERM.
"""

import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer


class Ready(BaseHTTPRequestHandler):
    degraded = False

    def do_GET(self) -> None:
        body = (
            {"status": "degraded", "reasons": {"degraded": "set wal_level"}} if self.degraded else {"status": "ready"}
        )
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the name that the base class gives it
        pass


def main() -> None:
    service = sys.argv[1]
    print(f"{service} starting, database {'KANDEV_DATABASE_URL' in os.environ}", flush=True)
    if os.environ.get("STANDIN_REFUSES") == service:
        print("refusing what was given", flush=True)
        sys.exit(2)
    if os.environ.get("STANDIN_CRASHES") == service:
        sys.exit(1)
    if os.environ.get("STANDIN_STUBBORN") == service:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    Ready.degraded = os.environ.get("STANDIN_DEGRADED") == service
    port = os.environ["KANDEV_PORT" if service == "gateway" else "KANDEV_METRICS_PORT"]
    HTTPServer(("127.0.0.1", int(port)), Ready).serve_forever()


if __name__ == "__main__":
    main()
