"""`python -m klarm` is the `klarm` command."""

from klarm.cli import main

main()
