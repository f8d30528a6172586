"""From whom a request counts as sent."""

import pytest

from services.gateway.identity.addresses import forwarded_for, sender


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ([], ""),
        (["1.2.3.4"], "1.2.3.4"),
        (["9.9.9.9, 1.2.3.4"], "1.2.3.4"),
        (["9.9.9.9", "8.8.8.8,1.2.3.4 "], "1.2.3.4"),
        (["9.9.9.9", "1.2.3.4"], "1.2.3.4"),
    ],
)
def test_the_nearest_proxy_writes_last(values: list[str], named: str) -> None:
    assert forwarded_for(values) == named


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("1.2.3.4", "1.2.3.4"),
        ("1.2.3.4:5678", "1.2.3.4"),
        ("::ffff:1.2.3.4", "1.2.3.4"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("2001:db8:0:1:ffff:ffff:ffff:ffff", "2001:db8:0:1::/64"),
        ("2001:db8:0:2::1", "2001:db8:0:2::/64"),
        ("[2001:db8:0:1::7]:443", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unknown", "unknown"),
        ("", ""),
        ("x" * 500, "x" * 100),
    ],
)
def test_who_counts_as_one_sender(address: str, counted: str) -> None:
    assert sender(address) == counted
