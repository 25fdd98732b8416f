"""Profiles without their secrets, as run folders keep them, and back."""

import tomllib

from tui.server.commandline import mask_argv
from tui.server.profiles import KnobValue, Profile, ProfileError, edit
from tui.sglang.secrets import MASK, mask_args, mask_text


def masked_text(profile: Profile) -> str:
    """The profile's TOML with the values of secrets replaced, in knobs, environment, command and comments."""
    masked = edit(
        profile, knobs=mask_args(profile.knobs), env=mask_args(profile.env), command=mask_argv(profile.command)
    )
    text = "\n".join(map(_mask_comment, masked.text.split("\n")))
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:  # what looked like a comment was none
        import tomlkit

        text = tomlkit.dumps(tomllib.loads(masked.text))
    return text


def unmasked(profile: Profile, original: Profile | None) -> Profile:
    """The profile with its masked values taken from `original`. Raises ProfileError when one is nowhere to be had."""
    source = profile if original is None else original
    knobs: dict[str, KnobValue] = {}
    env = dict(profile.env)
    for name, value in profile.knobs.items():
        if MASK in str(value):
            knobs[name] = source.knobs.get(name)
    for name, value in profile.env.items():
        if MASK in value:
            env[name] = source.env.get(name, MASK)
    command = source.command if any(MASK in word for word in profile.command) else profile.command
    lost = [name for name, value in (*knobs.items(), *env.items()) if value is None or MASK in str(value)]
    lost += ["server.command"] if any(MASK in word for word in command) else []
    if lost:
        raise ProfileError(
            f"A run keeps no secrets, and {', '.join(lost)} cannot be read from {profile.path or 'its profile'} any "
            "more: put it back there, or launch another profile."
        )
    if not knobs and env == profile.env and command == profile.command:
        return profile
    return edit(profile, knobs=knobs, env=env, command=command)


def _mask_comment(line: str) -> str:
    before, sign, comment = line.rpartition("#")
    return before + sign + mask_text(comment) if sign else line
