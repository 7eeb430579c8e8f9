"""Commands as the shell gives them to ``main``, without a process each: starting one costs more than most mistakes."""

import contextlib
import io
import os
import subprocess
import sys
from unittest import mock

from holdfast.cli import main


def typed(*words: object) -> subprocess.CompletedProcess:
    """What a command prints, and what it ends with."""
    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    with (
        mock.patch.object(sys, "argv", ["holdfast", *map(str, words)]),
        mock.patch.dict(os.environ, {"COLUMNS": "200"}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code
    return subprocess.CompletedProcess(words, code or 0, out.getvalue(), err.getvalue())
