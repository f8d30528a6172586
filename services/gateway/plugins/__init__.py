"""Plugins: their manifests and packages, which of them are active, and what they may do."""
