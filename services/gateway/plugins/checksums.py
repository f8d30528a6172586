"""`checksums.txt`: a line for every other file of a package, as `sha256sum` writes it."""

import re
from collections.abc import Iterator, Mapping, Set

from services.gateway.plugins.refusals import Fault, PackageRefused, RefusalKind

CHECKSUMS = "checksums.txt"
SIGNATURE = "checksums.txt.sig"
"""May stand beside the list, and is in it as little as the list itself."""

_LINE = re.compile(r"([0-9a-fA-F]{64}) [ *](?:\./)?(.+)")
_MOST_NAMED = 20


def checksum_text(sums: Mapping[str, str]) -> bytes:
    """The list for files with these SHA-256 sums in hex, by path."""
    return "".join(f"{digest}  {path}\n" for path, digest in sorted(sums.items())).encode()


def checksum_faults(listing: bytes, found: Mapping[str, str]) -> Iterator[Fault]:
    """Where the list and the sums of the files that are there differ. Raises `PackageRefused` for what is no list."""
    listed = _parse(listing)
    changed = {path for path in listed.keys() & found.keys() if found[path] != listed[path]}
    yield from _any("unlisted_file", f"not listed in {CHECKSUMS}", found.keys() - listed.keys())
    yield from _any("checksum_mismatch", f"listed in {CHECKSUMS}, but not in the package", listed.keys() - found.keys())
    yield from _any("checksum_mismatch", f"not what {CHECKSUMS} says", changed)


def _any(kind: RefusalKind, problem: str, paths: Set[str]) -> Iterator[Fault]:
    if paths:
        named = ", ".join(map(repr, sorted(paths)[:_MOST_NAMED]))
        more = f" and {len(paths) - _MOST_NAMED:,} more" if len(paths) > _MOST_NAMED else ""
        yield kind, f"{problem}: {named}{more}"


def _parse(listing: bytes) -> dict[str, str]:
    try:
        lines = listing.decode().split("\n")
    except UnicodeDecodeError:
        raise PackageRefused("missing_checksums", f"{CHECKSUMS} is not UTF-8") from None
    listed: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        entry = _LINE.fullmatch(line.rstrip("\r"))
        if entry is None or entry[2] in listed:
            raise PackageRefused(
                "missing_checksums", f"{CHECKSUMS}, line {number}: expected a SHA-256 and a path, each path once"
            )
        listed[entry[2]] = entry[1].lower()
    return listed
