"""The arguments line and the secrets in it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.sglang.args_line import parse_server_args
from tui.sglang.secrets import MASK, is_secret_name, mask_args, mask_text

_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**15), 10**15)
    | st.floats(allow_nan=False, allow_infinity=False, width=32).map(lambda x: round(x, 4))
    | st.text(max_size=20).filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text))
)
_values = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), inner, max_size=4)
    ),
    max_leaves=8,
)
_names = st.from_regex(r"[a-z][a-z_]{0,12}", fullmatch=True)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(_names, _values, max_size=6))
def test_both_forms_give_back_what_was_printed(args):
    want = mask_args(args)
    assert parse_server_args(f"server_args={args!r}") == (want, True)
    keywords = ", ".join(f"{name}={value!r}" for name, value in args.items())
    assert parse_server_args(f"server_args=ServerArgs({keywords})") == (want, False)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(_names, _values, min_size=1, max_size=5), st.data())
def test_a_cut_line_gives_whole_values_only(args, data):
    keywords = ", ".join(f"{name}={value!r}" for name, value in args.items())
    line = f"server_args=ServerArgs({keywords})"
    end = data.draw(st.integers(len("server_args=ServerArgs("), len(line) - 1))
    parsed, _ = parse_server_args(line[:end])
    want = mask_args(args)
    assert list(parsed) == list(want)[: len(parsed)]
    assert all(parsed[name] == want[name] for name in parsed)


def test_elided_parts_and_objects():
    line = (
        "server_args=ServerArgs(model_path='/m', ... context_length=32768, dtype=<Dtype.AUTO: 'auto'>, "
        "path=PosixPath('/x, y'), bs=[1, 2, (3,)], ... parser='glm')"
    )
    args, resolved = parse_server_args(line)
    assert not resolved
    assert args == {
        "model_path": "/m",
        "context_length": 32768,
        "dtype": "<Dtype.AUTO: 'auto'>",
        "path": "PosixPath('/x, y')",
        "bs": [1, 2, [3]],
        "parser": "glm",
    }


def test_no_arguments_line():
    assert parse_server_args("server_args are fine") is None
    assert parse_server_args("server_args=") is None


@pytest.mark.parametrize(
    "name",
    [
        "api_key",
        "admin_api_key",
        "hf_token",
        "HF_TOKEN",
        "ssl_keyfile_password",
        "AWS_SECRET_ACCESS_KEY",
        "api-key",
        "auth_token",
    ],
)
def test_secret_names(name):
    assert is_secret_name(name)
    assert mask_args({name: "abc"}) == {name: MASK}
    assert mask_args({name: None, "x": {name: "abc"}}) == {name: None, "x": {name: MASK}}


@pytest.mark.parametrize(
    "name",
    [
        "tokenizer_path",
        "tokenizer_mode",
        "max_total_tokens",
        "speculative_token_map",
        "num_reserved_decode_tokens",
        "skip_tokenizer_init",
        "ssl_keyfile",
        "monkey",
        "keyboard",
    ],
)
def test_names_that_are_no_secrets(name):
    assert not is_secret_name(name)
    assert mask_args({name: "abc"}) == {name: "abc"}


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("python -m x --api-key sk-12 --port 1", "python -m x --api-key *** --port 1"),
        ("--admin-api-key='a b' --tp 2", "--admin-api-key=*** --tp 2"),
        ("args(api_key='abc', hf_token=\"t\")", "args(api_key=***, hf_token=***)"),
        ("{'api_key': 'abc'}", "{'api_key': ***}"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("http://user:pass@host/x", "http://user:***@host/x"),
        ("token hf_abcdefghijklmnopqrstuv used", "token *** used"),
        ("api_key=None, x=1", "api_key=None, x=1"),
        ("#token: 543, token usage: 0.03", "#token: 543, token usage: 0.03"),
        ("max_total_tokens=131072 is larger", "max_total_tokens=131072 is larger"),
    ],
)
def test_masking_in_text(text, masked):
    assert mask_text(text) == masked
    assert mask_text(masked) == masked
