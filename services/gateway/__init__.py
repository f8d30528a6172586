"""The edge: identity, HTTP routes, WebSocket connections, scopes, projection, delivery and checks."""
