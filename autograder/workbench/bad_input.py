"""What a command cannot do as it was asked."""


class BadInput(Exception):
    """The message is one line that says what is wrong and what to do; the command ends with 2."""
