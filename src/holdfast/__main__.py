"""``python -m holdfast``: the command line, for launchers that start modules (``torchrun -m holdfast fit ...``)."""

from holdfast.cli import main

if __name__ == "__main__":
    main()
