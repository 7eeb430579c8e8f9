"""Every method set so that it does something of its own within four epochs."""

from holdfast.functional import Ramp
from holdfast.methods import (
    AUM,
    D2L,
    GCE,
    INCV,
    LDMI,
    METHODS,
    Crust,
    CrustAuthors,
    DivideMix,
    ELRPlus,
    EMARefinement,
    IndividualClip,
    MentorNet,
    Sever,
)  # fmt: skip


class Turning(D2L):
    """Turns before the last epoch."""

    def measure(self, net, data, epoch):
        return super().measure(net, data, epoch) + 10 * (epoch == 3)


EARLY = {
    "aum": lambda: AUM(each=1),
    "crust": lambda: Crust(warmup=1, partners=2),
    "crust-authors": lambda: CrustAuthors(warmup=1),
    "d2l": lambda: Turning(0, 2, neighbours=5),
    "divide-mix": lambda: DivideMix(warmup=1, ramp=1),
    "elr-plus": lambda: ELRPlus(average=0.9),
    "ema-refinement": lambda: EMARefinement(warmup=1),
    "gce": lambda: GCE(truncate=0.4, start=1, every=2),
    "incv": lambda: INCV(rounds=1, each=2, ramp=0),
    "individual-clip": lambda: IndividualClip(0.05),
    "l-dmi": lambda: LDMI(warmup=2, pace=0.1),
    "mentor-net": lambda: MentorNet(burn_in=0.3, dropout=True),
    "sever": lambda: Sever(0.2, rounds=2),
}
"""Methods whose defaults would do nothing of their own in four epochs."""


def early(name, make=None):
    """A fresh method that drops from the second epoch on."""
    method = (make or EARLY.get(name) or METHODS[name])()
    if getattr(method, "ramp", None) == 10:
        method.ramp = Ramp(1)
    return method
