"""`python -m redislease.cli`."""

from redislease.cli import main

main()
