"""Made of `services/gateway/rpc/protos` by `python -m deploy.checks.protos`."""
