"""What the Trainer does by itself, with a session: columns, padding, evaluation, stopping, resuming, datasets."""

import datasets
import pytest
import torch
from accelerate import Accelerator
from framework_support import assert_same, example, weights
from transformers import TrainingArguments

import holdfast
from holdfast import HoldfastError
from holdfast.adapters.hugging_face import HoldfastTrainer, with_issues


def rows(count=200):
    words, given, _ = example("hf_trainer").data()
    features = datasets.Features(
        {
            "input_ids": datasets.List(datasets.Value("int64")),
            "label": datasets.ClassLabel(names=["a", "b", "c", "d"]),
            "source": datasets.Value("string"),
        }
    )
    texts = [row[: 5 + k % 4] for k, row in enumerate(words[:count].tolist())]
    told = {"input_ids": texts, "label": given[:count].tolist(), "source": [f"row {k}" for k in range(count)]}
    return datasets.Dataset.from_dict(told, features=features)


def padded(items):
    """Sentences of different lengths, as a tokenizer pads them; columns that the model does not take are gone."""
    assert all(item.keys() == {"input_ids", "label"} for item in items)
    longest = max(len(item["input_ids"]) for item in items)
    ids = torch.tensor([[*item["input_ids"], *[0] * (longest - len(item["input_ids"]))] for item in items])
    return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": torch.tensor([i["label"] for i in items])}


def trainer(out, method="prl-l", epochs=3, stop=None, given=None, **settings):
    arguments = TrainingArguments(
        str(out), num_train_epochs=epochs, per_device_train_batch_size=20, learning_rate=0.002, max_grad_norm=0,
        **{"save_strategy": "epoch", "disable_tqdm": True, "report_to": "none", "use_cpu": True, **settings},
    )  # fmt: skip
    given = rows() if given is None else given
    return HoldfastTrainer(
        example("hf_trainer").network(), arguments, train_dataset=given, eval_dataset=given, data_collator=padded,
        method=method, stop=stop,
    )  # fmt: skip


def test_datasets_go_in_and_come_out(tmp_path):
    made = trainer(tmp_path, epochs=6)
    made.train()
    issues = made.session.issues()
    assert set(issues["given"]) == {"a", "b", "c", "d"}
    out = with_issues(rows(), issues)
    assert out.column_names == [
        "input_ids",
        "label",
        "source",
        *(f"holdfast_{k}" for k in ("trust", "flag", "suggested")),
    ]
    first = issues.iloc[0]
    assert out[int(first["row"])]["holdfast_trust"] == pytest.approx(first["trust"])
    assert sum(out["holdfast_flag"]) == issues["flag"].sum()
    with pytest.raises(HoldfastError, match="200 rows were judged, and the dataset has 3"):
        with_issues(rows(3), issues)
    with pytest.raises(HoldfastError, match="'holdfast_trust' already"):
        with_issues(out, issues)


def test_evaluation_has_the_models_own_loss(tmp_path):
    made = trainer(tmp_path, epochs=1, eval_strategy="epoch")
    made.train()
    line = next(line for line in made.state.log_history if "eval_loss" in line)
    assert line["eval_loss"] > 0
    assert made.session.run().ledger["trained"].tolist() == [1] * 200


def test_the_figures_of_an_epoch_are_logged_beside_those_of_the_trainer(tmp_path):
    made = trainer(tmp_path, epochs=2, logging_strategy="epoch")
    made.train()
    history, lines = made.session.run().history, made.state.log_history
    for name in ("loss", "noise_rate", "drop_rate"):
        assert [line[f"holdfast_{name}"] for line in lines if "holdfast_loss" in line] == history[name].tolist()
    assert len([line for line in lines if "loss" in line]) == 2


def test_epochs_of_fewer_batches_resume_where_they_ended(tmp_path):
    def made(folder):
        return trainer(tmp_path / folder, holdfast.methods.Crust(0.5, warmup=1, partners=0), epochs=4)

    whole = made("out")
    whole.train()
    assert whole.session.run().history["coverage"].tolist()[0] == 1
    assert whole.session.run().history["coverage"].iloc[1:].max() < 0.6
    folders = sorted((tmp_path / "out").glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))
    assert len(folders) == 4
    again = made("again")
    again.train(resume_from_checkpoint=str(folders[1]))
    assert again.session.run().history["epoch"].tolist() == [0, 1, 2, 3]
    assert_same(weights(whole.model), weights(again.model))
    assert again.session.issues().equals(whole.session.issues())


def test_a_stop_rule_stops_the_trainer_and_gives_it_the_best_weights(tmp_path):
    made = trainer(tmp_path, "standard", epochs=30, stop=holdfast.stop.NoisyValidationStop(0.2, patience=2))
    made.train()
    history = made.session.run().history
    assert made.session.stopped
    assert len(history) < 30
    assert history["best"].iloc[-1] == 0
    assert_same(made.session._begun.best, weights(made.model))


def test_mixed_precision(tmp_path):
    made = trainer(tmp_path, bf16=True)
    made.train()
    assert made.session.run().ledger["loss"].notna().all()
    assert made.session.run().history["loss"].is_monotonic_decreasing


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"save_strategy": "steps"}, "save_strategy is 'steps'; pass save_strategy='epoch'"),
        ({"label_smoothing_factor": 0.1}, "the method makes the loss"),
        ({"auto_find_batch_size": True}, "leave auto_find_batch_size out"),
    ],
)
def test_what_cannot_go_together_is_said_at_once(tmp_path, settings, words):
    with pytest.raises(HoldfastError, match="trains two networks, and a Trainer has one model"):
        trainer(tmp_path, "co-teaching")
    with pytest.raises(HoldfastError, match=words):
        trainer(tmp_path, **settings)


def test_accelerate_leaves_the_loader_alone_and_repeats_no_row(blobs):
    loader = holdfast.Session(blobs, "standard", epochs=1).loader(50)
    assert Accelerator(cpu=True).prepare(loader) is loader
