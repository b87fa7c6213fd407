"""Programs from files: submissions, profiles, conflicts and quotas, and what is refused."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from models.errors import BrokenRowError, CorpusFormatError, InputError, StorageError
from service.match.program.program import Program, Wanted, read_program

Paper = dict[str, object]
ReadFn = Callable[..., Program]


def _paper(paper_id: str, title: str, **rest: object) -> Paper:
    return {"id": paper_id, "title": title, "abstract": f"{title} is measured. It grows.", **rest}


def _write(path: Path, papers: Sequence[Paper]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in papers), encoding="utf-8")
    return path


@pytest.fixture
def read(tmp_path: Path) -> ReadFn:
    """Reads two submissions and the profiles of four people, one of whom has no paper with an abstract."""
    submissions = _write(
        tmp_path / "s.jsonl", [_paper("s1", "Moss", authors=["Ada Quill"]), _paper("s2", "Bells")]
    )
    folder = tmp_path / "profiles"
    _write(folder / "~Ada_Quill1.jsonl", [_paper("1", "Walls", year=2019), _paper("2", "Lakes", year=2023)])
    _write(folder / "~Cy1.jsonl", [_paper("1", "Kelp")])
    _write(
        folder / "bo@example.org.jsonl", [_paper("1", "Towers"), _paper("9", "Walls"), _paper("8", "Bells")]
    )
    _write(folder / "empty.jsonl", [{"id": "7", "title": "None", "abstract": ""}])

    def read(profiles: Path = folder, **options: object) -> Program:
        return read_program([submissions], profiles, **options)  # type: ignore[arg-type]  # keywords pass through

    return read


def test_papers_of_one_text_are_one_paper(read: ReadFn) -> None:
    """Also a submission; papers of one id and two texts are two."""
    program = read()
    assert ["s1", "s2"] == program.submissions
    assert ["1", "9", "s2"] == program.profiles["bo@example"]
    assert ["9", "2"] == program.profiles["~Ada_Quill1"]
    assert ["~Cy1/1"] == program.profiles["~Cy1"]
    assert "Kelp" == program.papers["~Cy1/1"].title
    assert {"s1", "s2", "1", "9", "2", "~Cy1/1"} == set(program.papers)
    assert ["empty"] == program.left_out
    assert 1 == program.report.without_abstract + program.report.broken


def test_authors_are_in_conflict_with_what_they_submit(read: ReadFn, tmp_path: Path) -> None:
    """By their names, and by what is in their profiles; others are given in a file, whatever its header."""
    own = {("s1", "~Ada_Quill1"), ("s2", "bo@example")}
    assert own == read().conflicts
    given = tmp_path / "conflicts.csv"
    given.write_text("submission,reviewer\ns1,bo@example\ns2,empty\n", encoding="utf-8")
    assert own | {("s1", "bo@example")} == read(conflicts=given).conflicts


def test_quotas(read: ReadFn, tmp_path: Path) -> None:
    """Parted by commas or tabs."""
    given = tmp_path / "quotas.tsv"
    given.write_text("~Ada_Quill1\t2\n\nbo@example\t0\n", encoding="utf-8")
    assert {"~Ada_Quill1": 2, "bo@example": 0} == read(quotas=given).quotas


@pytest.mark.parametrize(
    ("option", "text", "line", "reason"),
    [
        ("conflicts", "s1,bo@example\ns3,bo@example\n", 2, "there is no submission or profile 's3'"),
        ("conflicts", "s1,bo@example\ns1,cy\n", 2, "there is no submission or profile 'cy'"),
        ("conflicts", "s1\n", 1, "expected two cells"),
        ("quotas", "bo@example,2\nbo@example,many\n", 2, "'many' is no number"),
        ("quotas", "bo@example,2\ncy,1\n", 2, "there is no profile 'cy'"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(
    read: ReadFn, tmp_path: Path, option: str, text: str, line: int, reason: str
) -> None:
    """A conflict that was overlooked would be an assignment that must not be."""
    given = tmp_path / "given.csv"
    given.write_text(text, encoding="utf-8")
    with pytest.raises(BrokenRowError, match=reason) as refused:
        read(**{option: given})
    assert line == refused.value.line


def test_only_some_papers_of_a_profile_count(read: ReadFn) -> None:
    """The latest ones, or those since a year; who has none left is left out."""
    assert ["2"] == read(wanted=Wanted(most=1)).profiles["~Ada_Quill1"]
    since = read(wanted=Wanted(since=2019))
    assert ["Walls", "Lakes"] == [since.papers[each].title for each in since.profiles["~Ada_Quill1"]]
    assert {"bo@example", "empty", "~Cy1"} == set(since.left_out)


@pytest.mark.parametrize("name", ["list.json", "list.csv"])
def test_profiles_as_a_list_of_papers(read: ReadFn, tmp_path: Path, name: str) -> None:
    """Names and ids of papers that stand in corpora."""
    corpus = _write(tmp_path / "corpus.jsonl", [_paper("a", "Kelp"), _paper("b", "Salt"), _paper("c", "Fog")])
    listed = tmp_path / name
    pairs = [("ada", "a"), ("ada", "c"), ("bo", "a")]
    if name.endswith("json"):
        profiles = {person: [paper for who, paper in pairs if who == person] for person in ("ada", "bo")}
        listed.write_text(json.dumps(profiles), encoding="utf-8")
    else:
        listed.write_text("who,what\n" + "".join(f"{who},{what}\n" for who, what in pairs), encoding="utf-8")
    program = read(listed, corpora=[corpus])
    assert {"ada": ["a", "c"], "bo": ["a"]} == program.profiles
    assert "b" not in program.papers
    with pytest.raises(InputError, match="--corpus"):
        read(listed)
    _write(tmp_path / "corpus.jsonl", [_paper("a", "Kelp")])
    with pytest.raises(InputError, match="1 papers are not in the files given with --corpus, such as 'c'"):
        read(listed, corpora=[corpus])


@pytest.mark.parametrize("text", ["[]", '{"ada": "a"}', '{"ada": [1]}', "{"])
def test_a_json_list_of_another_shape(read: ReadFn, tmp_path: Path, text: str) -> None:
    """What was expected is said."""
    listed = tmp_path / "list.json"
    listed.write_text(text, encoding="utf-8")
    with pytest.raises(CorpusFormatError):
        read(listed, corpora=[_write(tmp_path / "corpus.jsonl", [_paper("a", "Kelp")])])


def test_nothing_to_match(read: ReadFn, tmp_path: Path) -> None:
    """No profile, no folder, no submission."""
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match="there is no profile"):
        read(tmp_path / "none")
    with pytest.raises(StorageError):
        read(tmp_path / "missing")
    with pytest.raises(InputError, match="there is no profile"):
        read(wanted=Wanted(since=2100))
