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

from typing import Any, Literal

from pydantic import ValidationError

from shared.contracts.base import Contract

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


def problem(error: ValidationError, whole: str) -> str:
    """What is wrong with input, by field, without what was sent. `whole` names the input where no field is to blame."""
    return "; ".join(f"{'.'.join(map(str, each['loc'])) or whole}: {each['msg']}" for each in error.errors())


def kinds(error: ValidationError) -> str:
    """What is wrong with input, for a log line: the kinds of error alone. Fields and sentences can quote what was sent,
    a key or a tag.
    """
    return ", ".join(sorted({each["type"] for each in error.errors(include_input=False, include_context=False)}))
