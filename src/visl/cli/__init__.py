"""The command line: parses, calls, prints. Torch and pandas load inside the commands, so that help is instant."""

from visl.cli.app import main as main
