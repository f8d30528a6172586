"""Writes `docs/openapi.json`, which describes every route of the gateway; with `--check`, compares it."""

import sys

from deploy.checks.generated import settle
from services.gateway.http.application import ROUTES
from services.gateway.http.openapi import rendered

if __name__ == "__main__":
    sys.exit(settle("openapi.json", rendered(ROUTES), "deploy.checks.openapi", sys.argv[1:]))
