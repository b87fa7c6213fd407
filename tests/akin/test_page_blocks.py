"""Tests that every code block in the documentation is run or checked by a test, or listed as an exception."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.builds import ROOT
from tests.support.documents import (
    NOT_RUN,
    PAGES,
    RUN_IN_TURN,
    Block,
    block_lines,
    blocks_of,
    client_examples,
    snippets,
)

SHOWN = [*PAGES, ROOT / "akin" / "demo" / "README.md", *sorted((ROOT / "models" / "weights").glob("*.md"))]
BLOCKS = [block for page in SHOWN for block in blocks_of(page)]
HOW_TO = ROOT / "docs" / "how-to"
TRAINED = {HOW_TO / name for name in ("training.md", "functions.md", "match.md")}


def is_run_in_turn(block: Block) -> bool:
    """Return whether a line of the block is on a page whose lines are run in order."""
    lines = [line for line in block_lines(block.page) if not line.startswith(NOT_RUN)]
    shell = block.language in {"", "sh", "bash", "console"}
    return shell and block.page in RUN_IN_TURN and any(line.split("\n")[0] in block.text for line in lines)


def is_named(*starts: str) -> Callable[[Block], bool]:
    """Return a predicate for blocks of a page with a beginning as in ``starts``: ``PAGE: WORDS``."""
    return lambda block: any(
        block.page.relative_to(ROOT).as_posix() == start.partition(": ")[0]
        and block.text.startswith(start.partition(": ")[2])
        for start in starts
    )


# The test that runs or checks a block, as FILE::TEST, and a predicate of its blocks.
RUN_BY: dict[str, Callable[[Block], bool]] = {
    "tests/akin/test_snippets.py::test_the_documents_snippets_run": lambda block: (
        block.language == "python" and f"{block.text}\n" in snippets()
    ),
    "tests/akin/client/test_client.py::test_the_documented_example_runs": lambda block: (
        f"{block.text}\n" in client_examples()
    ),
    "tests/akin/test_document_lines.py::test_a_pages_lines_run": is_run_in_turn,
    "tests/akin/test_page_blocks.py::test_json_is_json": lambda block: block.language == "json",
    "tests/akin/test_page_blocks.py::test_every_target_of_make_is_there": lambda block: (
        block.page.parent == ROOT and all(line.startswith("make ") for line in block.text.splitlines())
    ),
    "tests/akin/test_benchmark_lines.py::test_a_benchmark_takes_what_a_page_types": lambda block: (
        block.text.startswith("python -m benchmarks")
    ),
    "tests/test_packages.py::test_the_lines_of_the_first_page_build_and_install": is_named(
        "README.md: pip wheel"
    ),
    "tests/akin/test_adding_pages.py::test_the_reader_of_the_page_reads_its_format": is_named(
        'docs/adding/reader.md: """Example Index', "docs/adding/reader.md: READERS"
    ),
    "tests/akin/test_adding_pages.py::test_the_collection_of_the_page_is_one": is_named(
        'docs/adding/collection.md: """Example Relevance'
    ),
    "tests/akin/test_adding_pages.py::test_the_backend_of_the_page_has_the_methods_of_all": is_named(
        "docs/adding/backend.md: class MyIndex"
    ),
    "tests/docker/test_deploy_page.py::test_compose_commands_name_services_that_there_are": is_named(
        *(f"docs/how-to/deploy.md: {start}" for start in ("cp .env.example", "export COMPOSE_FILE"))
    ),
    "tests/docker/test_deploy_page.py::test_the_first_search_sends_a_key_and_a_query": is_named(
        "docs/how-to/deploy.md: curl -s http://127.0.0.1:8000/v1/search"
    ),
    "tests/docker/test_deploy_page.py::test_models_are_mounted_into_what_reads_them": is_named(
        "docs/how-to/deploy.md: services:"
    ),
    "tests/docker/test_deploy_page.py::test_commands_beside_the_unit_run_as_it_does": is_named(
        *(f"docs/how-to/deploy.md: {start}" for start in ("AKIN_CATALOG_URL=", "as_akin() {"))
    ),
    "tests/docker/test_proxies.py::test_systemd_takes_the_unit": is_named("docs/how-to/deploy.md: [Unit]"),
    "tests/docker/test_proxies.py::test_a_proxy_passes_on_page_and_api": is_named(
        *(f"docs/how-to/deploy.md: {start}" for start in ("upstream akin {", "akin.example.org {"))
    ),
    "tests/docker/test_deploy_page.py::test_the_pods_fit_the_image": is_named(
        "docs/how-to/deploy.md: apiVersion: v1\nkind: Service"
    ),
    "tests/docker/test_ray_cluster.py::test_the_manifests_have_the_fields_that_there_are": is_named(
        "docs/how-to/deploy.md: apiVersion: ray.io/v1"
    ),
    "tests/docker/test_deploy_page.py::test_a_backup_is_restored_whole": is_named(
        *(
            f"docs/how-to/deploy.md: docker compose {start}"
            for start in ("run --rm --no-deps", "stop service")
        )
    ),
    "tests/akin/training/test_training_lines.py::test_an_encoder_is_trained_as_the_page_says": lambda block: (
        block.page in TRAINED
        and block.text.startswith(("akin train", "akin evaluate", "akin match", "encoder"))
        and not is_named("docs/how-to/functions.md: akin evaluate")(block)
    ),
    "tests/akin/training/test_training_lines.py::test_functions_are_trained_as_the_page_says": is_named(
        "docs/how-to/functions.md: [point-out-gap]"
    ),
}
# Blocks that no test runs, as PAGE: BEGINNING, with the reason or the test that covers the same.
NOT_CODE = "a drawing, nothing to type"
A_RECORD = (
    "how a figure was measured; needs the collection: tests/evaluation/test_evaluate_cli.py has the command"
)
LEFT = {
    "CONTRIBUTING.md: akin  ->  evaluation": NOT_CODE,
    "docs/explanation/architecture.md: ": NOT_CODE,
    "docs/how-to/functions.md: phrase list": NOT_CODE,
    "docs/how-to/functions.md: akin evaluate": A_RECORD,
    "docs/how-to/training.md: texts.jsonl": "the layout of files, which evaluation/sets/pairs.py reads",
    "docs/how-to/training.md: [facets]": "tests/akin/training/test_training_heads.py has such tables",
    "docs/how-to/deploy.md: sudo python3.11": "needs another machine: tests/trials/test_containers.py "
    "installs from the same lock in an empty folder",
    "docs/how-to/deploy.md: export RAY_AUTH_MODE": "needs three machines: tests/support/servers/ray.py",
    "docs/how-to/programs.md: akin worker": "never ends: tests/trials/outages/test_batch_workers.py",
    "docs/adding/encoder.md: akin convert": "needs a checkpoint: tests/models/encoders/test_checkpoints.py",
    "docs/adding/reader.md: pytest": "the contract itself, which the tests run",
    "docs/adding/tagger.md: akin train": "tests/akin/training/test_training_facets.py trains one",
    "docs/decisions/measuring/reviewers.md: akin evaluate": A_RECORD,
    "docs/how-to/serving.md: akin evaluate": A_RECORD,
    "docs/measured/evaluation.md: akin evaluate": A_RECORD,
    "docs/measured/measurements.md: akin ": A_RECORD,
    "models/weights/README.md: ": "how the weights were trained; needs data that is not ours",
    "models/weights/akin-minilm.md: ": "a record of the training run, written by `akin train`",
}


def covering(block: Block) -> list[str]:
    """Return the names of the tests that cover a block, or else of the reasons for running none."""
    reasons = [f"LEFT[{start!r}]" for start in LEFT if is_named(start)(block)]
    return [name for name, covers in RUN_BY.items() if covers(block)] or reasons


def test_every_block_is_run_or_it_is_said_why_not() -> None:
    """Every block is covered by a test or listed in ``LEFT``."""
    assert len(BLOCKS) > 70
    assert [] == [str(block) for block in BLOCKS if not covering(block)]


def test_every_reason_is_that_of_a_block() -> None:
    """Every entry of ``LEFT`` and ``RUN_BY`` is needed by a block."""
    used = {each for block in BLOCKS for each in covering(block)}
    assert [] == [start for start in LEFT if f"LEFT[{start!r}]" not in used]
    assert [] == [name for name in RUN_BY if name not in used]


def test_every_test_named_is_there() -> None:
    """The tests in ``RUN_BY`` and the files in ``LEFT`` exist."""
    for name in RUN_BY:
        file, _, function = name.partition("::")
        assert f"def {function}(" in (ROOT / file).read_text(encoding="utf-8")
    named = re.findall(r"[a-z]+/[\w/]+\.py", " ".join(LEFT.values()))
    assert [] == [name for name in named if not (ROOT / name).exists()]


@pytest.mark.parametrize("block", [each for each in BLOCKS if each.language == "json"], ids=str)
def test_json_is_json(block: Block) -> None:
    """Every JSON block is one value, or one per line."""
    for line in block.text.splitlines() if block.text.count("\n{") else [block.text]:
        json.loads(line)


def targets(text: str) -> set[str]:
    """Return the targets of make that a page names, in a block or between backticks."""
    fences = r"^ *```\w*\n(.*?)^ *```"
    inline = re.findall(r"`([^`]+)`", re.sub(fences, "", text, flags=re.M | re.S))
    code = "\n".join([*re.findall(fences, text, re.M | re.S), *inline])
    return {name for words in re.findall(r"^make((?: [a-z-]+)+)", code, re.M) for name in words.split()}


def test_every_target_of_make_is_there() -> None:
    """Every target of make that a page names exists in the Makefile."""
    there = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    named = {name for page in SHOWN for name in targets(page.read_text(encoding="utf-8"))}
    assert len(named) > 8
    assert set() == named - there


def test_blocks_and_targets_are_found(tmp_path: Path) -> None:
    """Fenced, listed and indented blocks are found, but not the continued text of a list item."""
    page = ROOT / "docs" / "made-up.md"
    text = (
        "A:\n\n    akin a\n    b\n\n- C\n\n    is text\n\n  ```json\n  {}\n  ```\n\nD `make test`:\n\n    e\n"
    )
    made = tmp_path / "page.md"
    made.write_text(text, encoding="utf-8")
    found = [(block.line, block.language, block.text) for block in blocks_of(made)]
    assert [(3, "indented", "akin a\nb"), (10, "json", "{}"), (16, "indented", "e")] == found
    assert {"test", "lock"} == targets(f"{text}```sh\nmake lock  # then\n```\nto make other things")
    assert "docs/made-up.md:3 [sh] ls" == str(Block(page, 3, "sh", "\nls\n"))
