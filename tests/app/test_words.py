"""One glossary, and nothing on the screen that it leaves out."""

import ast
import re
from pathlib import Path

import pytest

from tui.app.run_table import columns
from tui.app.screens.reader import help_lines
from tui.app.widgets.legend import ENTRIES
from tui.app.widgets.plot import SERIES
from tui.app.words import GLOSSARY
from tui.snapshot import SEGMENTS, Source

TUI = Path(__file__).parents[2] / "tui"
# Where the words of the screen are written: its own, and the sentences that it shows.
ROOMS = ("app", "session", "forecast", "feed", "server", "runs", "sglang/diagnosis", "sglang/economics.py")
ABBREVIATION = re.compile(r"\b(?:[A-Z]{2,}[A-Za-z0-9]*|[GM]iB|tok/s)\b(?![_=(])")
# Known to whoever starts servers by hand, or the name of a thing.
PLAIN = frozenset(
    ("CPU", "RAM", "HTTP", "JSON", "TOML", "YAML", "UTF", "DNS", "PATH", "SVG", "SSH", "INFO", "NVIDIA", "GB", "SGLang",
     "FP8", "AMX", "NVCC", "NVRM", "LFS", "OSC", "URL", "PID", "ID")
)  # fmt: skip
PLACEHOLDERS = frozenset(("FILE", "PROFILE", "FROM", "TO", "STEP", "VALUE", "NAME", "RUN"))
PATTERNS = frozenset(("log_lines.py",))  # what is looked for in a log, not said
# Terms of the trade that the sentences use.
TERMS = (
    "fraction", "slack", "floor", "budget", "activations", "request table", "tightest", "plan", "batch", "prefill",
    "decode", "step", "accept length", "break even", "baseline", "retracted", "verdict", "keeper", "profile", "knob",
    "sweep", "workload", "replay", "KV pool", "DP rank", "rank", "draft", "graphs", "capture",
)  # fmt: skip


def heads():
    """Every word or phrase that has an entry, in lower case."""
    return {word.strip().lower() for head, _ in GLOSSARY for word in head.split(",")}


def literals():
    """(file, text) of every string with words in it that is no docstring."""
    for room in ROOMS:
        for path in [TUI / room] if room.endswith(".py") else (TUI / room).rglob("*.py"):
            tree = ast.parse(path.read_text())
            owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
            docs = {id(node.body[0].value) for node in ast.walk(tree)
                    if isinstance(node, owners) and node.body and isinstance(node.body[0], ast.Expr)}  # fmt: skip
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
                    yield path.name, node.value


def explained(word):
    """Whether an abbreviation has an entry, be it with a rank's number or in the plural, or stands in one."""
    known = heads() | {found.lower() for _, text in GLOSSARY for found in ABBREVIATION.findall(text)}
    bare = re.sub(r"\d+$", "", word).removesuffix("s")
    return word.lower() in known or bare.lower() in known or bare in PLAIN | {"GPU"}


def test_every_abbreviation_that_the_screen_says_is_in_the_glossary():
    missing = {
        word: name
        for name, text in literals()
        if " " in text and name not in PATTERNS
        for word in ABBREVIATION.findall(text)
        if word not in PLAIN | PLACEHOLDERS and not explained(word)
    }
    assert not missing


@pytest.mark.parametrize("term", TERMS)
def test_every_term_that_the_sentences_use_is_in_the_glossary(term):
    assert any(term.lower() in text.lower() for name, text in literals() if name != "words.py"), "nobody says it"
    assert term.lower() in heads()


def test_the_names_of_segments_columns_and_curves_are_in_the_glossary():
    names = {name for _, name, _ in ENTRIES} | set(SEGMENTS) | {series.name for series in SERIES}
    names |= {source.value for source in Source} | {"tok/s", "running", "queued", "phase", "total", "live", "budget"}
    names |= {title for title, *_ in columns(200)}
    plain = {"unknown", "queue", "started", "outcome", "ready", "changed, note", "kv tokens", "tok/s@batch", ""}
    assert {name.lower() for name in names} - plain <= heads()


def test_no_word_is_explained_twice_and_each_in_sentences():
    words = [word.strip().lower() for head, _ in GLOSSARY for word in head.split(",")]
    assert sorted(words) == sorted(set(words))
    assert all(text.endswith(".") for _, text in GLOSSARY)


@pytest.mark.parametrize("width", [60, 76, 98])
def test_help_shows_all_of_it_whole(width):
    said = "\n".join("".join(text for text, _ in line) for line in help_lines((), "", width, "keymap.toml"))
    squeezed = " ".join(said.split())
    for head, text in GLOSSARY:
        assert head.split(",")[0].split()[0] in squeezed
        assert text.split()[-1] in squeezed
    assert all(len(row) <= width for row in said.split("\n"))
