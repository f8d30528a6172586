"""The three services for tests of plugins: on a database of the module's, with and without accounts."""

from tests.integration.gateway.conftest import shared_stack
from tests.integration.identity.conftest import administrator, guarded, people, person

__all__ = ["administrator", "guarded", "people", "person", "shared_stack"]
