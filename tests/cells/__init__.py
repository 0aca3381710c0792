"""Workers that end at every point of an effect, and an outside world that counts what really happened."""
