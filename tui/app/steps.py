"""What `+` and `-` make of a knob's value. Pure."""

from tui.port import FlagInfo


def step(flag: FlagInfo | None, value: object, by: int) -> object:
    """The next value up or down; the same value when the flag has no such thing."""
    if flag is not None and flag.choices:
        return _choice(flag.choices, value, by)
    if isinstance(value, bool) or (flag is not None and flag.type == "bool"):
        return by > 0
    if isinstance(value, float) or (flag is not None and flag.type == "float"):
        number = _number(value)
        return value if number is None else max(0.0, round(number + 0.01 * by, 4))
    number = _number(value)
    return value if number is None else max(0, round(number) + by * _stride(round(number)))


def parse(flag: FlagInfo | None, text: str, old: object = None) -> object:
    """The value that the operator typed. ValueError, with a sentence, when it cannot be one of this flag."""
    text = text.strip()
    if text == "":
        return None
    kind = flag.type if flag is not None else _kind(old)
    if flag is not None and flag.choices and text not in flag.choices:
        raise ValueError(f"{text} is not one of {', '.join(flag.choices)}.")
    if kind == "bool":
        if text.lower() in ("on", "true", "yes", "1"):
            return True
        if text.lower() in ("off", "false", "no", "0"):
            return False
        raise ValueError(f"{text} is neither on nor off.")
    if kind in ("int", "float"):
        try:
            return int(text) if kind == "int" else float(text)
        except ValueError:
            raise ValueError(f"{text} is not {'a whole' if kind == 'int' else 'a'} number.") from None
    return text


def _kind(value: object) -> str:
    for kind, types in (("bool", bool), ("int", int), ("float", float)):
        if isinstance(value, types):
            return kind
    return "str"


def _choice(choices: tuple[str, ...], value: object, by: int) -> str:
    if value not in choices:
        return choices[0]
    return choices[(choices.index(str(value)) + by) % len(choices)]


def _number(value: object) -> float | None:
    if value is None:
        return 0.0
    try:
        return float(str(value))
    except ValueError:
        return None


def _stride(number: int) -> int:
    """Small numbers by one, large ones by the power of two that keeps them round."""
    stride = 1
    while stride * 16 <= number:
        stride *= 2
    return stride
