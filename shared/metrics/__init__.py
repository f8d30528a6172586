"""How a service counts what it does, and shows it to Prometheus."""
