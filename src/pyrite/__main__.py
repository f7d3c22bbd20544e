"""`python -m pyrite`: the command line, where the `pyrite` script is not on the path."""

from pyrite.cli.main import entry

if __name__ == "__main__":
    entry()
