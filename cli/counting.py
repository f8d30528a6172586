"""Numbers of things in sentences."""


def counted(number: int, one: str, several: str | None = None) -> str:
    """`1 line`, `2,000 lines`; `several` where an s does not make it."""
    return f"{number:,} {one if number == 1 else several or one + 's'}"
