"""Which licences pass."""

import pytest

from deploy.checks.licences import allowed


@pytest.mark.parametrize(
    "licence",
    [
        "MIT",
        "Mozilla Public License 2.0 (MPL 2.0)",
        "Apache-2.0 AND MIT",
        "MPL-2.0 AND (Apache-2.0 OR MIT)",
        "GPL-3.0-only OR MIT",
    ],
)
def test_what_may_be_used_passes(licence: str) -> None:
    assert allowed("anything", licence)


@pytest.mark.parametrize(
    "licence",
    ["GPL-3.0-only", "MIT AND GPL-3.0-only", "MIT AND (GPL-3.0-only OR AGPL-3.0-only)", "UNKNOWN", "", "(MIT"],
)
def test_what_may_not_be_used_is_refused(licence: str) -> None:
    assert not allowed("anything", licence)


def test_the_lgpl_is_allowed_to_named_packages_only() -> None:
    assert allowed("psycopg", "LGPL-3.0-only")
    assert not allowed("psycopg", "AGPL-3.0-only")
    assert not allowed("anything", "LGPL-3.0-only")
