"""Tests of programs read from files: submissions, profiles, conflicts, quotas, and errors."""

import gzip
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from indexer.corpus.rows import MAX_ID_CHARS
from models.errors import BrokenRowError, CorpusFormatError, InputError, StorageError
from service.match.program.program import ProfileSelection, Program, read_program

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
    """Return a reader of two submissions and four profiles, one without a usable paper."""
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
    """Papers of one text are one paper, submissions included; equal ids with two texts are two papers."""
    program = read()
    assert ["s1", "s2"] == program.submissions
    assert ["1", "9", "s2"] == program.profiles["bo@example.org"]
    assert ["9", "2"] == program.profiles["~Ada_Quill1"]
    assert ["~Cy1/1"] == program.profiles["~Cy1"]
    assert "Kelp" == program.papers["~Cy1/1"].title
    assert {"s1", "s2", "1", "9", "2", "~Cy1/1"} == set(program.papers)
    assert ["empty"] == program.left_out
    assert 1 == program.report.without_abstract + program.report.broken


def test_ids_made_for_papers_are_short(tmp_path: Path) -> None:
    """Ids made from a long name and a long id are different, and as short as an id must be."""
    long_id, name = "i" * MAX_ID_CHARS, "n" * 240
    submission = _write(tmp_path / "s.jsonl", [_paper(long_id, "Moss")])
    for number in range(3):
        _write(tmp_path / f"profiles/{name}{number}.jsonl", [_paper(long_id, f"Kelp {number}")])
    program = read_program([submission], tmp_path / "profiles")
    made = [each for (each,) in program.profiles.values()]
    assert 3 == len({*made})
    assert MAX_ID_CHARS == max(map(len, program.papers))


def test_authors_are_in_conflict_with_what_they_submit(read: ReadFn, tmp_path: Path) -> None:
    """Authors conflict with submissions by name or by a paper in their profile, others by a file."""
    own = {("s1", "~Ada_Quill1"), ("s2", "bo@example.org")}
    assert own == read().conflicts
    given = tmp_path / "conflicts.csv"
    given.write_text("submission,reviewer\ns1,bo@example.org\ns2,empty\n", encoding="utf-8")
    assert own | {("s1", "bo@example.org")} == read(conflicts=given).conflicts


def test_quotas(read: ReadFn, tmp_path: Path) -> None:
    """Quotas are separated by commas or tabs, and are at most the number of submissions."""
    given = tmp_path / "quotas.tsv"
    given.write_text("~Ada_Quill1\t1\n\nbo@example.org\t0\nempty\t3\n", encoding="utf-8")
    assert {"~Ada_Quill1": 1, "bo@example.org": 0} == read(quotas=given).quotas
    given.write_text(f"who\tmany\n~Ada_Quill1\t{'9' * 5_000}\nbo@example.org\t3000000000\n", encoding="utf-8")
    program = read(quotas=given)
    assert {"~Ada_Quill1": 2, "bo@example.org": 2} == program.quotas
    assert [f"{given}:1: read as a header: who, many"] == program.notes


@pytest.mark.parametrize(
    ("option", "text", "line", "reason"),
    [
        ("conflicts", "s1,bo@example.org\ns3,bo@example.org\n", 2, "there is no submission 's3'"),
        ("conflicts", "s1,bo@example.org\ns1,cy\n", 2, "there is no profile 'cy'"),
        ("conflicts", "s1\n", 1, "expected two cells"),
        ("conflicts", "s1,bo@exmaple.org\n", 1, "there is no profile 'bo@exmaple.org'"),
        ("conflicts", "s01,bo@example.org\n", 1, "there is no submission 's01'"),
        ("conflicts", "s01,empty\n", 1, "there is no submission 's01'"),
        ("conflicts", "\nno,one\nno,one\n", 3, "there is no submission 'no'"),
        ("conflicts", '"s1\nx",bo@example.org\n', 2, "there is no submission"),
        ("conflicts", "s1,%s\n" % ("x" * 200_000), 1, "field larger than"),
        ("quotas", "bo@example.org,2\nbo@example.org,many\n", 2, "'many' is not a number"),
        ("quotas", "bo@example.org,2\ncy,1\n", 2, "there is no profile 'cy'"),
        ("quotas", "bo@example.org,many\n", 1, "'many' is not a number"),
        ("quotas", "empty,many\n", 1, "'many' is not a number"),
        ("quotas", "bo@exmaple.org,2\n", 1, "there is no profile 'bo@exmaple.org'"),
        ("quotas", "bo@example.org,1\nbo@example.org,2\n", 2, "another quota"),
        ("quotas", "bo@example.org,²\n", 1, "'²' is not a number"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(
    read: ReadFn, tmp_path: Path, option: str, text: str, line: int, reason: str
) -> None:
    """A line that cannot be used is an error with its number, as an ignored conflict might be assigned."""
    given = tmp_path / "given.csv"
    given.write_text(text, encoding="utf-8")
    with pytest.raises(BrokenRowError, match=reason) as refused:
        read(**{option: given})
    assert line == refused.value.line


def test_only_some_papers_of_a_profile_count(read: ReadFn) -> None:
    """Only the latest papers or those since a year count, and profiles without any are left out."""
    assert ["2"] == read(wanted=ProfileSelection(most=1)).profiles["~Ada_Quill1"]
    since = read(wanted=ProfileSelection(since=2019))
    assert ["Walls", "Lakes"] == [since.papers[each].title for each in since.profiles["~Ada_Quill1"]]
    assert {"bo@example.org", "empty", "~Cy1"} == set(since.left_out)


def test_a_paper_listed_twice_counts_once(read: ReadFn, tmp_path: Path) -> None:
    """The latest papers of a profile are different papers: two of the same text count as one."""
    own = [_paper("1", "Walls", year=2019), *(_paper(str(n), "Lakes", year=2023 - n) for n in (2, 3))]
    _write(tmp_path / "own" / "bo.jsonl", [*own, _paper("4", "Kelp")])
    program = read(tmp_path / "own", wanted=ProfileSelection(most=2))
    assert ["Walls", "Lakes"] == [program.papers[each].title for each in program.profiles["bo"]]


@pytest.mark.parametrize("name", ["list.json", "list.csv"])
def test_profiles_as_a_list_of_papers(read: ReadFn, tmp_path: Path, name: str) -> None:
    """A list names profiles and ids of papers in the corpora, and an unknown paper is an error."""
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
    _write(tmp_path / "s1.jsonl", [_paper("s1", "Moss"), _paper("a", "Kelp"), _paper("c", "Fog")])
    assert program.profiles == read(listed, corpora=[tmp_path / "s1.jsonl"]).profiles
    rows = {"json": json.dumps({"bo": ["s1", "a"]}), "csv": "who,what\nbo,s1\nbo,a\n"}
    (tmp_path / f"own.{name[5:]}").write_text(rows[name[5:]], encoding="utf-8")
    own = read(tmp_path / f"own.{name[5:]}", corpora=[tmp_path / "s1.jsonl"])
    assert (2, {("s1", "bo")}) == (len(own.profiles["bo"]), own.conflicts)
    with pytest.raises(InputError, match="--corpus"):
        read(listed)
    _write(tmp_path / "corpus.jsonl", [_paper("a", "Kelp")])
    with pytest.raises(InputError, match=f"{name}.*there is no paper 'c' in the files given with --corpus"):
        read(listed, corpora=[corpus])


def test_a_first_line_of_a_list_is_a_header_or_an_error(read: ReadFn, tmp_path: Path) -> None:
    """A first line with an unknown paper is an error if its profile has further lines, else a header."""
    corpus = _write(tmp_path / "corpus.jsonl", [_paper("a", "Kelp"), _paper("b", "Salt")])
    listed = tmp_path / "list.csv"
    listed.write_text("ada,aa\nbo,a\nada,b\n", encoding="utf-8")
    with pytest.raises(BrokenRowError, match="there is no paper 'aa'") as refused:
        read(listed, corpora=[corpus])
    assert 1 == refused.value.line
    listed.write_text("who,what\nada,b\n", encoding="utf-8")
    program = read(listed, corpora=[corpus])
    assert ({"ada": ["b"]}, [f"{listed}:1: read as a header: who, what"]) == (
        program.profiles,
        program.notes,
    )


@pytest.mark.parametrize("name", ["", "a\0b", "a\nb", "x" * 301])
def test_names_in_lists_are_printable(read: ReadFn, tmp_path: Path, name: str) -> None:
    """Names in lists must be printable, as for saved profiles."""
    corpus = _write(tmp_path / "corpus.jsonl", [_paper("a", "Kelp")])
    listed, table = tmp_path / "list.json", tmp_path / "list.csv"
    listed.write_text(json.dumps({"ada": ["a"], name: ["a"]}), encoding="utf-8")
    table.write_text(f'ada,a\n"{name}",a\n', encoding="utf-8")
    for given in (listed, table):
        with pytest.raises(InputError, match="1 to 300 printable characters"):
            read(given, corpora=[corpus])


def test_a_name_twice_in_a_json_list(read: ReadFn, tmp_path: Path) -> None:
    """A name twice in a JSON list is an error, even with its accents written in another form."""
    corpus = _write(tmp_path / "corpus.jsonl", [_paper("a", "Kelp"), _paper("b", "Salt")])
    listed = tmp_path / "list.json"
    for second in ("é", "e\u0301"):
        listed.write_text(f'{{"é": ["a"], "{second}": ["b"]}}', encoding="utf-8")
        with pytest.raises(InputError, match="'é' occurs twice"):
            read(listed, corpora=[corpus])


def test_names_of_files_lose_known_endings_alone(read: ReadFn, tmp_path: Path) -> None:
    """Only known endings of file names are removed; other files are ignored, and empty profiles reported."""
    folder = tmp_path / "more"
    names = ("ada.quill@uni.edu", "ada.smith@uni.edu", "J. R. Quill", "cy.umber")
    for number, name in enumerate(names):
        _write(folder / f"{name}.jsonl", [_paper(str(number), f"Title {number}")])
    (folder / "zoe.JSONL.gz").write_bytes(gzip.compress((folder / "cy.umber.jsonl").read_bytes()))
    for beside in ("README", "readme.txt", "Readme.md", ".DS_Store"):
        (folder / beside).write_text("What is here.")
    (folder / "dee.jsonl").touch()
    program = read(folder)
    assert {*names, "zoe"} == set(program.profiles)
    assert ["dee"] == program.left_out


def test_a_name_in_another_form_is_the_same_name(read: ReadFn, tmp_path: Path) -> None:
    """A name with separate accents, as macOS writes them in file names, is the same name."""
    folder, quotas = tmp_path / "more", tmp_path / "quotas.csv"
    _write(folder / "Jose\u0301 Quill.jsonl", [_paper("1", "Kelp")])
    quotas.write_text("José Quill,1\n", encoding="utf-8")
    assert {"José Quill": 1} == read(folder, quotas=quotas).quotas


def test_a_folder_that_would_lose_somebody(read: ReadFn, tmp_path: Path) -> None:
    """Two files for one name, a folder, a broken link and a name that is no UTF-8 are errors."""
    folder = tmp_path / "more"
    path = _write(folder / "ada.jsonl", [_paper("1", "Kelp")])
    other = folder / "ada.jsonl.gz"
    other.write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(InputError, match=r"ada\.jsonl and ada\.jsonl\.gz are both profiles of ada"):
        read(folder)
    other.unlink()
    (folder / "area chairs").mkdir()
    with pytest.raises(InputError, match="'area chairs' is not a file"):
        read(folder)
    (folder / "area chairs").rmdir()
    (folder / "bo.jsonl").symlink_to("nowhere")
    with pytest.raises(InputError, match=r"'bo\.jsonl' is not a file"):
        read(folder)
    (folder / "bo.jsonl").unlink()
    path.rename(os.fsdecode(os.fsencode(folder) + b"/ad\xe0.jsonl"))
    with pytest.raises(InputError, match=r"'ad\\udce0\.jsonl': The name of a profile .* in UTF-8"):
        read(folder)


def test_a_paper_of_a_submissions_title_is_that_submission(read: ReadFn, tmp_path: Path) -> None:
    """A paper with a submission's title is that submission, even with another text or outside the years."""
    folder = tmp_path / "more"
    preprint = _paper("arxiv:1", "BELLS!", year=2018) | {"abstract": "An earlier text."}
    _write(folder / "dee.jsonl", [preprint, _paper("2", "Kelp", year=2020)])
    program = read(folder)
    assert {("s2", "dee")} == program.conflicts
    assert ["s2", "2"] == program.profiles["dee"]
    latest = read(folder, wanted=ProfileSelection(most=1))
    assert ({("s2", "dee")}, ["2"]) == (latest.conflicts, latest.profiles["dee"])


def test_papers_without_a_year(read: ReadFn, tmp_path: Path) -> None:
    """Papers without a year are never since a year and are counted; they come last among the latest."""
    folder = tmp_path / "more"
    papers = [_paper("1", "Fog"), _paper("2", "Kelp", year=1990), _paper("3", "Salt")]
    _write(folder / "dee.jsonl", papers)
    since = read(folder, wanted=ProfileSelection(since=1950))
    assert (["2"], 2) == (since.profiles["dee"], since.undated)
    assert (["1", "2"], 0) == (
        (latest := read(folder, wanted=ProfileSelection(most=2))).profiles["dee"], latest.undated
    )  # fmt: skip


@pytest.mark.parametrize("text", ["[]", "{}x", '{"ada": {}}', '{"ada": "a"}', '{"ada": [1]}', "{"])
def test_a_json_list_of_another_shape(read: ReadFn, tmp_path: Path, text: str) -> None:
    """A JSON list of another shape is an error."""
    listed = tmp_path / "list.json"
    listed.write_text(text, encoding="utf-8")
    with pytest.raises(CorpusFormatError):
        read(listed, corpora=[_write(tmp_path / "corpus.jsonl", [_paper("a", "Kelp")])])


def test_profiles_have_a_maximum(read: ReadFn, tmp_path: Path) -> None:
    """Files and names in a list are both limited by ``max_profiles``."""
    corpus, listed = _write(tmp_path / "corpus.jsonl", [_paper("a", "Kelp")]), tmp_path / "list.csv"
    listed.write_text("ada,a\nbo,a\n", encoding="utf-8")
    with pytest.raises(InputError, match="has 4 profiles, more than 1"):
        read(max_profiles=1)
    with pytest.raises(InputError, match="has 2 profiles, more than 1"):
        read(listed, corpora=[corpus], max_profiles=1)


def test_submissions_with_one_id(tmp_path: Path) -> None:
    """Submissions with the id of another are an error with the place of both."""
    files = [_write(tmp_path / f"{name}.jsonl", [_paper("1", name)]) for name in ("a", "b")]
    message = f"1 of 2 submissions .*: {files[1]}:1: duplicate id '1', first seen at {files[0]}:1"
    with pytest.raises(InputError, match=message):
        read_program(files, tmp_path)


def test_nothing_to_match(read: ReadFn, tmp_path: Path) -> None:
    """Missing profiles or a missing folder are errors."""
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match="there is no profile"):
        read(tmp_path / "none")
    with pytest.raises(StorageError):
        read(tmp_path / "missing")
    with pytest.raises(InputError, match="there is no profile"):
        read(wanted=ProfileSelection(since=2100))
