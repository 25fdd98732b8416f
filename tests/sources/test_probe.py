"""The probe: a stand-in package plays SGLang in a real interpreter, so the script, the cache and time-outs are real."""

import json
import os
import stat
import sys
import textwrap
from pathlib import Path

import pytest

from tui.sglang.catalogue import probed_catalogue
from tui.sources import probe as probing
from tui.sources.probe import ProbeError, cached, find_interpreter, probe, resolved_arguments

SERVER_ARGS = """
import argparse, enum, os, sys, time
print("noise on stdout, as imports print it")
print("more noise", file=sys.stderr)
if os.environ.get("HANG"):
    time.sleep(60)
if os.environ.get("NEEDS_GPU") and os.environ.get("CUDA_VISIBLE_DEVICES") == "":
    raise RuntimeError("No accelerator is available.")

class Kind(enum.Enum):
    A = "a"

class ServerArgs:
    model_path = None
    mem_fraction_static = None

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--mem-fraction-static", type=float, help="A share, 50%% of it.")
        parser.add_argument("--tp-size", "--tensor-parallel-size", type=int, default=1)
        parser.add_argument("--quiet", action="store_true", help="Deprecated. Say nothing.")
        parser.add_argument("--kind", choices={"b", "a"}, default=Kind.A)
        parser.add_argument("--sizes", nargs="+", type=int)
        parser.add_argument("--overlap", action=argparse.BooleanOptionalAction, default=True)

def prepare_server_args(words):
    parser = argparse.ArgumentParser(prog="sglang serve")
    ServerArgs.add_cli_args(parser)
    args = parser.parse_args(words)
    args.mem_fraction_static = args.mem_fraction_static or 0.88
    return args
"""
TORCH = """
__version__ = "2.9.1+cu129"

class version:
    cuda = "12.9"

class _C:
    @staticmethod
    def _cuda_getArchFlags():
        return "sm_80 sm_90 sm_90a"
"""


@pytest.fixture
def interpreter(tmp_path, monkeypatch):
    """A Python that finds the stand-in packages: a file named python3 that starts this one."""
    site = tmp_path / "site"
    (site / "sglang" / "srt").mkdir(parents=True)
    (site / "sglang" / "__init__.py").write_text('__version__ = "0.5.9"\n')
    (site / "sglang" / "srt" / "__init__.py").write_text("")
    (site / "sglang" / "srt" / "server_args.py").write_text(SERVER_ARGS)
    (site / "torch.py").write_text(TORCH)
    python = tmp_path / "venv" / "bin" / "python3"
    python.parent.mkdir(parents=True)
    count = tmp_path / "runs"
    python.write_text(
        textwrap.dedent(
            f"""\
            #!/bin/sh
            echo run >> {count}
            PYTHONPATH={site} exec {sys.executable} "$@"
            """
        )
    )
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("SPECDECK_CACHE_DIR", str(tmp_path / "cache"))
    return python


def runs(interpreter: Path) -> int:
    file = interpreter.parents[2] / "runs"
    return len(file.read_text().splitlines()) if file.exists() else 0


def test_it_tells_version_flags_and_architectures(interpreter):
    found = probe(interpreter)
    assert (found.version, found.torch_version, found.cuda_version) == ("0.5.9", "2.9.1+cu129", "12.9")
    assert found.arch_list == ("sm_80", "sm_90", "sm_90a")
    catalogue = probed_catalogue(found.answer)
    assert (catalogue.version, catalogue.complete) == ("0.5.9", True)
    assert [flag.name for flag in catalogue.flags] == [
        "kind", "mem-fraction-static", "overlap", "quiet", "sizes", "tp-size",
    ]  # fmt: skip
    by_name = {flag.name: flag for flag in catalogue.flags}
    assert by_name["mem-fraction-static"].type == "float"
    assert by_name["mem-fraction-static"].help == "A share, 50% of it."
    assert by_name["tp-size"].aliases == ("tensor-parallel-size",)
    assert by_name["tp-size"].default == 1
    assert (by_name["quiet"].type, by_name["quiet"].deprecated) == ("bool", True)
    assert (by_name["kind"].choices, by_name["kind"].default) == (("a", "b"), "a")
    assert (by_name["sizes"].type, by_name["sizes"].many) == ("int", True)
    assert (by_name["overlap"].type, by_name["overlap"].negative) == ("bool", True)


def test_the_answer_is_kept_until_sglang_or_interpreter_change(interpreter):
    assert cached(interpreter) is None
    first = probe(interpreter)
    assert probe(interpreter) == first == cached(interpreter)
    assert runs(interpreter) == 1
    metadata = interpreter.parents[1] / "lib" / "python3.11" / "site-packages" / "sglang-0.5.10.dist-info"
    metadata.mkdir(parents=True)
    assert cached(interpreter) is None
    probe(interpreter)
    assert runs(interpreter) == 2
    os.utime(interpreter, (1, 1))
    assert cached(interpreter) is None
    probe(interpreter)
    probe(interpreter, refresh=True)
    assert runs(interpreter) == 4


@pytest.mark.parametrize("text", ["", "[]", "{", '{"key": 1}', '{"key": null, "answer": []}'])
def test_a_damaged_cache_is_as_none(interpreter, text):
    probe(interpreter)
    (file,) = (interpreter.parents[2] / "cache" / "probe").iterdir()
    file.write_text(text)
    assert cached(interpreter) is None
    assert probe(interpreter).version == "0.5.9"


def test_a_cache_that_cannot_be_written_costs_only_time(interpreter, monkeypatch, tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("")
    monkeypatch.setenv("SPECDECK_CACHE_DIR", str(blocker / "below"))
    assert probe(interpreter).version == "0.5.9"
    assert cached(interpreter) is None


def test_gpus_are_hidden_unless_the_build_will_not_have_it(interpreter):
    assert probe(interpreter).version == "0.5.9"
    assert runs(interpreter) == 1
    found = probe(interpreter, env={**os.environ, "NEEDS_GPU": "1"}, refresh=True)
    assert found.version == "0.5.9"
    assert runs(interpreter) == 3


def test_one_that_hangs_is_ended(interpreter):
    with pytest.raises(ProbeError, match=r"did not answer within 1\.5 s"):
        probe(interpreter, env={**os.environ, "HANG": "1"}, timeout_s=1.5)
    assert runs(interpreter) == 1


def test_an_interpreter_without_sglang_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("SPECDECK_CACHE_DIR", str(tmp_path))
    with pytest.raises(ProbeError, match="No module named 'sglang'"):
        probe(Path(sys.executable))
    with pytest.raises(ProbeError, match="cannot be run"):
        probe(tmp_path / "nothing")


def test_resolved_arguments_and_a_refused_command_line(interpreter):
    found = resolved_arguments(interpreter, ["--tp-size", "2"])
    assert (found["tp_size"], found["mem_fraction_static"]) == (2, 0.88)
    with pytest.raises(ProbeError, match="unrecognized arguments: --nonsense"):
        resolved_arguments(interpreter, ["--nonsense"])


def test_control_characters_of_the_last_line_are_not_passed_on(interpreter):
    with pytest.raises(ProbeError) as told:
        resolved_arguments(interpreter, ["--tp-size", "\x1b[31m"])
    assert "\x1b" not in str(told.value)


@pytest.mark.parametrize(
    "head",
    ["#!{python}", "#!/usr/bin/env python3", "#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''"],
)
def test_a_console_script_names_its_python(tmp_path, interpreter, head):
    script = tmp_path / "sglang"
    script.write_text(head.format(python=interpreter) + "\nimport sys\n")
    script.chmod(0o755)
    found = find_interpreter(["./sglang", "serve"], cwd=tmp_path, env=os.environ)
    assert found.name.startswith("python")
    if "{python}" in head:
        assert found == interpreter


def test_a_python_is_itself_though_it_is_a_link(tmp_path):
    link = tmp_path / "python3"
    link.symlink_to(sys.executable)
    # A virtual environment's Python is a link: followed, it would lose the environment.
    assert find_interpreter([str(link), "-m", "sglang.launch_server"], cwd=tmp_path, env={}) == link


@pytest.mark.parametrize("command", [["docker-nowhere", "run"], ["/bin/sh", "-c", "x"], []])
def test_what_is_no_python_cannot_be_asked(tmp_path, command):
    with pytest.raises(ProbeError, match="cannot be asked"):
        find_interpreter(command, cwd=tmp_path, env={"PATH": "/nonexistent"})


def test_the_script_needs_nothing_of_specdeck():
    text = Path(probing.probe_script.__file__).read_text()
    assert "tui" not in json.dumps([line for line in text.splitlines() if "import" in line])
