import io

from rich.console import Console

from holdfast import Method, fit
from holdfast.progress import Bar


def test_the_bar_tells_epochs_loss_and_score(blobs):
    screen = io.StringIO()
    fit(
        blobs,
        Method(),
        "mlp",
        test=blobs,
        epochs=2,
        progress=Bar("ordinary", console=Console(file=screen, width=120, force_terminal=True)),
    )
    text = screen.getvalue()
    assert "ordinary" in text
    assert "2.0/2 epochs" in text
    assert "test 0." in text


def test_the_bar_leaves_out_a_score_that_there_is_not():
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with Bar("moco", console=console) as bar:
        bar.say({"loss": 7.25, "train": float("nan")})
    text = console.file.getvalue()
    assert "loss 7.250" in text
    assert "nan" not in text
