"""Which of the shipped languages a browser is shown (pure)."""

DEFAULT = "en"
SHIPPED = (DEFAULT, "pt-pt", "zh-cn", "zh-hk", "zh-tw")

_NEAREST = (
    ("zh-hant-hk", "zh-hk"),
    ("zh-hant-mo", "zh-hk"),
    ("zh-hant", "zh-tw"),
    ("zh-mo", "zh-hk"),
    ("zh", "zh-cn"),
    ("pt", "pt-pt"),
    ("en", "en"),
)
"""Prefixes of language tags, longest first, and what is nearest to them."""


def preferred(accept_language: str) -> str:
    """The shipped language that `Accept-Language` likes best; of equals the first."""
    liked = sorted(_ranges(accept_language), key=lambda found: -found[1])
    return next((locale for tag, quality in liked if quality > 0 and (locale := _nearest(tag))), DEFAULT)


def _ranges(accept_language: str) -> list[tuple[str, float]]:
    return [
        (tag.strip().lower(), _quality(parameters))
        for tag, _, parameters in (part.partition(";") for part in accept_language.split(","))
    ]


def _quality(parameters: str) -> float:
    name, _, value = parameters.strip().partition("=")
    if not name:
        return 1.0
    try:
        return float(value) if name.strip().lower() == "q" else 1.0
    except ValueError:
        return 0.0


def _nearest(tag: str) -> str | None:
    if tag in SHIPPED:
        return tag
    return next((locale for prefix, locale in _NEAREST if tag == prefix or tag.startswith(prefix + "-")), None)
