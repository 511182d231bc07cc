# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v1.flags: options of a program, which app.run reads from its arguments: --name=value, --name value, --switch
and --noswitch, with one or two dashes. "--" ends them."""
from __future__ import annotations

import difflib as _difflib
import os as _os
import sys as _sys
from typing import Any as _Any
from typing import Callable as _Callable
from typing import Sequence as _Sequence

from ..._absent import module_getattr as _module_getattr


class Error(Exception):
    """What is wrong with the flags of a program."""


class IllegalFlagValueError(Error):
    """A value that a flag does not take."""


class UnrecognizedFlagError(Error):
    """A flag that was not defined."""


class _Flag:
    def __init__(self, name: str, default: _Any, help: str | None, parse: _Callable, switch: bool = False,  # noqa: A002
                 many: bool = False, required: bool = False, lower_bound: _Any = None, upper_bound: _Any = None,
                 short_name: str | None = None):
        self.lower, self.upper, self.short_name = lower_bound, upper_bound, short_name
        self.name, self.default, self.help, self.value = name, default, help, default
        self.parse, self.switch, self.many, self.present, self.required = parse, switch, many, 0, required

    def check(self, value: _Any) -> None:
        """That it is within the bounds."""
        if self.lower is not None and value < self.lower or self.upper is not None and value > self.upper:
            low, high = ("" if bound is None else bound for bound in (self.lower, self.upper))
            raise ValueError(f"{value} is not in the range [{low}, {high}]")

    def set(self, value: _Any) -> None:
        try:
            for item in value if isinstance(value, (list, tuple)) else [value]:
                if item is not None:
                    self.check(item)
        except ValueError as error:
            raise IllegalFlagValueError(f"flag --{self.name}={value}: {error}") from None
        self.value = value
        self.present += 1

    def take(self, text: _Any) -> None:
        try:
            value = self.parse(text)
            self.check(value)
        except (TypeError, ValueError) as error:
            raise IllegalFlagValueError(f"flag --{self.name}={text}: {error}") from None
        self.value = (self.value if self.present else []) + [value] if self.many else value
        self.present += 1


class FlagValues:
    """The flags of the program, as attributes; the first that is read parses the arguments of the program."""

    def __init__(self) -> None:
        self.__dict__.update(_flags={}, _parsed=False)

    def _find(self, name: str) -> _Flag:
        if name not in self._flags:
            near = _difflib.get_close_matches(name, self._flags, 1)
            raise AttributeError(f"there is no flag {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        return self._flags[name]

    def __getattr__(self, name: str) -> _Any:
        if name.startswith("__"):
            raise AttributeError(name)
        flag = self._find(name)
        if not self._parsed and not flag.present:
            self(_sys.argv)
        return flag.value

    def __setattr__(self, name: str, value: _Any) -> None:
        self._find(name).set(value)

    def __getitem__(self, name: str) -> _Flag:
        return self._find(name)

    def __contains__(self, name: str) -> bool:
        return name in self._flags

    def __iter__(self) -> _Any:
        return iter(self._flags)

    def __dir__(self) -> list[str]:
        return sorted(self._flags)

    def __delattr__(self, name: str) -> None:
        flag = self._find(name)
        for one in {flag.name, flag.short_name} & set(self._flags):
            del self._flags[one]

    def __call__(self, argv: _Sequence[str], known_only: bool = False) -> list[str]:
        """Takes the flags of argv; the others, with the name of the program first."""
        rest, arguments = list(argv[:1]), list(argv[1:])
        while arguments:
            text = arguments.pop(0)
            if text == "--":
                rest += arguments
                break
            if not text.startswith("-") or text == "-" or not self._take(text, arguments, known_only):
                rest.append(text)
        self.__dict__["_parsed"] = True
        for flag in self._flags.values():
            if flag.required and flag.value is None:
                raise IllegalFlagValueError(f"flag --{flag.name}=None: Flag --{flag.name} must have a value other than None.")
        return rest

    def _take(self, text: str, arguments: list[str], known_only: bool) -> bool:
        name, equals, value = text.lstrip("-").partition("=")
        flag = self._flags.get(name)
        if flag is not None:
            if not equals and not flag.switch:
                if not arguments:
                    raise Error(f"Missing value for flag --{name}")
                value = arguments.pop(0)
            flag.take(value if equals or not flag.switch else True)
            return True
        off = self._flags.get(name[2:]) if name.startswith("no") and not equals else None
        if off is not None and off.switch:
            off.take(False)
            return True
        if known_only:
            return False
        near = _difflib.get_close_matches(name, self._flags, 1)
        raise UnrecognizedFlagError(f"Unknown command line flag {name!r}" + (f". Did you mean: {near[0]} ?" if near else ""))

    def mark_as_parsed(self) -> None:
        self.__dict__["_parsed"] = True

    def is_parsed(self) -> bool:
        return self._parsed

    def flag_values_dict(self) -> dict:
        return {name: flag.value for name, flag in self._flags.items()}

    def set_default(self, name: str, value: _Any) -> None:
        flag = self._find(name)
        flag.default = value
        if not flag.present:
            flag.value = value

    def get_help(self) -> str:
        return "\n".join(f"  {f'-{flag.short_name},' if flag.short_name else ''}--{'[no]' if flag.switch else ''}{flag.name}: "
                         f"{flag.help or ''}\n    (default: {flag.default!r})"
                         for name, flag in self._flags.items() if name == flag.name)


FLAGS = FlagValues()


def _define(name: str, default: _Any, help: str | None, parse: _Callable, named: dict,  # noqa: A002
            bounded: bool = False, **options: bool) -> None:
    known = {"required", "short_name"} | ({"lower_bound", "upper_bound"} if bounded else set())
    for key in named.keys() - known:
        raise TypeError(f"flag --{name}: an argument {key!r} of the definition does not exist; "
                        f"{', '.join(sorted(known))} do")
    flag = _Flag(name, None, help, parse, **options, **named)
    for one in (name, flag.short_name):
        if one in FLAGS:
            raise Error(f"The flag {one!r} is defined twice.")
    if flag.required and default is not None:
        raise ValueError(f"flag --{name} is required, so that its default is None, not {default!r}")
    if default is not None:
        for value in default if options.get("many") and isinstance(default, (list, tuple)) else [default]:
            flag.take(value)
        flag.default, flag.present = flag.value, 0
    for one in filter(None, (name, flag.short_name)):
        FLAGS._flags[one] = flag


def _switch(value: _Any) -> bool:
    text = str(value).lower()
    if text in ("true", "t", "1"):
        return True
    if text in ("false", "f", "0"):
        return False
    raise ValueError(f"Non-boolean argument to boolean flag: {value}")


def _items(value: _Any) -> list[str]:
    return [item.strip() for item in value.split(",")] if isinstance(value, str) and value else list(value)


def DEFINE_string(name: str, default: str | None, help: str | None = None, **named: _Any) -> None:  # noqa: A002,N802
    """A flag with a text."""
    _define(name, default, help, _os.fspath, named)


def DEFINE_integer(name: str, default: int | None, help: str | None = None, **named: _Any) -> None:  # noqa: A002,N802
    """A flag with an integer."""
    _define(name, default, help, int, named, bounded=True)


def DEFINE_float(name: str, default: float | None, help: str | None = None, **named: _Any) -> None:  # noqa: A002,N802
    """A flag with a number."""
    _define(name, default, help, float, named, bounded=True)


def DEFINE_boolean(name: str, default: bool | None, help: str | None = None, **named: _Any) -> None:  # noqa: A002,N802
    """A flag that is --name or --noname."""
    _define(name, default, help, _switch, named, switch=True)


def DEFINE_enum(name: str, default: str | None, enum_values: _Sequence[str], help: str | None = None,  # noqa: A002,N802
                **named: _Any) -> None:
    """A flag with one of some values."""
    def parse(value: str) -> str:
        if value not in enum_values:
            raise ValueError(f"value should be one of <{'|'.join(enum_values)}>")
        return value

    _define(name, default, help, parse, named)


def DEFINE_list(name: str, default: _Any, help: str | None = None, **named: _Any) -> None:  # noqa: A002,N802
    """A flag with values between commas."""
    _define(name, default, help, _items, named)


def DEFINE_multi_string(name: str, default: _Any, help: str | None = None, **named: _Any) -> None:  # noqa: A002,N802
    """A flag that may be given several times, with texts."""
    _define(name, default, help, str, named, many=True)


def DEFINE_multi_integer(name: str, default: _Any, help: str | None = None, **named: _Any) -> None:  # noqa: A002,N802
    """A flag that may be given several times, with integers."""
    _define(name, default, help, int, named, bounded=True, many=True)


def DEFINE_multi_float(name: str, default: _Any, help: str | None = None, **named: _Any) -> None:  # noqa: A002,N802
    """A flag that may be given several times, with numbers."""
    _define(name, default, help, float, named, bounded=True, many=True)


DEFINE_bool = DEFINE_boolean


def mark_flag_as_required(flag_name: str) -> None:
    """Parsing raises where the flag has no value."""
    FLAGS[flag_name].required = True


def mark_flags_as_required(flag_names: _Sequence[str]) -> None:
    """Says that these flags must be given."""
    for name in flag_names:
        mark_flag_as_required(name)


def _parse(argv: _Any) -> list[str]:
    """What is left of the arguments of a program; unknown flags stay, as TensorFlow's app.run has it."""
    argv = list(_sys.argv if argv is None else argv)
    if any(text in ("-h", "--help", "-help", "--helpfull") for text in argv[1:]) and FLAGS._flags and "help" not in FLAGS:
        print(f"flags of {_os.path.basename(argv[0])}:\n{FLAGS.get_help()}")
        raise SystemExit(1)
    return FLAGS(argv, known_only=True)


__getattr__ = _module_getattr(__name__)
