"""A profile for those without specdeck: as a shell command, or as the YAML that SGLang's `--config` reads."""

import json
import re
import shlex
from collections.abc import Mapping

from tui.server.commandline import PATH_KNOBS, flag_words, merge_knobs
from tui.server.profiles import KnobValue, Profile
from tui.sglang.secrets import is_secret_name


def export_shell(profile: Profile, overrides: Mapping[str, KnobValue] | None = None) -> str:
    """One shell command, a flag a line. Secrets become variables that the operator sets, as `"$API_KEY"`."""
    words = [f"{name}={_quoted(name, value)}" for name, value in profile.env.items()]
    words.append(" ".join(map(shlex.quote, profile.command)))
    for name, value in merge_knobs(profile.knobs, overrides or {}).items():
        flag = flag_words(name, value)
        if flag and is_secret_name(name):
            words.append(f"--{name} {_quoted(name, str(value))}")
        elif flag:
            words.append(" ".join(map(_word, flag) if name in PATH_KNOBS else map(shlex.quote, flag)))
    command = " \\\n  ".join(words)
    if profile.cwd is None:
        return command + "\n"
    return f"cd {_word(profile.cwd)}\n{command}\n"


def export_yaml(profile: Profile, overrides: Mapping[str, KnobValue] | None = None) -> str:
    """A file for `--config` (SGLang >= 0.5.3); what it cannot hold stands in comments. Secrets are left out."""
    lines = [f"# {profile.name}: " + shlex.join([*profile.command, "--config", "FILE.yaml"])]
    lines += [f"# environment: {name}={_quoted(name, value)}" for name, value in profile.env.items()]
    for name, value in merge_knobs(profile.knobs, overrides or {}).items():
        if is_secret_name(name):
            lines.append(f"# {name}: left out, for it is a secret")
        elif value is not False:
            # JSON is YAML, and leaves no word to be read as a date or a Norwegian "no".
            lines.append(f"{name}: {json.dumps(value, ensure_ascii=False)}")
    return "".join(f"{_printable(line)}\n" for line in lines)


def _quoted(name: str, value: str) -> str:
    if is_secret_name(name):
        return f'"${re.sub("[^A-Za-z0-9]", "_", name).upper()}"'
    return shlex.quote(value)


def _word(text: str) -> str:
    """A word in which a leading ~ stays the shell's."""
    return "~/" + shlex.quote(text[2:]) if text.startswith("~/") and len(text) > 2 else shlex.quote(text)


def _printable(line: str) -> str:
    return line.replace("\n", " ").replace("\r", " ")
