# SPDX-License-Identifier: Apache-2.0
"""Regular expressions of RE2, which tf.strings has, for Python's re.

Patterns are rewritten so that they mean the same: texts are UTF-8, of which bytes that are none match no class, "$" is
the end of the text, and classes such as \\w are those of ASCII. What has no counterpart is refused, as is what RE2
refuses: look-around, references to groups, possessive repetition."""
from __future__ import annotations

import functools
import re
from typing import Any, Callable

from ..errors import InvalidArgumentError

_LAST = 0x10FFFF
_LONE = "\udc80-\udcff"  # bytes that are no UTF-8, as errors="surrogateescape" has them
_WORD = "0-9A-Za-z_"
_POSIX = {
    "alnum": "09AZaz", "alpha": "AZaz", "ascii": "\0\x7f", "blank": "\t\t  ", "cntrl": "\0\x1f\x7f\x7f", "digit": "09",
    "graph": "!~", "lower": "az", "print": " ~", "punct": "!/:@[`{~", "space": "\t\r  ", "upper": "AZ", "word": "09AZaz__",
    "xdigit": "09AFaf"}
_PERL = {"d": "09", "s": "\t\n\f\r  ", "w": "09AZaz__"}
_ESCAPES = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_REPEAT_MAX = 1000
_REPETITION = re.compile(r"\*|\+|\?|\{(\d+)(,?)(\d*)\}")


def _ranges(ends: str, negative: bool = False) -> list[tuple[int, int]]:
    """(first, last) of pairs of characters, or of all others."""
    found = [(ord(ends[i]), ord(ends[i + 1])) for i in range(0, len(ends), 2)]
    if not negative:
        return found
    others, at = [], 0
    for first, last in [*sorted(found), (0xD800, 0xDFFF)]:
        if at < first:
            others.append((at, first - 1))
        at = last + 1
    return [*others, (at, _LAST)]


class _Pattern:
    """A pattern that is being rewritten."""

    def __init__(self, pattern: str):
        self.text, self.at, self.out = pattern, 0, []
        self.flags = dict.fromkeys("imsU", False)
        self.groups: list[dict] = []  # the flags around each open group
        self.last = ""  # what came last: an "atom", a "repetition", or nothing that can be repeated

    def fail(self, why: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"Invalid pattern: {self.text}, error: {why}")

    def take(self, count: int = 1) -> str:
        self.at += count
        return self.text[self.at - count:self.at]

    def atom(self, text: str, folds: bool = False) -> None:
        if folds and self.flags["i"]:  # for Python these two are i as well
            text = f"(?:(?![\u0130\u0131])(?i:{text}))" if not re.search("[\u0130\u0131]", text) else f"(?i:{text})"
        self.out.append(text)
        self.last = "atom"

    def literal(self, character: str) -> None:
        self.atom(re.escape(character), True)

    def rewritten(self) -> str:
        special: dict[str, Callable] = {"\\": self.escape, "[": self.character_class, "(": self.open, ")": self.close,
                                        "|": self.branch, "^": self.begin, "$": self.end, ".": self.any}
        while self.at < len(self.text):
            repetition = _REPETITION.match(self.text, self.at)
            if repetition is not None:
                self.repeat(repetition)
            elif self.text[self.at] in special:
                special[self.take()]()
            else:
                self.literal(self.take())
        if self.groups:
            raise self.fail("missing )")
        return "".join(self.out)

    # --- what is repeated, and how often ---

    def repeat(self, found: re.Match) -> None:
        self.at = found.end()
        operator = found[0]
        if self.last == "repetition":
            raise self.fail(f"bad repetition operator: {operator}")
        if self.last != "atom":
            raise self.fail(f"no argument for repetition operator: {operator}")
        if operator[0] == "{":
            least, most = int(found[1]), int(found[3] or found[1])
            if max(least, most) > _REPEAT_MAX or most < least:
                raise self.fail(f"invalid repetition size: {operator}")
        lazy = self.flags["U"]
        if self.text[self.at:self.at + 1] == "?":
            self.at, lazy = self.at + 1, not lazy
        self.out.append(operator + "?" * lazy)
        self.last = "repetition"

    # --- groups ---

    def open(self) -> None:
        if self.text[self.at:self.at + 1] == "?":
            name = re.compile(r"\?P<\w+>", re.ASCII).match(self.text, self.at)
            flags = re.compile(r"\?([imsU]*)(?:-([imsU]+))?([:)])").match(self.text, self.at)
            if name is not None:
                self.at = name.end()
            elif flags is not None:
                self.at, changed = flags.end(), dict(self.flags)
                changed.update(dict.fromkeys(flags[1], True), **dict.fromkeys(flags[2] or "", False))
                if flags[3] == ")":  # for the rest of the group
                    self.flags, self.last = changed, ""
                    return
                self.groups.append(self.flags)
                self.flags, self.last = changed, ""
                self.out.append("(?:")
                return
            else:
                raise self.fail(f"invalid perl operator: {self.text[self.at - 1:self.at + 2]}")
        self.groups.append(dict(self.flags))
        self.out.append("(")
        self.last = ""

    def close(self) -> None:
        if not self.groups:
            raise self.fail(f"unexpected ): {self.text}")
        self.flags = self.groups.pop()
        self.atom(")")

    def branch(self) -> None:
        self.out.append("|")
        self.last = ""

    # --- single characters and places ---

    def begin(self) -> None:
        self.atom("(?m:^)" if self.flags["m"] else r"(?:\A)")

    def end(self) -> None:
        self.atom("(?m:$)" if self.flags["m"] else r"(?:\Z)")

    def any(self) -> None:
        self.atom(f"[^{_LONE}]" if self.flags["s"] else f"[^\n{_LONE}]")

    def escape(self) -> None:
        kind = self.text[self.at:self.at + 1]
        if kind == "Q":
            end = self.text.find("\\E", self.at)
            quoted = self.text[self.at + 1:len(self.text) if end < 0 else end]
            self.at = len(self.text) if end < 0 else end + 2
            for character in quoted:
                self.literal(character)
        elif kind in ("A", "z"):
            self.take()
            self.atom(r"(?:\A)" if kind == "A" else r"(?:\Z)")
        elif kind in ("b", "B"):
            self.take()
            one, other = ("!", "=") if kind == "b" else ("!", "!")
            opposite = {"!": "=", "=": "!"}
            self.atom(f"(?:(?<{one}[{_WORD}])(?{other}[{_WORD}])|(?<{opposite[one]}[{_WORD}])(?{opposite[other]}[{_WORD}]))")
        elif kind.lower() in _PERL and kind:
            self.take()
            self.atom(self.shown(_ranges(_PERL[kind.lower()]), kind.isupper()))
        elif kind in ("p", "P", "C"):
            raise self.unsupported(kind)
        else:
            self.literal(self.escaped())

    def unsupported(self, kind: str) -> NotImplementedError:
        return NotImplementedError(f"tf.strings: \\{kind} in the pattern {self.text!r} does not exist here; classes such as "
                                   "[[:alpha:]] and ranges do")

    def escaped(self) -> str:
        """The character after a backslash."""
        kind = self.take()
        octal = re.compile("[0-7]{1,3}" if kind == "0" else "[1-7][0-7]{1,2}").match(self.text, self.at - 1)
        if octal is not None:
            self.at = octal.end()
            return chr(int(octal[0], 8))
        if kind == "x":
            number = re.compile(r"\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{2})").match(self.text, self.at)
            if number is not None and int(number[1] or number[2], 16) <= _LAST:
                self.at = number.end()
                return chr(int(number[1] or number[2], 16))
        elif kind in _ESCAPES:
            return _ESCAPES[kind]
        elif kind and kind < "\x7f" and not re.match(f"[{_WORD}]", kind) or kind == "_":
            return kind
        raise self.fail("trailing \\" if not kind else f"invalid escape sequence: \\{kind}")

    # --- classes ---

    def character_class(self) -> None:
        negative = self.text[self.at:self.at + 1] == "^"
        self.at += negative
        found: list[tuple[int, int]] = []
        first = True
        while first or self.text[self.at:self.at + 1] != "]":
            if self.at >= len(self.text):
                raise self.fail(f"missing ]: {self.text}")
            found += self.part_of_class()
            first = False
        self.at += 1
        self.atom(self.shown(found, negative), True)

    def part_of_class(self) -> list[tuple[int, int]]:
        posix = re.compile(r"\[:(\^?)(.*?):\]").match(self.text, self.at)
        if posix is not None:
            if posix[2] not in _POSIX:
                raise self.fail(f"invalid character class range: {posix[0]}")
            self.at = posix.end()
            return _ranges(_POSIX[posix[2]], bool(posix[1]))
        kind = self.text[self.at + 1:self.at + 2] if self.text[self.at] == "\\" else ""
        if kind and kind.lower() in _PERL:
            self.at += 2
            return _ranges(_PERL[kind.lower()], kind.isupper())
        if kind in ("p", "P") and kind:
            raise self.unsupported(kind)
        low = high = self.character_of_class()
        if self.text[self.at:self.at + 1] == "-" and self.text[self.at + 1:self.at + 2] not in ("", "]"):
            self.at += 1
            high = self.character_of_class()
        if high < low:
            raise self.fail(f"invalid character class range: {low}-{high}")
        return [(ord(low), ord(high))]

    def character_of_class(self) -> str:
        character = self.take()
        return self.escaped() if character == "\\" else character

    @staticmethod
    def shown(ranges: list, negative: bool) -> str:
        parts = "".join(re.escape(chr(first)) + (f"-{re.escape(chr(last))}" if last > first else "")
                        for first, last in ranges)
        return f"[^{parts}{_LONE}]" if negative else f"[{parts}]"


@functools.lru_cache(maxsize=256)
def compiled(pattern: bytes) -> re.Pattern:
    """RE2's pattern for texts of Python."""
    try:
        text = pattern.decode()
    except UnicodeDecodeError:
        raise InvalidArgumentError(f"Invalid pattern: {pattern!r}, error: invalid UTF-8") from None
    return re.compile(_Pattern(text).rewritten())


def full_match(pattern: bytes, text: bytes) -> bool:
    """Whether the whole text matches."""
    return compiled(pattern).fullmatch(text.decode("utf-8", "surrogateescape")) is not None


def replace(pattern: bytes, rewrite: bytes, text: bytes, all_of_them: bool) -> bytes:
    """The text with what matches replaced: the first, or all. An empty match right behind another one is none."""
    found, source = compiled(pattern), text.decode("utf-8", "surrogateescape")
    write = _rewriter(rewrite, found)
    if write is None:
        return text
    out, at, last = [], 0, -1
    while at <= len(source):
        match = found.search(source, at)
        if match is None:
            break
        out.append(source[at:match.start()])
        if match.end() == match.start() == last:
            out.append(source[last:last + 1])
            at = last + 1
            continue
        out.append(write(match))
        at = last = match.end()
        if not all_of_them:
            break
    out.append(source[at:])
    return "".join(out).encode("utf-8", "surrogateescape")


def _rewriter(rewrite: bytes, pattern: re.Pattern) -> Callable[[re.Match], str] | None:
    r"""A text in which \0 is the match, \1 to \9 are groups, and \\ is a backslash. None: the pattern has no such group,
    and RE2 replaces nothing."""
    pieces: list[Any] = []
    for piece in re.split(r"(\\.?)", rewrite.decode("utf-8", "surrogateescape"), flags=re.DOTALL):
        if not piece.startswith("\\"):
            pieces.append(piece)
        elif piece == "\\\\":
            pieces.append("\\")
        elif re.fullmatch(r"\\[0-9]", piece):
            pieces.append(int(piece[1]))
        else:
            raise InvalidArgumentError(f"Invalid rewrite {rewrite!r}: {piece!r} is neither \\\\ nor one of the "
                                       f"{pattern.groups} groups of the pattern, \\0 for all of it")
    if any(isinstance(piece, int) and piece > pattern.groups for piece in pieces):
        return None
    return lambda match: "".join(piece if isinstance(piece, str) else match[piece] or "" for piece in pieces)
