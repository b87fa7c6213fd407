"""Finding, verifying and converting checkpoints: nothing unsafe, altered or incomplete is ever loaded."""

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertTokenizer

import models.checkpoints.checkpoints
from models.checkpoints.checkpoints import CHECKPOINTS, WEIGHTS, Pooling, locate_checkpoint, read_pooling
from models.checkpoints.conversion import convert_checkpoint
from models.encoder import load_encoder
from models.encoders.wordpieces import WordPieces
from models.errors import StorageError, UnknownNameError, WeightsError
from models.training.rhetoric.phrases import Example
from models.transport import SERVING
from models.types import Unit
from service.search.rerank import default_tau
from tests.support.examples.models.tiny_bert import paper, write_tiny_bert

PAPER = paper("Graph transport", "We show a result.", "Encoders of papers, a method.")


@pytest.fixture
def tiny(tmp_path):
    """Return the folder of a tiny random BERT, which a test may damage."""
    return write_tiny_bert(tmp_path / "tiny")


def pickled(folder, *, prefix="", name="pytorch_model.bin", **extra):
    """Turn a safetensors folder into a pickle folder as published, and return it."""
    tensors = {prefix + key: value for key, value in load_file(folder / WEIGHTS).items()}
    torch.save({**tensors, **extra}, folder / name)
    (folder / WEIGHTS).unlink()
    return folder


def test_altered_minilm_weights_are_refused_before_loading(tmp_path, monkeypatch):
    """A flipped byte in the default encoder's weights is noticed before they are loaded."""
    real = locate_checkpoint("minilm")
    copy = tmp_path / "model"
    copy.mkdir()
    for path in real.folder.iterdir():
        if path.is_file():
            (copy / path.name).write_bytes(path.read_bytes())
    with (copy / WEIGHTS).open("r+b") as stream:
        stream.seek(45_000_000)
        byte = stream.read(1)[0]
        stream.seek(45_000_000)
        stream.write(bytes([byte ^ 1]))
    monkeypatch.setattr(models.checkpoints.checkpoints, "packaged_folder", lambda package: copy)
    monkeypatch.setattr("models.encoders.transformer.load_checkpoint", pytest.fail)
    with pytest.raises(WeightsError, match="damaged or was replaced"):
        load_encoder("minilm", device="cpu")


def test_a_pickle_is_refused_with_the_line_that_converts_it(tiny):
    """A folder with only pytorch_model.bin is not loaded, and the message says how to convert it."""
    with pytest.raises(WeightsError, match=f"akin convert {tiny} TARGET"):
        load_encoder(str(pickled(tiny)))


def test_conversion_changes_no_vector(tiny, tmp_path):
    """A converted folder keeps every tensor and gives the same vectors, bit for bit."""
    expected = load_encoder(str(tiny), device="cpu").encode([PAPER])[0]
    n_tensors = len(load_file(tiny / WEIGHTS))
    conversion = convert_checkpoint(pickled(tiny), tmp_path / "converted")
    actual = load_encoder(str(tmp_path / "converted"), device="cpu").encode([PAPER])[0]
    assert (conversion.n_tensors, conversion.renamed) == (n_tensors, 0)
    assert set(conversion.copied) == {"config.json", "tokenizer.json", "vocab.txt"}
    np.testing.assert_array_equal(actual.sentences, expected.sentences)
    np.testing.assert_array_equal(actual.document, expected.document)


@pytest.mark.parametrize("prefix", ["module.", "module.bert_encoder."])
def test_conversion_removes_the_prefix_of_parallel_training(tiny, tmp_path, prefix):
    """Weights that torch saved from several devices lose its prefix, and the folder can be loaded."""
    conversion = convert_checkpoint(pickled(tiny, prefix=prefix), tmp_path / "converted")
    assert conversion.renamed == conversion.n_tensors == len(load_file(tmp_path / "converted" / WEIGHTS))


def test_conversion_keeps_the_layer_mix(tiny, tmp_path):
    """ASPIRE's training state loses its prefix, keeps its layer mix, and becomes a document encoder."""
    mix = torch.tensor([[0.3, -1.2, 0.9]])
    pickled(tiny, prefix="bert_encoder.", name="model_cur_best.pt", **{"bert_layer_weights.weight": mix})
    conversion = convert_checkpoint(tiny, tmp_path / "cocite")
    assert conversion.renamed == conversion.n_tensors - 1
    assert torch.equal(load_file(tmp_path / "cocite" / WEIGHTS)["bert_layer_weights.weight"], mix)
    encoder = load_encoder(str(tmp_path / "cocite"), device="cpu")
    assert encoder.spec.unit is Unit.DOCUMENT
    assert encoder.encode([PAPER])[0].document.shape == (32,)


def test_conversion_can_take_the_pooling_of_a_named_checkpoint(tiny, tmp_path):
    """Converted like specter, a folder is a document encoder; an unknown model name is refused."""
    with pytest.raises(UnknownNameError, match="specter"):
        convert_checkpoint(tiny, tmp_path / "other", like="spectre")
    convert_checkpoint(pickled(tiny), tmp_path / "specter", like="specter")
    assert read_pooling(tmp_path / "specter") == CHECKPOINTS["specter"].pooling == Pooling(kind="document")


class Payload:
    """The content of a hostile pickle: a call."""

    def __reduce__(self):
        return (exec, ("raise SystemExit('the pickle ran')",))


def test_a_pickle_that_would_run_code_is_not_opened(tiny, tmp_path):
    """A pickle with a call or without tensors is refused, and nothing in it runs."""
    (tiny / WEIGHTS).unlink()
    torch.save({"weight": Payload()}, tiny / "pytorch_model.bin")
    with pytest.raises(WeightsError, match="more than tensors"):
        convert_checkpoint(tiny, tmp_path / "converted")
    (tiny / "pytorch_model.bin").write_bytes(pickle.dumps([1, 2, 3], protocol=2))
    with pytest.raises(WeightsError) as refused:
        convert_checkpoint(tiny, tmp_path / "converted")
    assert "weights_only" not in str(refused.value)  # torch's advice to run the code


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 90\n"


@pytest.mark.parametrize("content", [b"", b"no pickle at all", POINTER, None], ids=str)
def test_a_damaged_pickle_is_called_damaged(tiny, tmp_path, content):
    """An empty, a foreign and a truncated file and a pointer of Git LFS are to be downloaded again."""
    file = pickled(tiny) / "pytorch_model.bin"
    file.write_bytes(file.read_bytes()[:5_000] if content is None else content)
    with pytest.raises(WeightsError, match=r"damaged, or a pointer of Git LFS\. Download it again"):
        convert_checkpoint(tiny, tmp_path / "converted")


@pytest.mark.parametrize(
    "extra",
    [{1: torch.zeros(2)}, {"s": torch.eye(3).to_sparse()}, {"m": torch.empty(3, device="meta")}, {"n": 3}],
    ids=["number as name", "sparse", "without numbers", "no tensor"],
)
def test_what_safetensors_cannot_store_is_refused(tiny, tmp_path, extra):
    """Names that are no texts and tensors that are sparse or empty shells raise a WeightsError."""
    torch.save({**load_file(tiny / WEIGHTS), **extra}, tiny / "pytorch_model.bin")
    with pytest.raises(WeightsError, match="flat mapping of names to tensors"):
        convert_checkpoint(tiny, tmp_path / "converted")


@pytest.mark.parametrize(
    ("kept", "message"),
    [("encoder.layer.0", r"lacks \d+ tensors"), ("", r"has shape \(1, 13\), expected \(1, 3\)")],
)
def test_a_conversion_that_cannot_be_loaded_leaves_nothing(tiny, tmp_path, kept, message):
    """If the converted folder is no encoder, the error says why in terms of the target, which is not made."""
    tensors = {name: tensor for name, tensor in load_file(tiny / WEIGHTS).items() if name.startswith(kept)}
    torch.save({**tensors, "bert_layer_weights.weight": torch.zeros(1, 13)}, tiny / "pytorch_model.bin")
    (tiny / WEIGHTS).unlink()
    with pytest.raises(WeightsError, match=f"nothing was written: {tmp_path}/new/.*{message}"):
        convert_checkpoint(tiny, tmp_path / "new")
    assert [tiny] == list(tmp_path.iterdir())


def test_conversion_needs_weights_configuration_and_an_empty_target(tiny, tmp_path):
    """Missing weights or configuration, and a non-empty target, raise errors that say so."""
    with pytest.raises(WeightsError, match="nothing to convert"):
        convert_checkpoint(tiny, tmp_path / "converted")
    pickled(tiny)
    with pytest.raises(StorageError, match="not empty"):
        convert_checkpoint(tiny, tiny)
    (tiny / "config.json").unlink()
    with pytest.raises(WeightsError, match=r"needs config\.json"):
        convert_checkpoint(tiny, tmp_path / "converted")


@pytest.mark.parametrize("name", ["minilmm", "x" * 5_000, "a\0b"], ids=["misspelt", "long", "null"])
def test_unknown_names_list_the_known_ones(name):
    """The error about an unknown name, also one that no file can have, lists the known ones with hashing."""
    with pytest.raises(UnknownNameError, match=r"hashing, minilm, .*or the path of a checkpoint folder"):
        load_encoder(name)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"kind": "hashing"}', "must hold only"),
        ('{"normalize": true}', "must hold only"),
        ('{"normalise": "yes"}', "must hold only"),
        ('{"tau": 0}', "must hold only"),
        ('{"tau": true}', "must hold only"),
        ('{"tau": NaN}', "must hold only"),
        ("[]", "JSON object"),
        ("{", "cannot be read as JSON"),
    ],
)
def test_a_wrong_akin_json_is_refused(tiny, content, message):
    """A misspelt or ill-typed setting is an error, not ignored."""
    (tiny / "akin.json").write_text(content)
    with pytest.raises(WeightsError, match=message):
        load_encoder(str(tiny))


def tune_into(folder, target):
    """Fine-tune a checkpoint on one sentence."""
    from models.training.rhetoric.tuning import TuningSettings, tune_encoder

    examples, settings = [Example(PAPER, 0, "show")], TuningSettings(n_epochs=1)
    tune_encoder(examples, ["show"], str(folder), target, settings, device="cpu", on_progress=print)


def tune(folder):
    """Fine-tune a checkpoint into a folder next to it."""
    tune_into(folder, folder.with_name("tuned"))


def serve(folder):
    """Load a checkpoint as the service does."""
    load_encoder(str(folder), device="cpu")


@pytest.mark.parametrize("load", [serve, tune])
def test_incomplete_weights_are_refused(tiny, load):
    """A missing tensor is named, while transformers would fill it with random numbers."""
    tensors = load_file(tiny / WEIGHTS)
    del tensors["encoder.layer.1.output.dense.weight"]
    save_file(tensors, tiny / WEIGHTS, metadata={"format": "pt"})
    with pytest.raises(WeightsError, match=r"lacks 1 tensors, such as encoder\.layer\.1\.output"):
        load(tiny)
    assert [tiny] == list(tiny.parent.iterdir())


@pytest.mark.parametrize("prefix", ["", "bert."])
@pytest.mark.parametrize("load", [serve, tune])
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda weights: (weights * 100).to(torch.int8), r"embeddings\.weight as I8; expected one of F64"),
        (lambda weights: weights.to(torch.float8_e4m3fn), "as F8_E4M3; expected one of F64"),
        (lambda weights: weights.index_fill(0, torch.tensor([7]), torch.nan), "that are not finite"),
        (lambda weights: weights[:20], "disagree on the shapes of 1 tensor, such as embeddings.word_emb"),
    ],
    ids=["int8", "float8", "nan", "cut"],
)
def test_weights_that_mean_nothing_are_refused(tiny, load, damage, message, prefix):
    """Quantised weights, weights that are not finite and weights of another shape are refused by name."""
    tensors = load_file(tiny / WEIGHTS)
    tensors["embeddings.word_embeddings.weight"] = damage(tensors["embeddings.word_embeddings.weight"])
    tensors["embeddings.position_ids"] = torch.arange(512)[None]  # integers that are no weights
    renamed = {prefix + name: tensor for name, tensor in tensors.items()}
    save_file(renamed, tiny / WEIGHTS, metadata={"format": "pt"})
    with pytest.raises(WeightsError, match=message):
        load(tiny)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_weights_of_every_float_are_loaded(tiny, dtype):
    """Weights in double, half and brain floats give almost the vectors of single floats."""
    expected = load_encoder(str(tiny), device="cpu").encode([PAPER])[0].sentences
    tensors = {name: tensor.to(dtype) for name, tensor in load_file(tiny / WEIGHTS).items()}
    save_file(tensors, tiny / WEIGHTS, metadata={"format": "pt"})
    found = load_encoder(str(tiny), device="cpu").encode([PAPER])[0].sentences
    np.testing.assert_allclose(found, expected, atol=0.1)


@pytest.mark.parametrize("load", [serve, tune])
@pytest.mark.parametrize(
    ("architecture", "message"),
    [
        ("gpt2", "type 'gpt2'; expected a bidirectional encoder"),
        ("no-such", "cannot be loaded as a transformer of type 'no-such'"),
        ("distilbert", "lacks .* tensors, such as transformer"),  # the tensors are of another architecture
    ],
)
def test_what_is_no_encoder_is_refused(tiny, load, architecture, message):
    """A folder with another kind of model is refused with the kind, or the tensors that are missing."""
    config = json.loads((tiny / "config.json").read_text())
    (tiny / "config.json").write_text(json.dumps({**config, "model_type": architecture}))
    with pytest.raises(WeightsError, match=message):
        load(tiny)


@pytest.mark.parametrize(
    "wrong",
    [
        {"hidden_size": "many"},
        {"hidden_size": 0},
        {"num_attention_heads": 0},
        {"hidden_act": "nonsense"},
        {"vocab_size": 0},
        {"dtype": "nonsense"},
        {"quantization_config": "x"},
        {"num_hidden_layers": 0},
        {"num_hidden_layers": -1},
    ],
    ids=str,
)
@pytest.mark.parametrize("load", [serve, tune])
def test_a_configuration_that_is_none_is_refused(tiny, load, wrong):
    """An impossible value in the configuration raises a WeightsError."""
    config = json.loads((tiny / "config.json").read_text())
    (tiny / "config.json").write_text(json.dumps({**config, **wrong}))
    with pytest.raises(WeightsError, match=r"cannot be loaded as a transformer|with num_hidden_layers"):
        load(tiny)


def test_hashing_has_no_checkpoint():
    """Locating a checkpoint for hashing is refused, and hashing is not among the names offered."""
    with pytest.raises(UnknownNameError, match=r"'hashing' needs no weights.* minilm,") as refused:
        locate_checkpoint("hashing")
    assert 1 == str(refused.value).count("hashing")


def test_the_temperature_goes_with_the_checkpoint(tiny, tmp_path):
    """Converted like aspire-ot-biomed, a folder has the temperature of its fine-tuning."""
    convert_checkpoint(pickled(tiny), tmp_path / "biomed", like="aspire-ot-biomed")
    spec = load_encoder(str(tmp_path / "biomed"), device="cpu").spec
    assert (5000.0, 5000.0) == (spec.tau, default_tau(spec))
    convert_checkpoint(tiny, tmp_path / "compsci", like="aspire-ot-compsci")
    other = load_encoder(str(tmp_path / "compsci"), device="cpu").spec
    assert (None, SERVING.tau) == (other.tau, default_tau(other))
    assert spec.fingerprint == other.fingerprint


@pytest.mark.parametrize("write", [convert_checkpoint, tune_into])
def test_a_failed_write_leaves_nothing(tiny, tmp_path, monkeypatch, write):
    """A disk full halfway leaves no folder, and the command can be run again."""
    if write is convert_checkpoint:
        pickled(tiny)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("shutil.copyfile", full)
        with pytest.raises(StorageError, match="No space left"):
            write(tiny, tmp_path / "new")
    assert [tiny] == list(tmp_path.iterdir())
    write(tiny, tmp_path / "new")
    assert {"config.json", "model.safetensors"} <= {path.name for path in (tmp_path / "new").iterdir()}


@pytest.mark.parametrize("write", [convert_checkpoint, tune_into])
def test_written_weights_can_be_read_like_other_files(tiny, tmp_path, write):
    """The umask alone decides who may read the weights, as for the files beside them."""
    if write is convert_checkpoint:
        pickled(tiny)
    write(tiny, tmp_path / "new")
    modes = {(tmp_path / "new" / name).stat().st_mode for name in (WEIGHTS, "config.json")}
    assert 1 == len(modes)


def test_files_that_do_not_belong_together_are_refused(tiny):
    """Truncated weights, a too large vocabulary and a missing tokenizer each raise a WeightsError."""
    weights = (tiny / WEIGHTS).read_bytes()
    (tiny / WEIGHTS).write_bytes(weights[:-100])
    with pytest.raises(WeightsError, match="cannot be loaded"):
        load_encoder(str(tiny), device="cpu")
    (tiny / WEIGHTS).write_bytes(weights)
    tokenizer = json.loads((tiny / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"].update({f"word{i}": 100 + i for i in range(30)})
    (tiny / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(WeightsError, match="different checkpoints"):
        load_encoder(str(tiny), device="cpu")
    (tiny / "tokenizer.json").write_text("{}")
    with pytest.raises(WeightsError, match="cannot be read as a tokenizer"):
        load_encoder(str(tiny), device="cpu")
    (tiny / "tokenizer.json").unlink()
    (tiny / "vocab.txt").unlink()
    with pytest.raises(WeightsError, match=r"neither tokenizer\.json nor vocab\.txt"):
        load_encoder(str(tiny), device="cpu")


def test_the_fingerprint_follows_what_decides_the_vectors(tiny, tmp_path):
    """Pooling and tokenizer change the fingerprint; a configuration remark and the folder's name do not."""
    before = load_encoder(str(tiny), device="cpu").spec.fingerprint
    config = json.loads((tiny / "config.json").read_text())
    (tiny / "config.json").write_text(json.dumps({**config, "_name_or_path": "elsewhere"}))
    moved = tiny.rename(tmp_path / "moved")
    assert load_encoder(str(moved), device="cpu").spec.fingerprint == before
    (moved / "akin.json").write_text('{"normalise": true}')
    normalised = load_encoder(str(moved), device="cpu").spec.fingerprint
    (moved / "akin.json").unlink()
    tokenizer = json.loads((moved / "tokenizer.json").read_text())
    tokenizer["normalizer"]["lowercase"] = False
    (moved / "tokenizer.json").write_text(json.dumps(tokenizer))
    cased = load_encoder(str(moved), device="cpu").spec.fingerprint
    assert len({before, normalised, cased}) == 3


@pytest.mark.parametrize("with_tokenizer_json", [False, True])
def test_lower_casing_counts_where_vocab_txt_is_read(tiny, with_tokenizer_json):
    """Folders that differ in do_lower_case differ in fingerprint exactly if they differ in vectors."""
    if not with_tokenizer_json:
        (tiny / "tokenizer.json").unlink()
    encoders = [load_encoder(str(tiny), device="cpu")]
    for settings in ({}, {"do_lower_case": True}, {"do_lower_case": False}):
        (tiny / "tokenizer_config.json").write_text(json.dumps(settings))
        encoders.append(load_encoder(str(tiny), device="cpu"))
    default, *lowered, cased = (encoder.encode([PAPER])[0].sentences for encoder in encoders)
    assert all(np.array_equal(default, vectors) for vectors in lowered)
    assert np.array_equal(default, cased) == with_tokenizer_json
    default, *lowered, cased = (encoder.spec.fingerprint for encoder in encoders)
    assert {default} == set(lowered)
    assert (default == cased) == with_tokenizer_json


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"strip_accents": False}, "We show é result."),
        ({"do_lower_case": False, "strip_accents": True}, "we show á result."),
        ({"tokenize_chinese_chars": False}, "we show a图x result."),
    ],
    ids=str,
)
def test_vocab_txt_is_read_as_its_settings_say(tiny, settings, text):
    """The settings of accents and Chinese characters decide tokens and fingerprint, as in transformers."""
    (tiny / "tokenizer.json").unlink()
    with (tiny / "vocab.txt").open("a") as stream:
        stream.write("e\n图\n")
    lower = {"do_lower_case": settings.get("do_lower_case", True)}
    tokens, fingerprints = [], []
    for own in (lower, {**lower, **settings}):
        (tiny / "tokenizer_config.json").write_text(json.dumps({**own, "tokenizer_class": "BertTokenizer"}))
        theirs = BertTokenizer.from_pretrained(tiny)
        (read,) = WordPieces(tiny, max_tokens=99).tokenise([paper("", text)])
        assert theirs.encode(text)[1:] == list(read.ids[2:])
        tokens.append(read.ids)
        fingerprints.append(load_encoder(str(tiny), device="cpu").spec.fingerprint)
    assert tokens[0] != tokens[1]
    assert fingerprints[0] != fingerprints[1]


@pytest.mark.parametrize("file", ["tokenizer_config.json", "config.json"])
def test_a_vocab_txt_of_another_kind_is_refused(tiny, file):
    """A vocab.txt for a tokenizer that does not read as BERT's is refused, unless tokenizer.json is there."""
    settings = json.loads((tiny / file).read_text()) if (tiny / file).is_file() else {}
    (tiny / file).write_text(json.dumps({**settings, "tokenizer_class": "BertJapaneseTokenizer"}))
    assert load_encoder(str(tiny), device="cpu")
    (tiny / "tokenizer.json").unlink()
    with pytest.raises(WeightsError, match=r"BertJapaneseTokenizer.* add its tokenizer\.json"):
        load_encoder(str(tiny), device="cpu")


def test_an_adapter_beside_the_weights_is_refused(tiny):
    """A folder with a PEFT adapter, which the fingerprint would not cover, is refused."""
    (tiny / "adapter_config.json").write_text("{}")
    with pytest.raises(WeightsError, match=r"adapter_config\.json.*[Mm]erge"):
        load_encoder(str(tiny), device="cpu")


def test_the_fingerprint_of_minilm_is_pinned(minilm):
    """The fingerprint of minilm is pinned: the service would refuse every snapshot if it changed."""
    assert minilm.spec.fingerprint == "3ca8067358dbd9a52731adf4f593b8017269ee2a00dc73d88a64fb1f1e430dd7"


def test_the_encoder_seam_imports_without_torch():
    """Importing ``models.encoder`` imports neither torch nor transformers."""
    script = "import sys, models.encoder; sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
