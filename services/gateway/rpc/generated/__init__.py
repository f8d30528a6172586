"""Made of `protos` by `python -m deploy.checks.protos`."""
