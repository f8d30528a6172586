"""Numbers in JSON text that would be others once they are read: what is kept is what was given, or it is refused."""

import re
from decimal import Decimal

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|(?P<number>-?[0-9][0-9.eE+-]*)', re.DOTALL)
_INTEGERS = range(-(2**63), 2**64)
_LONGEST_INTEGER = len(str(-(2**63)))


def altered_number(text: bytes) -> str | None:
    """Why a number in the text cannot be kept as it stands, without the number; `None` if all can. `text`: JSON."""
    for token in _TOKEN.finditer(text):
        number = token["number"]
        if number is None:
            continue
        if number.lstrip(b"-").isdigit():
            if len(number) > _LONGEST_INTEGER or int(number) not in _INTEGERS:
                return "an integer is below -2^63 or above 2^64 - 1 and cannot be kept as it is: give it as text"
        elif not _is_double(number.decode()):
            return "a number has more digits than a double and cannot be kept as it is: give it as text"
    return None


def _is_double(number: str) -> bool:
    """Whether the shortest text of the double that it is read as names the same number."""
    try:
        double = float(number)
    except ValueError:  # nothing that JSON knows: its reader says so
        return True
    try:
        return Decimal(number) == Decimal(repr(double))
    except ArithmeticError:  # an exponent beyond those of Decimal
        return False
