"""The values of labels that contracts declare."""

from typing import Any, get_args

from shared.contracts.base import Contract
from shared.contracts.errors import ErrorCode

ERROR_CODES: tuple[str, ...] = get_args(ErrorCode)


# Any: what typing makes of a union of contracts has no type of its own.
def kinds_of(union: Any) -> tuple[str, ...]:
    """The `kind` of each contract in an annotated union."""
    contracts: tuple[type[Contract], ...] = get_args(get_args(union)[0])
    return tuple(contract.model_fields["kind"].default for contract in contracts)
