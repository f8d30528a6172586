"""The `kandev-conversation` command."""
