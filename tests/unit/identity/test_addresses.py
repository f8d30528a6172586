"""From whom a request counts as sent."""

from types import SimpleNamespace
from typing import cast

import pytest
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from services.gateway.identity.addresses import forwarded_for, sender
from services.gateway.identity.signing_in import SigningIn


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


@pytest.mark.parametrize(("behind_proxy", "counted"), [(True, "2001:db8::/64"), (False, "")])
def test_only_behind_a_proxy_is_one_believed(behind_proxy: bool, counted: str) -> None:
    lines = CIMultiDict([("X-Forwarded-For", "9.9.9.9, 8.8.8.8"), ("X-Forwarded-For", "7.7.7.7, 2001:db8::5")])
    # Nothing else of it says where a request comes from.
    signing_in = cast("SigningIn", SimpleNamespace(behind_proxy=behind_proxy))
    assert SigningIn.address(signing_in, make_mocked_request("POST", "/", headers=lines)) == counted
