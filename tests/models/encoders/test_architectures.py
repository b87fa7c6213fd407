"""Tiny random encoders of every common architecture give what transformers' own forward pass gives."""

import json
import shutil

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE, WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

from akin.cli.training.sets import write_set
from models.checkpoints.checkpoints import WEIGHTS
from models.encoder import load_encoder
from models.errors import EncoderError, WeightsError
from models.training.examples import Example, TrainingSet
from models.types import Precision
from tests.support.commands import run
from tests.support.examples.models.tiny_bert import WORDS, paper

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
# Settings as each architecture names them; 60 positions each, so that the long paper is cut.
ARCHITECTURES = {
    "bert": {**SIZES, "max_position_embeddings": 60},
    "roberta": {**SIZES, "max_position_embeddings": 62, "pad_token_id": 1},
    "xlm-roberta": {**SIZES, "max_position_embeddings": 62, "pad_token_id": 1},
    "mpnet": {**SIZES, "max_position_embeddings": 62, "pad_token_id": 1},
    "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "max_position_embeddings": 60},
    "modernbert": {
        **SIZES,
        "max_position_embeddings": 60,
        "pad_token_id": 3,
        "local_attention": 8,
        "global_attn_every_n_layers": 2,
        "reference_compile": False,
    },
}
PAPERS = [
    paper("Graph transport", "We show a result.", "Encoders of papers, a method."),
    paper("Neural cells", "A protein of a cell.", *["We show a method of neural transport of graph x."] * 12),
    paper("", "A result."),
]


def word_tokenizer(begin: str, end: str, *others: str) -> Tokenizer:
    """Return WordPieces of a few words, with the special tokens of an architecture."""
    words = [begin, "[PAD]", end, "[UNK]", *others, *WORDS, "##s", "x", ".", ","]
    tokenizer = Tokenizer(WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))  # noqa: S106
    tokenizer.normalizer, tokenizer.pre_tokenizer = BertNormalizer(lowercase=True), BertPreTokenizer()
    tokenizer.add_special_tokens([begin, "[PAD]", end, "[UNK]", *others])
    return tokenizer


def byte_tokenizer(begin: str, end: str) -> Tokenizer:
    """Return a tokenizer of bytes, as for RoBERTa and ModernBERT, without a token for unknown text."""
    alphabet = [begin, "<pad>", end, "<mask>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([begin, "<pad>", end, "<mask>"])
    return tokenizer


def own_tokenizer(kind: str) -> Tokenizer:
    """Return a tokenizer of the kind that an architecture has, with its tokens around a text."""
    if kind in ("bert", "distilbert"):
        begin, end, tokenizer = "[CLS]", "[SEP]", word_tokenizer("[CLS]", "[SEP]")
    elif kind == "mpnet":
        begin, end, tokenizer = "<s>", "</s>", word_tokenizer("<s>", "</s>", "<mask>")
    else:
        begin, end = ("[CLS]", "[SEP]") if kind == "modernbert" else ("<s>", "</s>")
        tokenizer = byte_tokenizer(begin, end)
    ends = [(begin, tokenizer.token_to_id(begin)), (end, tokenizer.token_to_id(end))]
    tokenizer.post_processor = TemplateProcessing(single=f"{begin} $A {end}", special_tokens=ends)
    return tokenizer


def write_encoder(folder, kind, tokenizer=None, **settings):
    """Write a tiny random encoder of an architecture with its tokenizer, as published; return the folder."""
    tokenizer = tokenizer or own_tokenizer(kind)
    settings = {"initializer_range": 0.3, **ARCHITECTURES.get(kind, SIZES), **settings}
    config = transformers.AutoConfig.for_model(kind, vocab_size=tokenizer.get_vocab_size(), **settings)
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(config)
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="module", params=ARCHITECTURES)
def encoder_folder(request, tmp_path_factory):
    """Return the folder of one architecture's tiny encoder."""
    return write_encoder(tmp_path_factory.mktemp(request.param) / "encoder", request.param)


def expected(folder, given):
    """Return the vectors of sentences and first token by transformers' own model, without padding."""
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    begin, end = tokenizer.encode("").ids
    ids = [begin, *tokenizer.encode(given.title, add_special_tokens=False).ids, end]
    windows = []
    for sentence in given.sentences:
        own = tokenizer.encode(sentence.text, add_special_tokens=False).ids[: 59 - len(ids)]
        if own:
            windows.append((len(ids), len(ids) + len(own)))
        ids += own
    with torch.no_grad():
        states = model(input_ids=torch.tensor([[*ids, end]])).last_hidden_state[0].double().numpy()
    return np.array([states[start:stop].mean(axis=0) for start, stop in windows]), states[0]


def test_vectors_are_those_of_transformers_own_forward_pass(encoder_folder):
    """In a batch with longer papers, vectors equal those of transformers' own model."""
    encoder = load_encoder(str(encoder_folder), device="cpu")
    encoded = encoder.encode(PAPERS)
    assert encoded[1].dropped_sentences > 0
    for given, own in zip(PAPERS, encoded, strict=True):
        sentences, document = expected(encoder_folder, given)
        np.testing.assert_allclose(own.sentences, sentences, atol=1e-5)
        np.testing.assert_allclose(own.document, document, atol=1e-5)


@pytest.mark.parametrize(("precision", "most"), [(Precision.BFLOAT16, 0.1), (Precision.INT8, 0.2)])
def test_rounded_products_are_near(encoder_folder, precision, most):
    """Products in bfloat16 or int8 change vectors, and hidden states, only a little."""
    plain, rounded = (
        load_encoder(str(encoder_folder), device="cpu", precision=each).encode(PAPERS[:2], layers=(1,))
        for each in (Precision.FLOAT32, precision)
    )
    for own, other in zip(plain, rounded, strict=True):
        assert 0 < np.abs(own.sentences - other.sentences).max() < most
        assert 0 < np.abs(own.layers - other.layers).max() < most


@pytest.mark.parametrize("low_rank", [True, False])
def test_every_architecture_is_trained(encoder_folder, tmp_path, low_rank):
    """All weights or low-rank changes of each architecture are trained, and the result loads again."""
    texts = {name: paper(name, f"We show {name}.", "A result of x.") for name in WORDS[:4]}
    examples = [Example(WORDS[0], WORDS[1]), Example(WORDS[2], WORDS[3])]
    write_set(tmp_path / "set", TrainingSet("set", texts, examples), {})
    (tmp_path / "run.toml").write_text(
        f'encoder = "{encoder_folder}"\nmax_tokens = 40\n[[sets]]\npath = "set"\n[steps]\nn_steps = 2\n'
        "batch = 2\nlearning_rate = 0.01\n" + ("[low_rank]\nrank = 2\n" if low_rank else "")
    )
    run("train", tmp_path / "run.toml", "--out", tmp_path / "run", "--device", "cpu")
    before, after = (load_file(folder / WEIGHTS) for folder in (encoder_folder, tmp_path / "run" / "encoder"))
    assert before.keys() == after.keys()
    moved = {name for name, tensor in before.items() if not torch.equal(tensor, after[name])}
    assert len(moved) >= 8
    assert load_encoder(str(tmp_path / "run" / "encoder"), device="cpu").encode(PAPERS)


def test_a_model_that_reads_one_way_is_refused(tmp_path):
    """A BERT set to read from left to right is refused."""
    folder = write_encoder(tmp_path / "bert", "bert")
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**settings, "is_decoder": True}))
    with pytest.raises(WeightsError, match="'bert'; expected a bidirectional encoder"):
        load_encoder(str(folder), device="cpu")


def test_incomplete_weights_are_refused_whatever_the_architecture(encoder_folder, tmp_path):
    """A folder that lacks a weight of a layer is refused, for each architecture."""
    folder = tmp_path / "copy"
    shutil.copytree(encoder_folder, folder)
    tensors = load_file(folder / WEIGHTS)
    del tensors[next(name for name in sorted(tensors) if "1" in name)]
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    with pytest.raises(WeightsError, match="lacks 1 tensors"):
        load_encoder(str(folder), device="cpu")


def test_a_setting_of_another_architecture_changes_the_fingerprint(tmp_path):
    """ModernBERT's window, which BERT does not have, is part of the fingerprint."""
    folder = write_encoder(tmp_path / "modernbert", "modernbert")
    before = load_encoder(str(folder), device="cpu").spec.fingerprint
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**settings, "transformers_version": "0"}))
    assert load_encoder(str(folder), device="cpu").spec.fingerprint == before
    (folder / "config.json").write_text(json.dumps({**settings, "local_attention": 4}))
    assert load_encoder(str(folder), device="cpu").spec.fingerprint != before


@pytest.mark.parametrize(
    ("kind", "settings"), [("fnet", {}), ("convbert", {"embedding_size": 32}), ("nystromformer", {})]
)
def test_an_architecture_that_reads_padding_is_refused(tmp_path, kind, settings):
    """An architecture whose vectors depend on the other texts of a batch is refused."""
    folder = write_encoder(tmp_path / kind, kind, **settings)
    with pytest.raises(WeightsError, match=f"'{kind}' gives a text other vectors if .* pads it"):
        load_encoder(str(folder), device="cpu")


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("flaubert", {"emb_dim": 32, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 60}),
        ("xlm", {"emb_dim": 32, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 60}),
        ("perceiver", {"d_latents": 32, "d_model": 32, "num_latents": 8, "max_position_embeddings": 60}),
    ],
)
def test_an_architecture_without_one_list_of_layers_is_refused(tmp_path, kind, settings):
    """An architecture that has the parts of its layers in several lists, or no such layers, is refused."""
    folder = write_encoder(tmp_path / kind, kind, **settings)
    with pytest.raises(WeightsError, match="many layers in one list"):
        load_encoder(str(folder), device="cpu")


def test_states_of_another_width_than_the_configuration_has_are_refused(tmp_path):
    """Reformer, whose states are twice as wide as its configuration says, is refused."""
    folder = write_encoder(
        tmp_path / "reformer",
        "reformer",
        attn_layers=["local", "local"],
        axial_pos_embds=False,
        attention_head_size=8,
        feed_forward_size=64,
        local_attn_chunk_length=4,
        is_decoder=False,
        max_position_embeddings=60,
    )
    with pytest.raises(WeightsError, match="64 numbers, but its configuration says 32"):
        load_encoder(str(folder), device="cpu")


def test_bfloat16_that_fails_suggests_float32(tmp_path):
    """If an architecture fails to encode in bfloat16, the message names ``--precision float32``."""
    folder = write_encoder(tmp_path / "deberta", "deberta", max_position_embeddings=60)
    assert load_encoder(str(folder), device="cpu").encode(PAPERS)
    rounded = load_encoder(str(folder), device="cpu", precision=Precision.BFLOAT16)
    with pytest.raises(EncoderError, match="--precision float32"):
        rounded.encode(PAPERS)


def test_a_configuration_that_asks_for_tuples_changes_nothing(encoder_folder, tmp_path):
    """With ``return_dict: false`` in config.json, vectors and hidden layers are the same."""
    folder = tmp_path / "copy"
    shutil.copytree(encoder_folder, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "return_dict": False}))
    (own,), (other,) = (
        load_encoder(str(each), device="cpu").encode(PAPERS[:1], layers=(1,))
        for each in (folder, encoder_folder)
    )
    np.testing.assert_array_equal(own.sentences, other.sentences)
    np.testing.assert_array_equal(own.layers, other.layers)


@pytest.mark.parametrize("prefix", ["", "bert."])
def test_weights_that_the_layers_do_not_read_are_refused(tmp_path, prefix):
    """Weights of a further layer or of relative positions are refused; a head and buffers are not."""
    folder = write_encoder(tmp_path / "bert", "bert")
    tensors = {prefix + name: tensor for name, tensor in load_file(folder / WEIGHTS).items()}
    buffers = ("embeddings.position_ids", "encoder.layer.0.attention.self.inv_freq")
    tensors |= {
        "cls.predictions.bias": torch.zeros(4),
        **{prefix + name: torch.arange(60) for name in buffers},
    }
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    assert load_encoder(str(folder), device="cpu").encode(PAPERS)
    relative = f"{prefix}encoder.layer.0.attention.self.distance_embedding.weight"
    save_file({**tensors, relative: torch.zeros(119, 8)}, folder / WEIGHTS, metadata={"format": "pt"})
    with pytest.raises(WeightsError, match=r"1 tensors that .* does not read, such as .*distance_embedding"):
        load_encoder(str(folder), device="cpu")
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 1}))
    with pytest.raises(WeightsError, match=r"16 tensors that .* does not read, such as .*layer\.1"):
        load_encoder(str(folder), device="cpu")


def test_the_padding_token_of_roberta_changes_the_fingerprint(tmp_path):
    """RoBERTa's positions start after its padding token, so an unusual one changes the fingerprint."""
    folder = write_encoder(tmp_path / "roberta", "roberta", max_position_embeddings=600)
    fingerprints, config = [], json.loads((folder / "config.json").read_text())
    for changed in ({}, {"pad_token_id": 0}):
        (folder / "config.json").write_text(json.dumps({**config, **changed}))
        fingerprints.append(load_encoder(str(folder), device="cpu").spec.fingerprint)
    del config["pad_token_id"]
    (folder / "config.json").write_text(json.dumps(config))
    fingerprints.append(load_encoder(str(folder), device="cpu").spec.fingerprint)
    assert fingerprints[0] == fingerprints[2] != fingerprints[1]


def test_vocab_txt_of_mpnet_gives_the_vectors_of_its_tokenizer_json(tmp_path):
    """MPNet's vocabulary also holds BERT's tokens, but ``<s>`` and ``</s>`` begin and end a text."""
    tokenizer = word_tokenizer("<s>", "</s>", "[CLS]", "[SEP]", "<mask>")
    ends = [(token, tokenizer.token_to_id(token)) for token in ("<s>", "</s>")]
    tokenizer.post_processor = TemplateProcessing(single="<s> $A </s>", special_tokens=ends)
    folder = write_encoder(tmp_path / "mpnet", "mpnet", tokenizer, **ARCHITECTURES["mpnet"])
    expected = load_encoder(str(folder), device="cpu").encode(PAPERS)
    (folder / "tokenizer.json").unlink()
    words = sorted(tokenizer.get_vocab(), key=tokenizer.token_to_id)
    (folder / "vocab.txt").write_text("\n".join(words))
    for found, own in zip(load_encoder(str(folder), device="cpu").encode(PAPERS), expected, strict=True):
        np.testing.assert_array_equal(found.sentences, own.sentences)


def test_a_configuration_without_a_type_is_of_bert(tmp_path):
    """SciBERT's config.json states no type: it is BERT's, whatever the folder is called."""
    folder = write_encoder(tmp_path / "roberta-like", "bert", **ARCHITECTURES["bert"])
    expected = load_encoder(str(folder), device="cpu").encode(PAPERS)
    config = json.loads((folder / "config.json").read_text())
    del config["model_type"]
    (folder / "config.json").write_text(json.dumps(config))
    for found, own in zip(load_encoder(str(folder), device="cpu").encode(PAPERS), expected, strict=True):
        np.testing.assert_array_equal(found.sentences, own.sentences)
