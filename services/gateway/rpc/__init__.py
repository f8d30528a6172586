"""Host RPC: what a plugin's own process may ask, over gRPC."""
