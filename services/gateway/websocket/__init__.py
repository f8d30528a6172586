"""WebSocket connections: envelopes, actions, the bounded way out, and why a connection is closed."""
