"""The three services for tests of plugins: on a database of the test's own or of the module's."""

from tests.integration.gateway.conftest import shared_stack, stack

__all__ = ["shared_stack", "stack"]
