"""Which version of this project a program is."""

import importlib.metadata
from typing import Final

VERSION: Final = importlib.metadata.version("kandev-conversation")
