"""The operations of a queue as flows: written once, carried out by `Queue` and by `AsyncQueue`."""
