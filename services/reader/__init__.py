"""Answers every read from one consistent snapshot that also decides access and names its epoch and revision."""
