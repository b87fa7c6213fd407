"""Tests for recognising abstracts in other languages."""

import pytest

from models.text.language import other_language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("We propose a method that finds papers akin to one you give it.", None),
        ("Multicenter, prospective, randomized trial: QRS, ST-segment and T-wave of the 12-lead ECG.", None),
        ("BERT", None),
        (
            "We gan luik at the bairns an the auld fowk o Scotland, an speir gin thay ken thair ain leid.",
            None,
        ),
        ("", None),
        ("\ud800\x00\ufdd0", None),
        ("Nous proposons une méthode qui trouve les articles proches d'un autre.", "fr"),
        ("On décrit les grammaires de d\x8ependance et les représentations syntaxiques des phrases.", "fr"),
        ("Wir zeigen, dass das neue Verfahren schneller ist als alle bisher bekannten.", "de"),
        ("本文提出了一种基于预训练语言模型的繁体古文自动句读框架,并整理了约十亿字的古文语料。", "zh"),
    ],
)
def test_languages_are_detected(text: str, language: str | None) -> None:
    """Text that is certainly not English gets its language; anything uncertain counts as English."""
    assert language == other_language(text)
