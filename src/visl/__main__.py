"""`python -m visl` is the same program as `visl`."""

from visl.cli import main

if __name__ == "__main__":
    main()
