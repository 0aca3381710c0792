"""A plain-Python reference of the queue, and a machine of random steps that compares the library with it."""
