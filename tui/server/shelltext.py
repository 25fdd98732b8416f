"""Reads shell text without ever running it: the words of its commands, variables replaced where they can be told."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from tui.errors import SpecdeckError
from tui.frozen import frozen
from tui.patterns import lazy

_ASSIGNMENT = lazy(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=)(.*)", re.DOTALL)
_LIST = lazy(r"\"?\$\{([A-Za-z_][A-Za-z0-9_]*)\[[@*]\]\}\"?")
_VARIABLE = lazy(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)(?::?([-=+?])([^{}]*))?\}|([A-Za-z_][A-Za-z0-9_]*))")
_REDIRECT = lazy(r"(?:\d*|&)(?:>>|>\||>&|<&|<<<|>|<)")
_SEPARATORS = frozenset((";", "&", "&&", "||", "|", "|&", "\n"))
_KEYWORDS = frozenset(["if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "{", "}"])
_UNSEEN = "\0"  # stands for a $ that must stay one: it was in single quotes or escaped

LARGEST_TEXT = 1 << 20


class ShellTextError(SpecdeckError):
    """The text holds no command that starts SGLang, or one that cannot be read."""


@dataclass(slots=True)
class Shell:
    """What a script has set so far. `variables` are the script's own, `exported` go to the environment of commands."""

    variables: dict[str, str] = field(default_factory=dict)
    exported: dict[str, str] = field(default_factory=dict)
    lists: dict[str, list[str]] = field(default_factory=dict)
    folder: str | None = None

    def expand(self, word: str) -> str:
        """The word with its variables replaced. Those that are not known stay as they are."""

        def value(match: re.Match[str]) -> str:
            name, operator, other = match[1] or match[4], match[2], match[3] or ""
            known = self.variables.get(name)
            if operator == "+":
                return self.expand(other) if known else ""
            if known is not None and (known or not operator):
                return known
            if operator in ("-", "="):
                return self.expand(other)
            return match[0]

        return _VARIABLE.sub(value, word).replace(_UNSEEN, "$")


@frozen(kw_only=False)
class SimpleCommand:
    """One command with its own assignments; `dropped` are redirections and a closing `&`, as they stood."""

    words: tuple[str, ...]
    env: Mapping[str, str]
    folder: str | None
    dropped: tuple[str, ...]


def simple_commands(text: str) -> list[SimpleCommand]:
    """The commands of a script in order, variables replaced as far as the script itself tells them.

    Raises ShellTextError for a quote that is not closed.
    """
    shell = Shell()
    commands = []
    for tokens in _statements(text):
        command = _command(tokens, shell)
        if command is not None:
            commands.append(command)
    return commands


def _statements(text: str) -> list[list[str]]:
    """Tokens between separators, quotes still on them: whether a $ is quoted is only known from those."""
    text = re.sub(r"\\\r?\n", " ", text.replace("\r\n", "\n"))
    statements: list[list[str]] = [[]]
    for token in _tokens(text):
        if token in _SEPARATORS:
            if token == "&" and statements[-1]:
                statements[-1].append(token)
            statements.append([])
        else:
            statements[-1].append(token)
    return [statement for statement in statements if statement]


def _tokens(text: str) -> list[str]:
    """Words, still quoted, and separators. Comments are left out."""
    tokens: list[str] = []
    word: list[str] = []
    i = 0

    def end_word() -> None:
        if word:
            tokens.append("".join(word))
            word.clear()

    while i < len(text):
        char = text[i]
        if char in "'\"":
            close = _closing(text, i)
            word.append(text[i : close + 1])
            i = close + 1
        elif char == "\\" and i + 1 < len(text):
            word.append(text[i : i + 2])
            i += 2
        elif char == "$" and text[i + 1 : i + 2] in ("{", "("):
            close = _bracket(text, i + 1)
            word.append(text[i : close + 1])
            i = close + 1
        elif char == "(" and word and "".join(word).endswith("="):  # ARGS=(…)
            close = _bracket(text, i)
            word.append(text[i : close + 1])
            i = close + 1
        elif char == "#" and not word:
            while i < len(text) and text[i] != "\n":
                i += 1
        elif char in " \t\r":
            end_word()
            i += 1
        elif char in ";&|\n":
            redirect = char == "&" and (text[i + 1 : i + 2] == ">" or (word and word[-1][-1:] in "<>"))
            if redirect:
                word.append(char)
                i += 1
                continue
            end_word()
            size = 2 if text[i : i + 2] in ("&&", "||", ";;", "|&") else 1
            tokens.append(";" if text[i : i + size] == ";;" else text[i : i + size])
            i += size
        else:
            word.append(char)
            i += 1
    end_word()
    return tokens


def _closing(text: str, start: int) -> int:
    quote, i = text[start], start + 1
    while i < len(text):
        if text[i] == "\\" and quote == '"':
            i += 1
        elif text[i] == quote:
            return i
        i += 1
    line = text.count("\n", 0, start) + 1
    raise ShellTextError(f"Line {line}: the quote {quote} is never closed.")


def _bracket(text: str, start: int) -> int:
    close = {"{": "}", "(": ")"}[text[start]]
    depth, i = 0, start
    while i < len(text):
        if text[i] in "'\"":
            i = _closing(text, i)
        elif text[i] == text[start]:
            depth += 1
        elif text[i] == close:
            depth -= 1
            if depth == 0:
                return i
        i += 1
    raise ShellTextError(f"The bracket {text[start - 1 : start + 20]!r} is never closed.")


def _command(tokens: list[str], shell: Shell) -> SimpleCommand | None:
    while tokens and tokens[0] in _KEYWORDS:
        tokens = tokens[1:]
    words, dropped = _without_redirections(tokens)
    env: dict[str, str] = {}
    while words and (match := _ASSIGNMENT.fullmatch(words[0])) is not None:
        name, operator, value = match[1], match[2], match[3]
        if value.startswith("(") and value.endswith(")"):
            inner = [token for token in _tokens(value[1:-1]) if token not in _SEPARATORS]
            items = [part for token in inner for part in unquote(token, shell)]
            shell.lists[name] = [*(shell.lists.get(name, []) if operator == "+=" else []), *items]
        else:
            before = shell.variables.get(name, "") if operator == "+=" else ""
            env[name] = before + _one(value, shell)
        words = words[1:]
    if not words:
        shell.variables.update(env)
        shell.exported.update({name: value for name, value in env.items() if name in shell.exported})
        return None
    plain = [part for word in words for part in unquote(word, shell)]
    if plain and plain[0] in ("export", "declare", "typeset", "readonly", "local"):
        _export(plain[1:], shell)
        return None
    if plain and plain[0] == "cd" and len(plain) == 2:
        shell.folder = plain[1]
        return None
    if plain and plain[0] == "unset":
        for name in plain[1:]:
            shell.variables.pop(name, None)
            shell.exported.pop(name, None)
        return None
    return SimpleCommand(tuple(plain), {**shell.exported, **env}, shell.folder, tuple(dropped)) if plain else None


def _export(words: list[str], shell: Shell) -> None:
    for word in words:
        match = _ASSIGNMENT.fullmatch(word)
        if match is not None:
            shell.variables[match[1]] = shell.exported[match[1]] = match[3]
        elif word in shell.variables:
            shell.exported[word] = shell.variables[word]


def _without_redirections(tokens: list[str]) -> tuple[list[str], list[str]]:
    words, dropped = [], []
    rest = iter(tokens)
    for token in rest:
        match = _REDIRECT.match(token)
        if token == "&":
            dropped.append(token)
        elif match is None:
            words.append(token)
        elif match.end() == len(token):
            dropped.append(f"{token} {next(rest, '')}".strip())
        else:
            dropped.append(token)
    return words, dropped


def _one(word: str, shell: Shell) -> str:
    """A token as one word, as the right side of an assignment is."""
    return _joined(_protect(word), shell)


def _protect(word: str) -> str:
    return re.sub(r"'[^']*'|\\\$", lambda match: match[0].replace("\\$", "$").replace("$", _UNSEEN), word)


def _joined(protected: str, shell: Shell) -> str:
    pieces = re.split(r"(\"(?:[^\"\\]|\\.)*\"|'[^']*'|\\.)", protected, flags=re.DOTALL)
    return "".join(_piece(piece, shell) for piece in pieces)


def unquote(word: str, shell: Shell) -> list[str]:
    """A token as the words it becomes: quotes off, variables in. An unquoted variable may become several or none."""
    if (found := _LIST.fullmatch(word)) is not None and found[1] in shell.lists:
        return shell.lists[found[1]]
    split = word.startswith("$") and _VARIABLE.fullmatch(word) is not None
    protected = _protect(word)
    if split:
        return shlex.split(shell.expand(protected), comments=False) if _balanced(shell.expand(protected)) else [word]
    return [_joined(protected, shell)]


def _piece(piece: str, shell: Shell) -> str:
    if len(piece) >= 2 and piece[0] == piece[-1] == "'":
        return piece[1:-1].replace(_UNSEEN, "$")
    if len(piece) >= 2 and piece[0] == piece[-1] == '"':
        return re.sub(r"\\([\"\\`])", r"\1", shell.expand(piece[1:-1]))
    if len(piece) == 2 and piece[0] == "\\":
        return piece[1]
    return shell.expand(piece)


def _balanced(text: str) -> bool:
    try:
        shlex.split(text)
    except ValueError:
        return False
    return True
