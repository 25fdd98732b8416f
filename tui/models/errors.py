"""What goes wrong with a checkpoint folder, in one sentence."""


class CheckpointError(Exception):
    """A checkpoint cannot be read; the message is one sentence that says what is wrong, where and what to do."""
