"""SGLang's own `--config` file: what it says counts as far as the command line does not say otherwise."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.server.commandline import command_line, flag_value, secrets_of
from tui.server.configfile import effective_words
from tui.server.exporter import export_yaml
from tui.server.profiles import Profile, ProfileError, parse

FILE = """\
# how this box serves
---
model-path: /models/m   # a comment
host: "0.0.0.0"
port: 31234
api_key: 'it''s#secret'
trust-remote-code: true
skip-server-warmup: false
cuda-graph-bs: [1, 2, 4]
lora-paths:
- a=/x
- b=/y
json-model-override-args: {"a": 1}
speculative-algorithm:
chat-template: |
  port: 9
  some text
mem-fraction-static: 0.85
"""


def words(folder: Path, text: str, *more: str) -> tuple[str, ...]:
    (folder / "c.yaml").write_text(text)
    return effective_words(("sglang", "serve", *more, "--config", "c.yaml"), folder)


def test_a_file_of_flags(tmp_path: Path) -> None:
    found = words(tmp_path, FILE)
    expected = {
        "model-path": "/models/m", "host": "0.0.0.0", "port": "31234", "api-key": "it's#secret",
        "lora-paths": "a=/x", "json-model-override-args": '{"a": 1}', "mem-fraction-static": "0.85",
        "speculative-algorithm": "", "cuda-graph-bs": "1", "chat-template": None, "skip-server-warmup": None,
    }  # fmt: skip
    assert {name: flag_value(found, name) for name in expected} == expected
    assert "--trust-remote-code" in found
    assert found[found.index("--lora-paths") + 1 :][:2] == ("a=/x", "b=/y")


def test_the_command_line_goes_before_the_file(tmp_path: Path) -> None:
    assert flag_value(words(tmp_path, FILE, "--port", "1"), "port") == "1"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("port 30000\n", "c.yaml, line 1 is no `flag: value`"),
        ("host: a\n- port\n", "c.yaml, line 2 is no `flag: value`"),
        ("host: 'a\n", "c.yaml, line 1: a quote is not closed"),
        ("host:\n\tport: 1\n", "c.yaml, line 2: YAML is not indented by tabs"),
        ("{port: 1", "neither JSON nor"),
        ("\0\1", "line 1 is no"),
    ],
)
def test_a_malformed_file_is_one_sentence(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ValueError, match="--config: ") as caught:
        words(tmp_path, text)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_readable_file(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "c.txt").write_text("port: 1")
    for name, told in {
        "gone.yaml": "No such file", "folder.yaml": "is no file", "pipe.yaml": "is no file",
        "bytes.yaml": "not UTF-8", "c.txt": "must be named",
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=told):
            effective_words(("sglang", "serve", "--config", name), tmp_path)
    for argv in (("s", "--config"), ("s", "--config", "a.yaml", "--config", "b.yaml")):
        with pytest.raises(ValueError, match="name one file, once"):
            effective_words(argv, tmp_path)


def test_files_that_others_read_are_left_alone(tmp_path: Path) -> None:
    for argv in (("docker", "run", "image", "sglang", "serve", "--config", "/inside.yaml"), ("s", "--config=c.yaml")):
        assert effective_words(argv, tmp_path) == argv


@given(st.text())
@settings(max_examples=200, deadline=None)
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.getbasetemp()
    try:
        (folder / "c.yaml").write_text(text, encoding="utf-8", newline="")
    except UnicodeEncodeError:
        return
    told = ""
    try:
        found = effective_words(("s", "--config", "c.yaml"), folder)
    except ValueError as error:
        found, told = (), str(error)
    assert found[-3:] == ("s", "--config", "c.yaml") or told.startswith("--config: ")


@given(
    st.dictionaries(
        st.sampled_from(["alpha", "beta-x", "gamma"]),
        st.integers() | st.booleans() | st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z"))),
    )
)
@settings(max_examples=100, deadline=None)
def test_what_an_export_wrote_is_read_back(tmp_path_factory: pytest.TempPathFactory, knobs: dict[str, object]) -> None:
    profile = Profile(name="p", command=("sglang", "serve"), knobs=knobs)
    path = tmp_path_factory.getbasetemp() / "exported.yaml"
    path.write_text(export_yaml(profile))
    found = effective_words(("s", "--config", str(path)), "/")
    for name, value in knobs.items():
        if isinstance(value, bool):
            assert (f"--{name}" in found) is value
        else:
            assert flag_value(found, name) == str(value)


def profile(folder: Path, text: str) -> Profile:
    (folder / "c.yml").write_text(text)
    lines = ["[server]", 'command = ["sglang", "serve"]', "[knobs]", f"config = {json.dumps('./c.yml')}"]
    return parse("\n".join(lines) + "\n", folder / "p.toml")


def test_a_profile_listens_where_its_file_says(tmp_path: Path) -> None:
    command = command_line(profile(tmp_path, "host: 0.0.0.0\nport: 31234\napi-key: s3cret-key\n"), environ={})
    assert (command.host, command.port, command.url) == ("0.0.0.0", 31234, "http://127.0.0.1:31234")
    assert command.api_key == "s3cret-key"
    assert secrets_of(command) == ["s3cret-key"]
    assert "s3cret-key" not in " ".join(command.argv)
    assert "s3cret-key" not in repr(command)


@pytest.mark.parametrize("text", ["port: none\n", "port\n"])
def test_a_profile_with_a_malformed_file_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ProfileError, match=r"p\.toml: "):
        command_line(profile(tmp_path, text), environ={})
