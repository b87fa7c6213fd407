"""Made-up sentence vectors for tests and benchmarks, shaped like those of real encoders."""

import numpy as np
from jaxtyping import Float32, Int64


def clustered_vectors(
    seed: int,
    *,
    n_papers: int,
    dim: int = 32,
    n_query: int = 8,
    n_sentences: tuple[int, int] = (4, 16),
    norm: float = 1.0,
) -> tuple[
    Float32[np.ndarray, "n_query dim"], Float32[np.ndarray, "n_rows dim"], Int64[np.ndarray, " k_plus_1"]
]:
    """Return a query and ``n_papers`` candidates: query vectors, candidate rows end to end, their offsets.

    Every sentence is the sum of a component shared by all text, its paper's topic and its own content. The
    candidates are close to the query's topic to different degrees, and one sentence in three is close to a
    query sentence. ``norm`` 1 gives distances of about 0.3 to 1.2, as normalised encoders do; ``norm`` 12
    gives 4 to 14, as un-normalised BERT does. ``n_sentences`` is the range of sentences per candidate, both
    ends included.
    """
    rng = np.random.default_rng(seed)

    def noise(*shape: int) -> np.ndarray:
        return rng.standard_normal((*shape, dim)) / np.sqrt(dim)

    shared, topic, contents = 0.7 * noise(), 0.6 * noise(), 0.8 * noise(n_query)
    lengths = rng.integers(n_sentences[0], n_sentences[1] + 1, n_papers)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    paper = np.repeat(np.arange(n_papers), lengths)
    closeness = rng.uniform(0.3, 0.95, n_papers)[:, None]
    topics = closeness * topic + np.sqrt(1 - closeness**2) * 0.6 * noise(n_papers)
    overlap = np.where(rng.random(len(paper)) < 1 / 3, rng.uniform(0.2, 0.9, len(paper)), 0.0)[:, None]
    like = contents[rng.integers(0, n_query, len(paper))]
    rows = shared + topics[paper] + overlap * like + np.sqrt(1 - overlap**2) * 0.8 * noise(len(paper))
    query = shared + topic + contents
    query *= norm / np.linalg.norm(query, axis=1, keepdims=True)
    rows *= norm / np.linalg.norm(rows, axis=1, keepdims=True)
    return query.astype(np.float32), rows.astype(np.float32), offsets.astype(np.int64)
