"""Answers of Crossref, arXiv and PubMed in their documented formats, about invented papers."""

from typing import Any

import httpx

CROSSREF: dict[str, Any] = {
    "status": "ok",
    "message-type": "work",
    "message": {
        "DOI": "10.5555/LAMP.1",
        "title": ["Lamps of <i>Old</i>"],
        "abstract": "<jats:title>Abstract</jats:title><jats:p>Lamps are dim. We fit bulbs.</jats:p>",
        "author": [{"given": "Ada", "family": "Quill", "sequence": "first"}, {"name": "The Lamp Group"}],
        "container-title": ["Lamp Letters"],
        "issued": {"date-parts": [[2019, 5]]},
        "URL": "https://doi.org/10.5555/lamp.1",
    },
}
ARXIV = r"""<?xml version="1.0" encoding="UTF-8"?>
<feed xmlns="http://www.w3.org/2005/Atom" xmlns:arxiv="http://arxiv.org/schemas/atom">
  <title>ArXiv Query</title>
  <entry>
    <id>http://arxiv.org/abs/9912.00007v2</id>
    <published>2020-12-01T00:00:00Z</published>
    <title>Gaps between
  \emph{Invented} Primes</title>
    <summary>  We invent primes. Their gaps are bounded.
</summary>
    <author><name>Bo Rask</name></author>
    <arxiv:doi>10.5555/primes</arxiv:doi>
    <category term="math.PR" scheme="http://arxiv.org/schemas/atom"/>
  </entry>
  <entry>
    <id>http://arxiv.org/api/errors#incorrect_id_format_for_1</id>
    <title>Error</title>
    <summary>incorrect id format for 1</summary>
  </entry>
</feed>"""
PUBMED = """<?xml version="1.0" ?>
<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD PubMedArticle//EN" "https://dtd.nlm.nih.gov/x.dtd">
<PubmedArticleSet><PubmedArticle><MedlineCitation><PMID Version="1">41</PMID><Article>
<Journal><JournalIssue><PubDate><Year>2003</Year></PubDate></JournalIssue><Title>Annals</Title></Journal>
<ArticleTitle>Salt baths.</ArticleTitle>
<Abstract><AbstractText Label="METHODS" NlmCategory="METHODS">We bathed.</AbstractText></Abstract>
</Article></MedlineCitation></PubmedArticle></PubmedArticleSet>"""


class LookupServices:
    """A handler that answers like the three services, except for the host ``down``, which fails.

    ``asked`` holds the addresses of the requests.
    """

    def __init__(self, down: str = "") -> None:
        self.urls: list[httpx.URL] = []
        self._down = down

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        self.urls.append(request.url)
        host = request.url.host
        if host == self._down:
            return httpx.Response(503)
        if host == "api.crossref.org":
            known = request.url.path.lower() == "/works/10.5555/lamp.1"
            return httpx.Response(200, json=CROSSREF) if known else httpx.Response(404)
        if host == "export.arxiv.org":
            return httpx.Response(200, text=ARXIV)
        assert "eutils.ncbi.nlm.nih.gov" == host
        return httpx.Response(200, text=PUBMED)
