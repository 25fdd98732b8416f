import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.server import profiles
from tui.server.profiles import ProfileError, available, edit, find, load, parse, rename, save, set_knobs

TEXT = """\
# The night shift's server.
name = "night"
description = "small"  # for the list

[server]
cwd = ".."
command = ["python3", "-m", "sglang.launch_server"]
sglang-version = "0.5.9"

[env]
CUDA_VISIBLE_DEVICES = "0,1"  # the two that are free
OMP_NUM_THREADS = 4

[knobs]
model-path = "/models/x"
# Left out, SGLang chooses it.
# mem-fraction-static = 0.85
cuda-graph-max-bs = 128  # 512 costs memory
trust-remote-code = true
cuda-graph-bs = [1, 2, 4]
"""
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
LEAST = '[server]\ncommand = ["sglang"]\n'


def test_parse() -> None:
    profile = parse(TEXT)
    assert (profile.name, profile.description, profile.cwd, profile.sglang_version) == ("night", "small", "..", "0.5.9")
    assert profile.command == ("python3", "-m", "sglang.launch_server")
    assert profile.env == {"CUDA_VISIBLE_DEVICES": "0,1", "OMP_NUM_THREADS": "4"}
    assert profile.knobs["cuda-graph-max-bs"] == 128
    assert profile.knobs["cuda-graph-bs"] == [1, 2, 4]


def test_saving_an_unchanged_profile_keeps_every_byte(tmp_path: Path) -> None:
    save(parse(TEXT), tmp_path / "night.toml")
    assert (tmp_path / "night.toml").read_text() == TEXT
    assert load(tmp_path / "night.toml").text == TEXT


def test_set_knobs_keeps_comments() -> None:
    changed = set_knobs(parse(TEXT), {"cuda-graph-max-bs": 256, "mem-fraction-static": 0.85, "trust-remote-code": None})
    assert changed.knobs == {
        "model-path": "/models/x",
        "cuda-graph-max-bs": 256,
        "cuda-graph-bs": [1, 2, 4],
        "mem-fraction-static": 0.85,
    }
    for comment in (
        "# The night shift's server.",
        "# for the list",
        "# 512 costs memory",
        "# mem-fraction-static = 0.85",
    ):
        assert comment in changed.text
    assert set_knobs(changed, {}).text == changed.text


def test_set_knobs_finds_the_spelling_in_the_file_and_types_differ() -> None:
    profile = parse("name = 'x'\n" + LEAST + "[knobs]\nmem_fraction_static = 0.8\nenable-metrics = true\n")
    changed = set_knobs(profile, {"mem-fraction-static": 0.9, "enable-metrics": 1})
    assert changed.knobs == {"mem-fraction-static": 0.9, "enable-metrics": 1}
    assert changed.knobs["enable-metrics"] is not True
    assert changed.text.count("fraction") == 1


def test_set_knobs_without_a_knobs_table() -> None:
    assert set_knobs(parse(LEAST + "", Path("x.toml")), {"port": 30001}).knobs == {"port": 30001}


@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z0-9]{0,6}(-[a-z0-9]{1,5}){0,2}", fullmatch=True).filter(lambda name: name != "port"),
        st.none()
        | st.booleans()
        | st.integers(-(2**40), 2**40)
        | st.floats(allow_nan=False, allow_infinity=False)
        | TEXTS
        | st.lists(st.integers(0, 9), max_size=3)
        | st.dictionaries(TEXTS, st.integers(0, 9), max_size=2),
        max_size=5,
    )
)
@settings(max_examples=60, deadline=None)
def test_any_knob_survives_being_written_and_read(knobs: dict[str, object]) -> None:
    before = parse(TEXT)
    changed = set_knobs(before, knobs)
    assert parse(changed.text).knobs == changed.knobs
    expected = {**before.knobs, **knobs}
    assert changed.knobs == {name: value for name, value in expected.items() if value is not None}
    assert "# The night shift's server." in changed.text


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = [", "not valid TOML"),
        ("name = 3\n" + LEAST, "name: must be text in quotes, not 3"),
        ("", "server.command: must be a list of words"),
        ('[server]\ncommand = "sglang serve"', "server.command: must be a list of words"),
        ("[server]\ncommand = []", "server.command: must be a list of words"),
        ('[server]\ncommand = ["a", 1]', "server.command"),
        (LEAST + "comand = 1", "server.comand: a profile has no such key; did you mean command?"),
        (LEAST + "[knob]\nport = 1", "knob: a profile has no such key; did you mean knobs?"),
        ("knobs = 3\n" + LEAST, "knobs: must be a table"),
        (LEAST + "[env]\nX = true", 'env.X: must be text in quotes such as "1", not true'),
        (LEAST + '[env]\n"A B" = "1"', "env.A B: is not a name"),
        (LEAST + '[env]\nA = "a\\u0000b"', "env.A: must be text"),
        (LEAST + "[knobs]\nport = 0", "knobs.port: must be a number from 1 to 65535, not 0"),
        (LEAST + "[knobs]\nport = true", "knobs.port: must be a number from 1 to 65535, not true"),
        (LEAST + "[knobs]\nx = nan", "knobs.x: must be text, a number"),
        (LEAST + "[knobs]\nx = 2026-01-01", "knobs.x: must be text, a number"),
        (LEAST + '[knobs]\n"a b" = 1', "knobs.a b: is not a flag name"),
        (LEAST + "[knobs]\nx-y = 1\nx_y = 2", "knobs.x_y: stands twice"),
    ],
)
def test_what_is_wrong_is_one_sentence_with_file_and_key(text: str, sentence: str) -> None:
    with pytest.raises(ProfileError) as caught:
        parse(text, Path("dir/bad.toml"))
    assert str(caught.value).startswith("dir/bad.toml: ")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value).strip()


def test_files_that_are_no_profiles(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="there is no such profile"):
        load(tmp_path / "no.toml")
    with pytest.raises(ProfileError, match="cannot be read"):
        load(tmp_path)
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ProfileError, match="not UTF-8"):
        load(tmp_path / "bytes.toml")
    with (tmp_path / "big.toml").open("wb") as file:
        file.truncate(2 << 20)
    with pytest.raises(ProfileError, match="larger than 1 MiB"):
        load(tmp_path / "big.toml")
    with pytest.raises(ProfileError, match="has no file yet"):
        save(parse(TEXT))


def test_save_as_and_links(tmp_path: Path) -> None:
    real = save(parse(TEXT), tmp_path / "real.toml")
    link = tmp_path / "link.toml"
    link.symlink_to(real)
    save(set_knobs(load(link), {"port": 30005}))
    assert link.is_symlink()
    assert load(real).knobs["port"] == 30005
    other = rename(load(real), "day", tmp_path / "new" / "day.toml")
    save(other)
    assert load(tmp_path / "new" / "day.toml").name == "day"
    assert load(real).name == "night"


def test_find_and_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    save(parse(TEXT), tmp_path / "profiles" / "night.toml")
    save(parse(TEXT.replace("small", "the user's")), tmp_path / "xdg" / "specdeck" / "profiles" / "other-file.toml")
    (tmp_path / "profiles" / "broken.toml").write_text("[")
    listed = {item.name: item for item in available()}
    assert "kimi-k2.5-base" in listed  # the examples come with the package
    assert listed["night"].path == Path("profiles/night.toml")
    assert "not valid TOML" in (listed["broken"].problem or "")
    assert listed["broken"].profile is None
    assert find("night").description == "small"
    assert find("other-file").description == "the user's"
    assert find("profiles/night.toml").name == "night"
    with pytest.raises(ProfileError, match=r"No profile 'nigth'.*did you mean night"):
        find("nigth")
    with pytest.raises(ProfileError, match="not valid TOML"):
        find("broken")


def test_every_example_is_valid() -> None:
    folder = profiles.folders()[-1]
    names = [item for item in os.listdir(folder) if item.endswith(".toml")]
    assert len(names) >= 6
    for name in names:
        assert load(folder / name).name == Path(name).stem


def test_edit_changes_command_and_environment_too() -> None:
    changed = edit(parse(TEXT), command=["sglang", "serve"], env={"CUDA_VISIBLE_DEVICES": None, "NEW": "1"})
    assert changed.command == ("sglang", "serve")
    assert changed.env == {"OMP_NUM_THREADS": "4", "NEW": "1"}
    assert "# 512 costs memory" in changed.text
    assert edit(parse(TEXT), command=parse(TEXT).command, env=parse(TEXT).env).text == TEXT
