"""Made of the host's `plugin.proto`."""
