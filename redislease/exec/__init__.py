"""`redislease exec`: runs a program of any language for each task, under a lease that it need not know about."""
