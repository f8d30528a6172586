"""One table of the typed errors that a read or a command can answer with.

code                      retryable  meaning, and what the asker does
------------------------  ---------  -------------------------------------------------------------------------------
not_found                 no         the session, task or message is not there or not the asker's to see
invalid_query             no         a field cannot be used as given: correct the request
invalid_cursor            no         the cursor's row is not of this session: start again without it
reconciliation_required   yes        the revision is not the expected one: read again without the guard
behind                    yes        this reader's snapshot is older than the least revision asked for: ask again
conflict                  no         the row is not what the command expects: read it, then decide
unavailable               yes        database or broker did not answer in time: ask again
limit_exceeded            yes        too much at once: ask for less, or later
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from shared.contracts.base import DECIMAL, MOMENT, NO_CONTROLS, NO_NUL, Contract

ErrorCode = Literal[
    "not_found",
    "invalid_query",
    "invalid_cursor",
    "reconciliation_required",
    "behind",
    "conflict",
    "unavailable",
    "limit_exceeded",
    "unauthenticated",
    "forbidden",
    "upstream_failure",
    "too_large",
]

RETRYABLE: frozenset[ErrorCode] = frozenset(
    {"reconciliation_required", "behind", "unavailable", "limit_exceeded", "upstream_failure"}
)


class Failure(Contract):
    """A typed error as it travels in a reply. `details` holds what a program needs to go on, such as `length` of a
    message.
    """

    code: ErrorCode
    message: str
    details: dict[str, Any] = {}

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed when it is asked again unchanged."""
        return self.code in RETRYABLE


class RequestFailed(Exception):
    """A read or command was refused or could not be answered. `failure` is the typed reason."""

    def __init__(self, code: ErrorCode, message: str, **details: Any) -> None:
        super().__init__(message)
        self.failure = Failure(code=code, message=message, details=details)


_SAME: Mapping[str, str] = {}

_SENTENCES: Mapping[str, str] = {
    "missing": "required",
    "extra_forbidden": "no such field",
    "string_type": "expected a string",
    "string_unicode": "expected a string without half of a surrogate pair",
    "string_too_short": "expected {min_length} or more characters",
    "string_too_long": "expected at most {max_length} characters",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float", "int_parsing_size"), "expected an integer"),
    **dict.fromkeys(("float_type", "float_parsing"), "expected a number"),
    "finite_number": "expected a finite number",
    "greater_than_equal": "expected {ge} or more",
    "greater_than": "expected more than {gt}",
    "less_than_equal": "expected {le} or less",
    "less_than": "expected less than {lt}",
    **dict.fromkeys(("bool_type", "bool_parsing"), "expected true or false"),
    **dict.fromkeys(("list_type", "tuple_type"), "expected a list"),
    "too_short": "expected {min_length} or more entries",
    "too_long": "expected at most {max_length} entries",
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "expected an object"),
    "literal_error": "expected {expected}",
    "union_tag_not_found": "expected an object with {discriminator}",
    "union_tag_invalid": "expected {discriminator} to be one of {expected_tags}",
    "json_invalid": "not JSON",
}
"""By pydantic's kind of error, for people. What is filled in comes from the contract, never from the input."""

_FORMS: Mapping[str, str] = {
    NO_CONTROLS: "control characters are not allowed",
    NO_NUL: "NUL characters are not allowed",
    DECIMAL: "expected a whole number in decimal digits",
    MOMENT: "expected a time in UTC, such as 2026-01-31T12:00:00.123456Z",
}
"""By pattern."""


def problem(error: ValidationError, whole: str, called: Mapping[str, str] = _SAME) -> str:
    """What is wrong with input, by field, without what was sent. `whole` names the input where no field is to blame;
    `called`: fields that whoever sent it knows by another name.
    """
    return "; ".join(
        f"{'.'.join(called.get(str(part), str(part)) for part in each['loc']) or whole}: {_sentence(each)}"
        for each in error.errors(include_url=False, include_input=False)
    )


def _sentence(each: ErrorDetails) -> str:
    """Never pydantic's own: it speaks to programmers, and some of its kinds quote what was sent."""
    context = each.get("ctx", {})
    if each["type"] == "value_error":
        return str(context["error"])
    if each["type"] == "string_pattern_mismatch":
        return _FORMS.get(context["pattern"], "not of the form that is expected")
    return _SENTENCES.get(each["type"], "cannot be used").format_map(context)


def kinds(error: ValidationError) -> str:
    """What is wrong with input, for a log line: the kinds of error alone. Fields and sentences can quote what was sent,
    a key or a tag.
    """
    return ", ".join(sorted({each["type"] for each in error.errors(include_input=False, include_context=False)}))
