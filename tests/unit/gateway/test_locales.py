"""Which language a browser is shown."""

import pytest

from services.gateway.locales import preferred


@pytest.mark.parametrize(
    ("header", "locale"),
    [
        ("", "en"),
        ("*", "en"),
        ("de-DE,de", "en"),
        ("en-GB,en;q=0.9", "en"),
        ("pt-BR", "pt-pt"),
        ("PT", "pt-pt"),
        ("zh", "zh-cn"),
        ("zh-Hans-SG", "zh-cn"),
        ("zh-SG,zh", "zh-cn"),
        ("zh-HK", "zh-hk"),
        ("zh-Hant-HK", "zh-hk"),
        ("zh-MO", "zh-hk"),
        ("zh-TW", "zh-tw"),
        ("zh-Hant", "zh-tw"),
        ("de,pt;q=0.5,zh-TW;q=0.8", "zh-tw"),
        ("en;q=0,pt;q=0.1", "pt-pt"),
        ("pt;q=0.8,en;q=0.8", "pt-pt"),
        ("pt;q=x,zh-cn;q=0.1", "zh-cn"),
        ("pt;q=nan", "en"),
        (";;;,,=,q=", "en"),
        ("zhuang", "en"),
        ("en\udce9", "en"),
    ],
)
def test_the_nearest_of_the_shipped(header: str, locale: str) -> None:
    assert preferred(header) == locale
