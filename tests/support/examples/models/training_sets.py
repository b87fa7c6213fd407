"""A tiny training set on disk: papers of a few words, of which two of each topic belong together."""

import json
from pathlib import Path

from tests.support.examples.models.tiny_bert import WORDS, write_tiny_bert

CONFIG = """
encoder = "encoder"
max_tokens = 40
batch_tokens = 96
{extra}
[[sets]]
path = "set"
objective = {{ name = "in-batch", distances = ["ot", "document"], temperature = 0.2 }}
[held_out]
path = "set"
distances = ["single"]
[steps]
n_steps = 8
batch = 4
learning_rate = 1e-3
warm_up = 2
checkpoint_every = 2
measure_every = 4
{steps}
"""
LOW_RANK = "[low_rank]\nrank = 2\nalpha = 4\n"


def write_run(folder: Path, *, extra: str = "", steps: str = "") -> Path:
    """Write an encoder, a set of ten pairs and a configuration; return the path of the configuration.

    ``extra`` and ``steps`` are TOML.
    """
    write_tiny_bert(folder / "encoder")
    (folder / "encoder" / "akin.json").write_text('{"normalise": true, "document": "mean"}')
    write_set(folder / "set")
    config = folder / "run.toml"
    text = CONFIG.format(extra=extra, steps=steps).replace('"encoder"', f'"{folder / "encoder"}"', 1)
    config.write_text(text)
    return config


def write_set(folder: Path, n_pairs: int = 10) -> None:
    """Write the pairs: papers 2i and 2i + 1 belong together and share words."""
    folder.mkdir()
    texts, examples = [], []
    for number in range(2 * n_pairs):
        topic = number // 2
        words = [WORDS[(topic + step) % len(WORDS)] for step in (0, 3, 5)]
        sentences = [f"we show {words[0]} {words[1]}.", f"{words[2]} of {WORDS[number % len(WORDS)]}."]
        texts.append({"id": f"p{number}", "title": f"{words[0]} {words[2]}", "sentences": sentences})
        if number % 2:
            examples.append({"query": f"p{number - 1}", "positive": f"p{number}"})
    for name, rows in (("texts.jsonl", texts), ("examples.jsonl", examples)):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_lines(path: Path, rows: list[dict[str, object]]) -> Path:
    """Write JSON lines and return the path."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def citing_sentences(n_papers: int) -> list[dict[str, object]]:
    """Return sentences that cite only paper 2i, and sentences that cite papers 2i and 2i + 1."""
    rows: list[dict[str, object]] = []
    for i in range(0, n_papers, 2):
        words = " ".join("abcdefgh"[int(digit)] for digit in f"{i:05o}")
        one, both = f"It was found that {words} holds (so).", f"Others found {words} to hold as well (so)."
        rows.append({"citing": f"c{i}", "context": one, "cited": [f"p{i}"]})
        rows.append({"citing": f"c{i}", "context": both, "cited": [f"p{i}", f"p{i + 1}"], "n_cited": 2})
    return rows
