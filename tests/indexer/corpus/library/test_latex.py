"""LaTeX in titles, names and abstracts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.corpus.library.latex import from_latex
from service.api.exports import latex_text, one_line


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"M{\"u}ller, \'Etienne, {\O}re, \v{S}koda, \c{c}", "Müller, Étienne, Øre, Škoda, ç"),
        (r"{{\L}ukasz} \aa ngstrom Erd{\H{o}}s na{\"\i}ve \'{\i}", "Łukasz ångstrom Erdős naïve í"),
        (r"{B}ayesian {LSTM}s: a {\emph{very}} \textit{long} title", "Bayesian LSTMs: a very long title"),
        (r"50\% of R\&D, a\_b, \#1, \$5", "50% of R&D, a_b, #1, $5"),
        (r"50% of R&D", "50% of R&D"),
        (r"let $p_1 \leq {3}$ and \(a \leq {b}\) be", r"let $p_1 \leq {3}$ and \(a \leq {b}\) be"),
        (r"{so} \[x_{1} \leq \frac{a}{b}\] holds", r"so \[x_{1} \leq \frac{a}{b}\] holds"),
        (r"costs $5, caf{\'e}", "costs $5, café"),
        (r"a~b -- c --- d ``q''", "a b – c — d “q”"),
        ("about ~5 m (~6 m), http://x.y/~user", "about ~5 m (~6 m), http://x.y/~user"),
        (r"{\textquoteright}s \ldots", "’s …"),
        (r"as shown\cite[p.~3]{a,b} by\label{x} us", "as shown by us"),
        (r"\href{http://x.y}{text}, \url{http://a.b/c}", "text, http://a.b/c"),
        (r"p {\textless} 0.05, a\textgreater{}b, x\textbar y, 5\textpercent{}", "p < 0.05, a>b, x|y, 5%"),
        (
            r"a\textunderscore b, \lbrack 1\rbrack{}, \textbraceleft a\textbraceright{}, \pounds 5",
            "a_b, [1], {a}, £5",
        ),
        (
            r"\textquotedbl a\textquotedbl{}, \textbeta-catenin, n {\textleq} 5 {\textgeq} 2",
            '"a", β-catenin, n ≤ 5 ≥ 2',
        ),
        (r"\{\vphantom{\}}x\vphantom{\{}\} and \textsc{caps}", "{x} and caps"),
        (r"\made{up} on \today", "up on "),
        (r"data\-base, shelf\/ful", "database, shelfful"),
        (r"/\~{}user, 2\^{}3, \"{}x\"{}, a\c{}b", '/~user, 2^3, "x", ab'),
        (r"\'{\ae} \={\AE} \'{\o}l \v{\i} \.\i", "ǽ Ǣ ǿl ǐ i̇"),
        (r"Nguy{\~{\^e}}n, Tr{\`{\^a}}n, \'{\^{o}}, {\d{\^e}}, \~{ \^\i }", "Nguyễn, Trần, ố, ệ, î̃"),
        (r"as in\citep[see][p. 3]{b}, \citet*[a][b]{c}.", "as in, ."),
        (r"{\noopsort{1973b}}1973", "1973"),
        (r"Mart\'\i nez, na\"\i ve \'\i{} x", "Martínez, naïve í x"),
        ("unbalanced { and }", "unbalanced  and "),
        ("a last \\", "a last \\"),
    ],
)
def test_latex_becomes_unicode(latex: str, text: str) -> None:
    """Accents, signs and dashes become characters, markup is removed, and mathematics stays."""
    assert text == from_latex(latex)


@given(st.text(st.characters(exclude_characters="\\${}~-`'")))
def test_other_text_stays(text: str) -> None:
    """Text without LaTeX is unchanged."""
    assert text == from_latex(text)


@given(st.text(st.sampled_from("ab é-`'\"\\{}$&#%_^~<>|,;:.")))
def test_what_akin_exports_is_read_as_it_was(text: str) -> None:
    """Text in BibTeX that Akin wrote is read back unchanged, also dashes and quotation marks in a row."""
    assert one_line(text) == from_latex(latex_text(text))
