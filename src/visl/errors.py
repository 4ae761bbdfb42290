"""The one error a user can put right: its message names the thing and the remedy."""


class InputError(ValueError):
    """The input or a setting is wrong; the command line turns it into exit code 2."""
