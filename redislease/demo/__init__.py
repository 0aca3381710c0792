"""`redislease demo`: a stopped worker, its successor, and everything that the first may no longer do."""
