"""Tests of the page on larger collections: it is generated from the measured figures."""

from benchmarks.indexing.scale import ROOT, figures, page, picture, tables


def test_the_page_is_made_from_the_measured_figures() -> None:
    """If this fails, run python -m benchmarks.indexing.scale and read the text between the tables again."""
    measured = ROOT / "docs" / "measured"
    assert page(measured) == (measured / "scale.md").read_text(encoding="utf-8")
    drawn = picture(figures(measured, "sizes"), figures(measured, "sizes-short"))
    assert drawn == (measured / "scale.svg").read_text(encoding="utf-8")


def test_the_arithmetic_is_that_of_a_line() -> None:
    """Round inputs give round results: 10 ms and 10 ns a sentence, 3 hours of compacting."""
    sizes = {
        str(papers): {
            # 5 bytes on top, 40 a paper, 100 a sentence.
            "queries": {"processor_s": 0.01 + 8e-8 * papers, "private_mib": (5 + 840 * papers) / 2**20},
            "index": {"processor_s": 36.0 * papers},
            "merge": {"processor_s": 0.0864 * papers},
        }
        for papers in (1_000, 10_000)
    }
    few_sentences = {"papers": 9_000, "vectors": 20_000}
    own = {"private_mib": (5 + 40 * 9_000 + 100 * 20_000) / 2**20}
    short = {"9000": {"open": few_sentences, "queries": own}}
    rows = [
        {"what": "other", "ours": 0.0},
        # The figures of the encoder in the order of docs/measured/performance.json.
        {"what": "encode some, bfloat16", "beside": "torch, float32", "ours": 36.0, "theirs": 72.0},
        {"what": "encode some, float32", "beside": "the same in bfloat16", "ours": 72.0, "theirs": 36.0},
        {"what": "encode some, float32", "beside": "the same in int8", "ours": 72.0, "theirs": 24.0},
    ]
    memory, building, asking, engines = tables(sizes, short, {"rows": rows})
    slower = [{**row, "theirs": 500.0} for row in rows]
    # As on a processor without its instructions.
    assert "bfloat16" not in tables(sizes, short, {"rows": slower})[1]
    assert "| vectors, float16 | 768 | 6,144 | 0.77 | 77 | 768 |" in memory
    assert "| encode, float32 (72 ms a paper) | 2.5 | 250 | 2,500 |" in building
    assert "| encode, bfloat16 (36 ms a paper) | 1.2 | 125 | 1,250 |" in building
    assert "| `akin compact`, once | 3 | 300 | 3,000 |" in building
    assert "10 ms and 10.0 ns a sentence | 0.02 s | 1 s | 10 s |" in asking
    assert "| cores that share it to answer in 0.2 s | 1 | 6 | 53 |" in asking
    assert "| the same in shards on Ray | 1 | 8 | 72 |" in asking
    assert "own memory of the service, 40 bytes a paper and 132 a sentence" in asking
    assert "own memory, with the index (`ivfpq`) | 137 | 0.14 | 14 | 137 | 2 |" in engines
    assert (
        "| Qdrant, float32 in memory: 4 bytes a number, times 1.5 | 2,304 | 2.3 | 230 | 2,304 | 18 |"
        in engines
    )
