"""The loader of a session: what takes the place of a ``DataLoader``, and the sampler that frameworks tell the epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from holdfast.errors import HoldfastError
from holdfast.session.batch import SessionBatch


class EpochSampler:
    """The number of the next epoch, as frameworks set it on the sampler of a loader."""

    def __init__(self, done: Callable[[], int]) -> None:
        self._done = done

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch comes next; epochs follow one another, so that a state that was not loaded is noticed."""
        done = self._done()
        if epoch != done:
            raise HoldfastError(
                f"the training is about to begin epoch {epoch} (from 0), but this session has seen {done}; give it its "
                "state too when you go on (session.load_state_dict), or make a new session"
            )


class Loader:
    """Batches of one epoch after the other: ``for batch in loader`` plans the next epoch and goes through it.

    It shuffles by itself and deals each batch to the processes that train together. It is no ``DataLoader``, so that
    frameworks neither put a sampler of theirs in it nor repeat rows to make batches even.

    Attributes
    ----------
    batch_size: rows of a batch in each process; a last batch that is too small joins the one before it.
    sampler: what frameworks tell the number of the epoch.
    """

    def __init__(
        self,
        batch_size: int,
        batches: Callable[[], Iterator[SessionBatch]],
        length: Callable[[], int],
        sampler: EpochSampler,
    ) -> None:
        self.batch_size = batch_size
        self.sampler = sampler
        self._batches = batches
        self._length = length

    def __iter__(self) -> Iterator[SessionBatch]:
        return self._batches()

    def __len__(self) -> int:
        """Batches of the epoch that is under way; before it begins, of one that leaves no row out."""
        return self._length()

    def set_epoch(self, epoch: int) -> None:
        self.sampler.set_epoch(epoch)
