import argparse
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.server.commandline import command_line, find_executable, flag_value, flag_words, local_path, mask_argv
from tui.server.profiles import Profile, ProfileError, parse

SERVE = ("sglang", "serve")


def profile(
    knobs: dict[str, Any] | None = None, command: tuple[str, ...] = ("sglang", "serve"), **more: Any
) -> Profile:
    return Profile(name="p", command=command, knobs=knobs or {}, **more)


def words(knobs: dict[str, Any], overrides: dict[str, Any] | None = None) -> list[str]:
    return list(command_line(profile(knobs), overrides, {}).argv[2:])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, ["--x"]),
        (False, []),
        (None, []),
        ([], []),
        (3, ["--x", "3"]),
        (-1, ["--x", "-1"]),
        (0.85, ["--x", "0.85"]),
        ("a b; rm -rf $(pwd)", ["--x", "a b; rm -rf $(pwd)"]),
        ("", ["--x", ""]),
        ("-v", ["--x=-v"]),
        ([1, 2], ["--x", "1", "2"]),
        ({"a": [1]}, ["--x", '{"a": [1]}']),
        ([{"a": 1}], ["--x", '{"a": 1}']),
    ],
)
def test_values_as_words(value: object, expected: list[str]) -> None:
    assert flag_words("x", value) == expected


def test_overrides_keep_the_order_and_none_removes() -> None:
    built = words(
        {"tp-size": 8, "trust-remote-code": True, "port": 1234}, {"tp_size": 4, "--trust-remote-code": None, "a": "b"}
    )
    assert built == ["--tp-size", "4", "--port", "1234", "--a", "b"]


@given(
    st.dictionaries(
        st.sampled_from(["alpha", "beta-x", "gamma"]),
        st.booleans() | st.integers() | st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    )
)
@settings(max_examples=100, deadline=None)
def test_argparse_reads_back_what_a_profile_says(knobs: dict[str, Any]) -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name, value in knobs.items():
        if isinstance(value, bool):
            parser.add_argument(f"--{name}", action="store_true")
        else:
            parser.add_argument(f"--{name}")
    options = vars(parser.parse_args(words(knobs)))
    assert options == {n.replace("-", "_"): v if isinstance(v, bool) else str(v) for n, v in knobs.items()}


@pytest.mark.parametrize(
    ("knobs", "url"),
    [
        ({}, "http://127.0.0.1:30000"),
        ({"host": "0.0.0.0", "port": 80}, "http://127.0.0.1:80"),
        ({"host": "::"}, "http://[::1]:30000"),
        ({"host": "fe80::1"}, "http://[fe80::1]:30000"),
        ({"host": "node7", "ssl-certfile": "/c.pem"}, "https://node7:30000"),
    ],
)
def test_url(knobs: dict[str, Any], url: str) -> None:
    assert command_line(profile(knobs), {}, {}).url == url


def test_flags_that_stand_in_the_command_count_too() -> None:
    built = command_line(profile(command=("sglang", "serve", "--port=31000", "--api-key", "k")), {}, {})
    assert (built.port, built.api_key) == (31000, "k")
    assert flag_value(["--port", "1", "--port=2", "--port-x", "9"], "port") == "2"
    with pytest.raises(ProfileError, match="port: must be a number from 1 to 65535, not 'x'"):
        command_line(profile(command=("sglang", "--port", "x")), {}, {})


def test_relative_paths_start_at_cwd_which_starts_at_the_profile(tmp_path: Path) -> None:
    (tmp_path / "models" / "tiny").mkdir(parents=True)
    source = parse(
        '[server]\ncwd = ".."\ncommand = ["venv/bin/sglang", "serve"]\n'
        '[knobs]\nmodel-path = "./models/tiny"\nspeculative-draft-model-path = "../d"\n'
        'tokenizer-path = "org/tok"\nlog-level = "./x"',
        tmp_path / "profiles" / "p.toml",
    )
    built = command_line(source, {}, {})
    assert built.cwd == tmp_path
    assert built.argv[0] == str(tmp_path / "venv/bin/sglang")
    assert flag_value(built.argv, "model-path") == str(tmp_path / "models/tiny")
    assert flag_value(built.argv, "speculative-draft-model-path") == str(tmp_path.parent / "d")
    assert flag_value(built.argv, "tokenizer-path") == "org/tok"
    assert flag_value(built.argv, "log-level") == "./x"
    assert local_path(source, "models/tiny") == tmp_path / "models/tiny"
    assert local_path(source, "org/tok") is None
    with pytest.raises(ProfileError, match=r"venv/bin/sglang is not a program"):
        find_executable(built)


def test_find_executable(tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    on_path = command_line(profile(command=("tool",), env={"PATH": str(tmp_path)}), {}, {"PATH": "/nowhere"})
    assert find_executable(on_path) == str(tool)
    with pytest.raises(ProfileError, match="tool is not on PATH"):
        find_executable(command_line(profile(command=("tool",)), {}, {"PATH": "/nowhere"}))
    with pytest.raises(ProfileError, match=r"working folder .* is not there"):
        find_executable(command_line(profile(cwd="/no/such/folder"), {}, {}))


def test_env_changes_are_what_differs() -> None:
    built = command_line(profile(env={"A": "1", "B": "2"}), {}, {"A": "1", "HOME": "/h"})
    assert built.env == {"A": "1", "B": "2", "HOME": "/h"}
    assert built.env_changes == {"B": "2"}


def test_secrets_are_masked_and_never_in_a_repr() -> None:
    argv = ["sglang", "--api-key", "s3cret", "--admin-api-key=s3cret", "--hf-token", "s3cret", "--port", "1",
            "--x", "http://u:s3cret@h/", "--json", '{"api_key": "s3cret"}', "--tokenizer-path", "tok"]  # fmt: skip
    masked = mask_argv(argv)
    assert "s3cret" not in json.dumps(masked)
    assert len(masked) == len(argv)
    assert masked[-1] == "tok"
    built = command_line(profile({"api-key": "s3cret"}, env={"HF_TOKEN": "s3cret"}), {}, {})
    assert built.api_key == "s3cret"
    assert "HF_TOKEN" not in repr(built)
