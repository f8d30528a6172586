"""Why a package is refused."""

from typing import Literal

RefusalKind = Literal[
    "malformed",
    "too_large",
    "path_traversal",
    "missing_checksums",
    "unlisted_file",
    "checksum_mismatch",
    "manifest_invalid",
    "platform_not_supported",
    "version_exists",
]
"""All but `version_exists` are faults of the package."""


Fault = tuple[RefusalKind, str]
"""A reason, and the sentence for the person who offered the package."""


class PackageRefused(Exception):
    """The archive is no package that can be used. `problems`: a sentence for every reason; `kind`: that of the first;
    `message`: all of them.
    """

    def __init__(self, kind: RefusalKind, *problems: str) -> None:
        self.kind = kind
        self.problems = problems
        self.message = "; ".join(problems)
        super().__init__(self.message)
