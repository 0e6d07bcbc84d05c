"""`python -m backproof` is the command line."""

from backproof.cli import main

main(prog_name="backproof")
