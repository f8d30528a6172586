"""`python -m deploy.checks.kubernetes` prints what is wrong with the manifests and ends with code 1 when anything
is."""

import sys

from deploy.checks.kubernetes.manifests import BASE, read
from deploy.checks.kubernetes.rules import complaints

if __name__ == "__main__":
    found = complaints(read(BASE))
    print("\n".join(found) or "The Kubernetes manifests are in order.")
    sys.exit(1 if found else 0)
