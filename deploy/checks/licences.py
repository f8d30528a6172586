"""Every installed package has a licence that this project may be used with.

`python -m deploy.checks.licences` asks pip-licenses about its own environment; it prints what is not allowed and ends
with code 1 when there is anything.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ALLOWED = frozenset(
    {
        "3-Clause BSD License",
        "Apache Software License",
        "Apache-2.0",
        "BSD License",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "ISC",
        "MIT",
        "MIT-0",
        "MIT License",
        "MPL-2.0",
        "Mozilla Public License 2.0 (MPL 2.0)",
        "PSF-2.0",
        "Python Software Foundation License",
        "Unlicense",
    }
)
# Used unchanged and as separate packages, which the LGPL allows to any program.
# "Apache" alone is how one package, whose text is that of Apache-2.0, says it.
ALLOWED_BY_NAME = {"psycopg": "LGPL-3.0-only", "psycopg-binary": "LGPL-3.0-only", "kubernetes-validate": "Apache"}

TOKEN = re.compile(r"\(|\)|;|\bAND\b|\bOR\b")


def allowed(package: str, licence: str) -> bool:
    """Whether the package may be used under what it declares: an SPDX expression, or classifiers (any will do)."""
    return licence in ALLOWED or ALLOWED_BY_NAME.get(package.lower()) == licence or _Expression(licence).holds()


class _Expression:
    """A licence expression. AND binds closer than OR; a semicolon, which separates classifiers, means OR."""

    def __init__(self, text: str) -> None:
        names = TOKEN.split(text)
        signs = [*TOKEN.findall(text), ""]
        pairs = zip(names, signs, strict=True)
        self._tokens = [token.strip() for pair in pairs for token in pair if token.strip()]

    def holds(self) -> bool:
        return self._either() and not self._tokens

    def _either(self) -> bool:
        result = self._all()
        while self._next_is("OR", ";"):
            result = self._all() or result
        return result

    def _all(self) -> bool:
        result = self._one()
        while self._next_is("AND"):
            result = self._one() and result
        return result

    def _one(self) -> bool:
        if self._next_is("("):
            result = self._either()
            return self._next_is(")") and result
        return bool(self._tokens) and self._tokens.pop(0) in ALLOWED

    def _next_is(self, *signs: str) -> bool:
        if self._tokens and self._tokens[0] in signs:
            self._tokens.pop(0)
            return True
        return False


def main() -> None:
    """Checks the environment of the running interpreter."""
    tool = Path(sys.executable).with_name("pip-licenses")
    listing = subprocess.run(  # noqa: S603 - a tool of this environment
        [tool, f"--python={sys.executable}", "--format=json"], capture_output=True, text=True, check=True
    )
    packages = [(entry["Name"], entry["License"]) for entry in json.loads(listing.stdout)]
    refused = [f"{name}: {licence}" for name, licence in packages if not allowed(name, licence)]
    print(
        "\n".join(["Licences that are not on the list:", *refused]) if refused else f"{len(packages)} licences allowed."
    )
    sys.exit(1 if refused else 0)


if __name__ == "__main__":
    main()
