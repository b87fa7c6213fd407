"""A tiny random BERT on disk, and a deliberately simple reimplementation of the encoder.

transformers takes seconds to load, so functions import it: most tests need only the papers of this module.
"""

import json
import re
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from models.types import Paper, Sentence

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [
    "transport",
    "paper",
    "method",
    "result",
    "we",
    "show",
    "graph",
    "neural",
    "cell",
    "protein",
    "a",
    "of",
]
VOCABULARY = [*SPECIALS, *WORDS, "encod", "##er", "##ing", "##s", "##x", "x", ".", ",", "[", "]", "sep"]


def write_tiny_bert(folder, *, max_position_embeddings=512, seed=0):
    """Write configuration, tokenizer.json, vocab.txt and safetensors of a random two-layer BERT."""
    import torch
    from safetensors.torch import save_file
    from transformers import BertConfig, BertModel

    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(VOCABULARY) + 3,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=max_position_embeddings,
        initializer_range=0.4,
    )
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({**config.to_dict(), "architectures": ["BertModel"]}))
    save_file(BertModel(config).state_dict(), folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    tokenizer = Tokenizer(WordPiece({word: i for i, word in enumerate(VOCABULARY)}, unk_token="[UNK]"))  # noqa: S106
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.add_special_tokens(SPECIALS)
    # As in all-MiniLM-L6-v2: an encoder that uses these settings would truncate every sentence.
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=4)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def write_frozen_bert(folder):
    """Write the tiny BERT with weights that no release of torch or transformers can change."""
    import torch
    from safetensors.torch import load_file, save_file

    write_tiny_bert(folder)
    draw = np.random.RandomState(7)  # numpy guarantees its stream, but not that of a Generator
    tensors = load_file(folder / "model.safetensors")
    for name in sorted(tensors):
        scale, mean = (0.1, 1.0) if name.endswith("LayerNorm.weight") else (0.4, 0.0)
        values = mean + scale * draw.standard_normal(tuple(tensors[name].shape))
        tensors[name] = torch.tensor(values, dtype=torch.float32)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def paper(title, *sentences, paper_id="p"):
    """Return a paper with the abstract ``sentences``, joined by spaces."""
    return Paper(paper_id, title, " ".join(sentences), tuple(Sentence(text, 0, 0) for text in sentences))


class PlainEncoder:
    """An encoder by semantics 3.1 and 3.2 for one paper at a time, without padding or batches."""

    def __init__(self, folder: Path, *, max_tokens: int = 500) -> None:
        from transformers import BertModel

        self.vocabulary = {
            line: number for number, line in enumerate((folder / "vocab.txt").read_text().splitlines())
        }
        self.model = BertModel.from_pretrained(folder, attn_implementation="eager").eval()
        self.max_tokens = max_tokens

    def wordpieces(self, text):
        """Return WordPieces of ASCII text by greedy longest match; a literal [SEP] is the token."""
        pieces = []
        for part in re.split(r"(\[SEP\])", text):
            if part == "[SEP]":
                pieces.append("[SEP]")
                continue
            for word in re.findall(r"[a-z0-9]+|[^\sa-z0-9]", part.lower()):
                pieces += self.split_word(word)
        return pieces

    def split_word(self, word):
        """Return a word as the longest pieces of the vocabulary, from the left; [UNK] if that fails."""
        pieces, start = [], 0
        while start < len(word):
            for stop in range(len(word), start, -1):
                piece = ("##" if start else "") + word[start:stop]
                if piece in self.vocabulary:
                    break
            else:
                return ["[UNK]"]
            pieces.append(piece)
            start = stop
        return pieces

    def hidden_states(self, tokens):
        """Return the states of all layers in float64, embeddings first, for [CLS] ``tokens`` [SEP]."""
        import torch

        ids = [self.vocabulary[token] for token in ["[CLS]", *tokens, "[SEP]"]]
        with torch.no_grad():
            output = self.model(torch.tensor([ids]), output_hidden_states=True)
        return [states[0].double().numpy() for states in output.hidden_states]

    def segments(self, given):
        """Return the tokens of title and sentences within the limit, and each kept sentence's positions."""
        title = self.wordpieces(given.title)
        if len(title) + 1 >= self.max_tokens:
            title = title[: self.max_tokens // 2 - 1]
        tokens, positions = [*title, "[SEP]"], []
        for sentence in given.sentences:
            own = []
            for piece in self.wordpieces(sentence.text):
                if len(tokens) < self.max_tokens:
                    own.append(len(tokens) + 1)
                    tokens.append(piece)
            if not own:
                break
            positions.append(own)
        return tokens, positions

    def encode(self, given):
        """Return sentence vectors (n_kept, dim), CLS vector, mean over all tokens, and number dropped."""
        tokens, positions = self.segments(given)
        last = self.hidden_states(tokens)[-1]
        rows = [sum(last[position] for position in own) / len(own) for own in positions]
        return np.array(rows), last[0], sum(last) / len(last), len(given.sentences) - len(positions)


LONG = " ".join(WORDS * 10)  # 120 WordPieces


def text(n_words, seed=0):
    """Return random words of the tiny vocabulary, some of them of several pieces, some unknown."""
    words = [*WORDS, "encoders", "encoding", "xx", "qq", "papers."]
    return " ".join(np.random.default_rng(seed).choice(words, n_words))


PAPERS = {
    "plain": paper("Graph transport", "We show a result.", "Encoders of papers, a method.", "Cell protein."),
    "sep in title": paper("Graph [SEP] transport", "We show [SEP] a result.", "Cell."),
    "single words": paper("Paper", "we", "show", "encoders", "qq"),
    "empty title": paper("", "We show a graph.", "Protein."),
    "one sentence": paper("Neural cell", "We show a graph of papers."),
    "cut in a sentence": paper("Neural cell", LONG, LONG, LONG, LONG, LONG, "We show.", "A cell."),
    "exactly full": paper(" ".join(["a"] * 19), LONG, LONG, LONG, LONG, "one too many"),
    "one long sentence": paper("Neural", text(700)),
    "long title": paper(text(600), "We show a result.", LONG, LONG, LONG, "A cell."),
    "random": paper(text(12, seed=1), *(text(n, seed=n) for n in (3, 40, 17, 1, 25))),
}
