"""Versions of releases: which of two is older, and what a plugin may require of its host."""

import re

_RELEASE = re.compile(r"[vV]?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?", re.ASCII)

Release = tuple[int, int, int]


def release(text: str) -> Release | None:
    """The release that the text names, parts left out counting as 0: `v0.95` is 0.95.0. `None` if it names none, like
    the version of a development build.
    """
    found = _RELEASE.fullmatch(text)
    if found is None:
        return None
    major, minor, patch = (int(part or 0) for part in found.groups())
    return major, minor, patch


def at_least(text: str, floor: Release) -> bool:
    """Whether the text names a release, and one that is not older than `floor`."""
    named = release(text)
    return named is not None and named >= floor


def unmet_requirement(minimum: str, running: str) -> str | None:
    """Why a plugin that requires `minimum` cannot be installed on a host of version `running`; `None` if it can.

    Where either is no release nothing can be compared, and nothing is required.
    """
    required, current = release(minimum), release(running)
    if required is None or current is None or required <= current:
        return None
    return f"plugins: requires kandev >= {minimum}, running {running}"
