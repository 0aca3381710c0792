"""Everything between a queue and its server: URLs, clients, failures, retries, and the two transports."""
