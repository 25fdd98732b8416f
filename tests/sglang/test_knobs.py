"""Flags: the catalogue of a real 0.5.23 and the built-in one, what is wrong with knobs, steps, command lines."""

import argparse
import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.sglang.catalogue import Catalogue, Flag, builtin_catalogue, probed_catalogue
from tui.sglang.flags.builtin import KNOWN
from tui.sglang.flags.groups import GROUPS
from tui.sglang.flags.renames import RENAMES
from tui.sglang.knobs import check, from_words, step, to_words
from tui.sglang.versions import parse_version

ROOT = Path(__file__).parents[2]
ANSWER = json.loads((ROOT / "tests/fixtures/sglang-0.5.23/flags.json").read_text())
CATALOGUE = probed_catalogue(ANSWER)
V59, V518, V523 = (parse_version(text) for text in ("0.5.9", "0.5.18", "0.5.23"))


def only(knobs, catalogue=CATALOGUE, version=V523):
    (problem,) = check(knobs, catalogue, version)
    return problem


def test_every_flag_of_the_real_parser_is_found_by_every_spelling():
    assert len(CATALOGUE.flags) == len(ANSWER["flags"]) == 531
    assert CATALOGUE.complete
    for item in ANSWER["flags"]:
        for spelling in item["flags"]:
            assert CATALOGUE.find(spelling).exact, spelling
            assert CATALOGUE.find(spelling.replace("-", "_").lstrip("_")).exact


def test_every_flag_has_a_group_and_the_groups_are_used():
    assert {flag.group for flag in CATALOGUE.flags} == set(GROUPS)
    assert CATALOGUE.find("mem-fraction-static").flag.group == "memory"
    assert CATALOGUE.find("speculative-num-steps").flag.group == "speculation"
    assert CATALOGUE.find("cuda-graph-max-bs-decode").flag.group == "graphs"
    assert CATALOGUE.find("max-running-requests").flag.group == "batching"
    assert CATALOGUE.find("tp-size").flag.group == "parallel"
    assert CATALOGUE.find("host").flag.group == "rest"


def test_search_looks_in_names_and_help_and_puts_names_first():
    found = CATALOGUE.search("mem fraction")
    assert found[0].name == "mem-fraction-static"
    assert [flag.name for flag in CATALOGUE.search("no such words at all")] == []


@pytest.mark.parametrize("known", [known for known in KNOWN if known.gone is None], ids=lambda known: known.name)
def test_the_built_in_catalogue_agrees_with_the_real_parser(known):
    found = CATALOGUE.find(known.name)
    assert found.exact
    assert (found.flag.name, found.flag.type, found.flag.many) == (known.name, known.type, known.many)
    assert set(known.aliases) <= set(found.flag.aliases)


@pytest.mark.parametrize("rename", RENAMES, ids=lambda rename: rename.old)
def test_renames_agree_with_the_real_parser(rename):
    if rename.gone is not None:
        assert not CATALOGUE.find(rename.old).exact
    else:
        assert CATALOGUE.find(rename.old).flag.deprecated
    if rename.new is not None:
        assert CATALOGUE.find(rename.new).exact


def test_a_renamed_flag_is_explained():
    problem = only({"cuda-graph-max-bs": 128})
    assert (problem.kind, problem.fatal, problem.fix) == ("renamed", True, "cuda-graph-max-bs-decode")
    assert "0.5.20" in problem.text
    assert only({"cuda-graph-max-bs": 128}, builtin_catalogue(V523)).kind == "renamed"
    assert check({"cuda-graph-max-bs": 128}, builtin_catalogue(V59), V59) == ()
    aged = only({"cuda-graph-max-bs": 128}, builtin_catalogue(V518), V518)
    assert (aged.kind, aged.fatal) == ("deprecated", False)


def test_a_name_that_is_too_new_gets_its_old_one():
    problem = only({"cuda-graph-max-bs-decode": 128}, builtin_catalogue(V59), V59)
    assert (problem.kind, problem.fix, problem.fatal) == ("renamed", "cuda-graph-max-bs", True)


def test_a_dropped_flag_says_what_to_do():
    problem = only({"enable-deepep-moe": True})
    assert (problem.kind, problem.fix) == ("dropped", None)
    assert "--moe-a2a-backend deepep" in problem.text


@pytest.mark.parametrize(
    ("knobs", "kind", "fatal", "says"),
    [
        ({"mem-fraction-statik": 0.8}, "unknown", True, "did you mean --mem-fraction-static?"),
        ({"zzz": 1}, "unknown", True, "does not know --zzz."),
        ({"mem-frac": 0.8}, "abbreviated", False, "--mem-fraction-static"),
        ({"cuda-graph-max": 8}, "ambiguous", True, "--cuda-graph-max-bs-decode and --cuda-graph-max-bs-prefill"),
        ({"port": "abc"}, "type", True, "needs a whole number, not 'abc'"),
        ({"tp-size": 8.5}, "type", True, "needs a whole number"),
        ({"tp-size": True}, "type", True, "needs a value"),
        ({"mem-fraction-static": "high"}, "type", True, "needs a number"),
        ({"enable-metrics": "yes"}, "type", True, "is a switch"),
        ({"tp-size": [1, 2]}, "type", True, "takes one value, not 2"),
        ({"cuda-graph-bs-decode": [1, "x"]}, "type", True, "not 'x'"),
        ({"max-total-tokens": "many"}, "type", True, "4096 or 4k"),
        ({"kv-cache-dtype": "fp7"}, "choice", True, "fp8_e4m3"),
        ({"disable-cuda-graph": True}, "deprecated", False, "0.5.14"),
    ],
)
def test_what_is_wrong_with_a_knob(knobs, kind, fatal, says):
    problem = only(knobs)
    assert (problem.kind, problem.fatal) == (kind, fatal)
    assert says in problem.text
    assert problem.text.endswith((".", "?"))


@pytest.mark.parametrize(
    "knobs",
    [
        {"mem-fraction-static": 1},
        {"max-total-tokens": "20k"},
        {"cuda-graph-bs-decode": [1, 2, 4]},
        {"cuda-graph-bs-decode": 4},
        {"json-model-override-args": '{"a": 1}'},
        {"enable-metrics": False},
        {"host": None},
    ],
)
def test_what_is_right_with_a_knob(knobs):
    assert check(knobs, CATALOGUE, V523) == ()


def test_the_shipped_profiles_have_no_problems():
    for path in (ROOT / "profiles").glob("*.toml"):
        profile = tomllib.loads(path.read_text())
        version = parse_version(profile["server"]["sglang-version"])
        catalogue = CATALOGUE if version == V523 else builtin_catalogue(version)
        assert check(profile["knobs"], catalogue, version) == (), path.name


def test_an_incomplete_catalogue_only_doubts():
    builtin = builtin_catalogue(V59)
    assert check({"grammar-backend": "xgrammar"}, builtin, V59) == ()
    doubt = only({"mem-fraction-statik": 0.8}, builtin, V59)
    assert not doubt.fatal
    assert "may not know" in doubt.text


@pytest.mark.parametrize(
    ("name", "value", "up", "then"),
    [
        ("mem-fraction-static", 0.85, True, 0.86),
        ("mem-fraction-static", 0.29, False, 0.28),
        ("cuda-graph-max-bs", 128, True, 256),
        ("cuda-graph-max-bs-decode", 128, False, 64),
        ("cuda-graph-max-bs", 100, True, 128),
        ("cuda-graph-max-bs", 100, False, 64),
        ("tp-size", 1, False, 1),
        ("speculative-num-steps", 3, True, 4),
        ("speculative-num-steps", 0, False, 0),
        ("enable-metrics", False, True, True),
        ("model-path", "/models/x", True, "/models/x"),
        ("chunked-prefill-size", -1, True, -1),
    ],
)
def test_steps(name, value, up, then):
    assert step(name, value, up) == then


def test_choices_step_in_turn():
    flag = Flag(name="kind", choices=("a", "b", "c"))
    assert [step("kind", value, True, flag) for value in ("a", "c", "other")] == ["b", "a", "a"]
    assert step("kind", "a", False, flag) == "c"


def real_parser():
    """argparse as SGLang builds it, out of the recorded catalogue."""
    kinds = {"int": int, "float": float, "loads": json.loads}
    parser = argparse.ArgumentParser(add_help=False)
    for item in ANSWER["flags"]:
        if item["action"] == "StoreTrue":
            parser.add_argument(*item["flags"], dest=item["dest"], action="store_true")
        elif item["action"] == "BooleanOptional":
            parser.add_argument(item["flags"][0], dest=item["dest"], action=argparse.BooleanOptionalAction)
        elif item["action"] == "Store":
            kind = kinds.get(item.get("type"), str)
            parser.add_argument(*item["flags"], dest=item["dest"], type=kind, nargs=item.get("nargs"))
    return parser


PARSER = real_parser()
DESTINATIONS = {item["flags"][0][2:]: item["dest"] for item in ANSWER["flags"]}


@st.composite
def knob_sets(draw):
    """Knobs with values of the right type, for flags that are plainly typed."""
    simple = [flag for flag in CATALOGUE.flags if flag.type in ("bool", "int", "float", "str") and not flag.choices]
    simple = [flag for flag in simple if not flag.deprecated and not flag.optional_value]
    made = {}
    for flag in draw(st.lists(st.sampled_from(simple), unique_by=lambda flag: flag.name, max_size=12)):
        text = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=8).map(
            lambda t: f"v{t}"
        )
        value = {
            "bool": st.just(True) if not flag.negative else st.booleans(),
            "int": st.integers(-10, 1 << 40),
            "float": st.floats(0, 100, allow_nan=False),
            "str": text,
        }[flag.type]
        made[flag.name] = draw(st.lists(value, min_size=1, max_size=3) if flag.many else value)
    return made


@settings(max_examples=60, deadline=None)
@given(knob_sets())
def test_a_command_line_means_the_same_to_argparse_and_comes_back(knobs):
    assert check(knobs, CATALOGUE, V523) == ()
    words = to_words(knobs, CATALOGUE)
    parsed = vars(PARSER.parse_args(words))
    for name, value in knobs.items():
        assert parsed[DESTINATIONS[name]] == value
    assert from_words(words, CATALOGUE) == (knobs, ())


def test_prefixes_and_equals_signs_come_back_under_full_names():
    words = [
        "--mem-frac",
        "0.8",
        "--tensor-parallel-size=8",
        "--cuda-graph-bs-decode",
        "1",
        "2",
        "--enable-metrics",
        "x",
    ]
    knobs, stray = from_words(words, CATALOGUE)
    assert knobs == {
        "mem-fraction-static": 0.8,
        "tp-size": 8,
        "cuda-graph-bs-decode": [1, 2],
        "enable-metrics": True,
    }
    assert stray == ("x",)


def test_values_that_look_like_flags_are_tied_to_theirs():
    assert to_words({"chat-template": "--odd", "chunked-prefill-size": -1}) == [
        "--chat-template=--odd",
        "--chunked-prefill-size",
        "-1",
    ]


def test_an_answer_without_flags_is_no_catalogue():
    with pytest.raises(ValueError, match="lists no flags"):
        probed_catalogue({"flags": []})
    assert Catalogue(()).find("x").flag is None
