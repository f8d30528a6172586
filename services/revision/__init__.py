"""Owns the source's schema, its write boundary, and the tracker that turns commits into receipts."""
