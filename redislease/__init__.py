"""redislease: a lease queue on Redis for work with consequences."""
