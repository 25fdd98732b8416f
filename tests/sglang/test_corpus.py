"""Logs of real servers: those recorded for this project, and a folder of others named by SPECDECK_CORPUS.

The folder holds `<name>.log` files and an `answers.toml` with a table `[<name>.split.<rank>]` of GiB per segment.
"""

import os
import tomllib
from pathlib import Path

import pytest

from tui.facts import DecodeBatch, Problem, ServerArgs, ServerReady, StartupTimings, Traceback

RECORDED = sorted((Path(__file__).parents[1] / "fixtures" / "sglang-0.5.23").glob("**/server.log"))
CORPUS = os.environ.get("SPECDECK_CORPUS")
_SEGMENTS = ("free_before", "base", "draft", "kv_base", "kv_draft", "state", "graphs", "free")

# What each recording must show: codes of problems that name the cause, and the exception.
_CAUSES = {
    "bad-flag": ("bad-flag", None),
    "bad-choice": ("bad-flag", None),
    "renamed-flag": ("bad-flag", None),
    "budget-refused": ("budget-refused", "ValueError"),
    "budget-refused-eagle3": ("budget-refused", "ValueError"),
    "wrong-draft": ("process-exception", "AttributeError"),
    "port-in-use-http": ("port-in-use", None),
    "port-in-use-sglang": ("port-in-use", None),
    "port-in-use-silent": ("port-in-use", None),
    "tiny-pool": ("pool-below-context", None),
    "killed-detokenizer": ("subprocess-crashed", None),
    "killed-scheduler": ("subprocess-crashed", None),
}


def _text(path):
    return path.read_bytes().decode("utf-8", "replace")


@pytest.mark.skipif(not RECORDED, reason="no recordings in this checkout")
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.parent.name)
def test_recording(path, read, split):
    facts = read(_text(path))
    name = path.parent.name
    if name in _CAUSES:
        code, exception = _CAUSES[name]
        assert code in [fact.code for fact in facts if isinstance(fact, Problem)]
        if exception:
            assert exception in [fact.exception for fact in facts if isinstance(fact, Traceback)]
    args = [fact for fact in facts if isinstance(fact, ServerArgs)]
    if any(isinstance(fact, ServerReady) for fact in facts):
        assert args
        assert args[0].resolved
        assert len(args[0].args) > 400
        assert any(isinstance(fact, StartupTimings) for fact in facts)
        ranks = split(_text(path))
        assert len(ranks) == args[0].args["tp_size"] * args[0].args["dp_size"]
        drafted = args[0].args["speculative_algorithm"] in ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE")
        for rank in ranks.values():
            assert rank.base is not None
            assert rank.kv_base is not None
            assert (rank.draft is not None) is drafted
            assert (rank.kv_draft is not None) is drafted
        decodes = [fact for fact in facts if isinstance(fact, DecodeBatch)]
        speculative = args[0].args["speculative_algorithm"] is not None
        assert all((fact.accept_len is not None) is speculative for fact in decodes)


@pytest.mark.skipif(CORPUS is None, reason="SPECDECK_CORPUS names no folder")
def test_corpus(split):
    folder = Path(CORPUS or "")
    answers = tomllib.loads((folder / "answers.toml").read_text())
    wrong = []
    for name, answer in answers.items():
        ranks = split(_text(folder / f"{name}.log"))
        for rank, want in answer.get("split", {}).items():
            got = ranks[rank]
            graphs = [gib for gib in (got.graphs_base, got.graphs_draft) if gib is not None]
            for segment in _SEGMENTS:
                value = (sum(graphs) if graphs else None) if segment == "graphs" else getattr(got, segment)
                expected = want.get(segment)
                if value is None or expected is None:
                    agree = value is expected
                else:
                    agree = abs(value - expected) <= 0.02
                if not agree:
                    wrong.append((name, rank, segment, expected, value))
    assert wrong == []


@pytest.mark.skipif(CORPUS is None, reason="SPECDECK_CORPUS names no folder")
def test_corpus_is_readable(read):
    for path in sorted(Path(CORPUS or "").glob("*.log")):
        assert isinstance(read(_text(path)), list)
