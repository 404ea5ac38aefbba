"""`python -m qanat` is the command `qanat`."""

from qanat.cli import main

main()
