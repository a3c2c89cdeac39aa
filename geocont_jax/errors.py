"""The one exception that means: the user's input is wrong, and here is the way out."""


class InputError(ValueError):
    """Bad usage, grid file, data or results folder; the commands print it as one line and exit with 2.

    The message is a single line that names the file, the place in it and the way out.
    """
