"""The page on architecture names the modules that a paper passes from a corpus to a generation."""

import re
import sys
import threading
from pathlib import Path
from types import FrameType

from models.encoder import Encoder
from tests.support.builds import ROOT, WHALES, build_quietly, write_corpus

PAGE = ROOT / "docs" / "explanation" / "architecture.md"


def test_the_walk_of_a_paper_names_what_a_build_runs(tmp_path: Path, hashing: Encoder) -> None:
    """Every named module runs in a build of one paper, and no other outside the named folders does."""
    (walk,) = re.findall(r"^\*\*A paper\*\*.*?\n\n", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    named, folders = ({*re.findall(rf"`(indexer/[\w/]+{end})`", walk)} for end in (r"\.py", "/"))
    corpus, run = write_corpus(tmp_path / "c.jsonl", [{**WHALES}]), set[str]()

    def note(frame: FrameType, event: str, _: object) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(f"{ROOT}/indexer/"):
            run.add(Path(path).relative_to(ROOT).as_posix())

    build_quietly(corpus, tmp_path / "first", hashing)  # imports every module
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        build_quietly(corpus, tmp_path / "second", hashing)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert set() == named - run
    assert set() == {path for path in run - named if not path.startswith(tuple(folders))}
