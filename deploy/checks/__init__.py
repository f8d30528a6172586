"""Checks of the repository that no tool makes by itself."""
