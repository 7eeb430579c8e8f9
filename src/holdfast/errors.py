"""What Holdfast says when it cannot go on: one sentence that names what was found and what to do."""


class HoldfastError(ValueError):
    """A mistake that the user can mend; the command line prints it without a traceback."""


class Diverged(HoldfastError):
    """The loss stopped being a number; the last good checkpoint is kept."""


class Died(HoldfastError):
    """A process of a training in several ended before its time; the last checkpoint is kept."""
