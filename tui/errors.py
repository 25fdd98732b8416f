"""The base of every error that is the operator's to mend: its text is one sentence, shown without a traceback."""


class SpecdeckError(Exception):
    """What was wrong, where, and what to do, in one sentence."""
