# SPDX-License-Identifier: Apache-2.0
"""Structures of values: dicts, tuples and leaves, and the names that their leaves have as components of a dataset."""
from __future__ import annotations

from typing import Any, Callable

LEAF = object()


def map_structure(function: Callable, value: Any) -> Any:
    if isinstance(value, dict):
        return {key: map_structure(function, item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(map_structure(function, item) for item in value)
    return function(value)


def structure(value: Any) -> Any:
    """The same with LEAF for every leaf."""
    return map_structure(lambda _: LEAF, value)


def flatten(value: Any) -> list:
    """The leaves; dicts in the order of their keys, which is what pack expects."""
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in flatten(value[key])]
    if isinstance(value, tuple):
        return [leaf for item in value for leaf in flatten(item)]
    return [value]


def pack(form: Any, leaves: list) -> Any:
    """The structure `form` with these leaves, as flatten has them."""
    rest = iter(leaves)

    def build(part: Any) -> Any:
        if isinstance(part, dict):
            made = {key: build(part[key]) for key in sorted(part)}
            return {key: made[key] for key in part}
        if isinstance(part, tuple):
            return tuple(build(item) for item in part)
        return next(rest)

    return build(form)


def names(form: Any) -> list[str]:
    """A name for every leaf, in the order of flatten. Keys of dicts are names, so that columns find their features;
    a second part of a pair that has none is "label", anything else "x", "x_1", ..."""
    found: list[str] = []

    def add(part: Any, prefix: str, plain: str) -> None:
        if isinstance(part, dict):
            for key in sorted(part):
                add(part[key], f"{prefix}{key}/", f"{prefix}{key}")
        elif isinstance(part, tuple):
            for i, item in enumerate(part):
                if part is form and i == 2 and isinstance(item, dict) and not set(found).isdisjoint(item):
                    add(item, "sample_weight/", "sample_weight")  # of outputs, whose labels have these keys
                    continue
                add(item, prefix, "label" if i == 1 and prefix == "" and part is form and len(part) == 2 else
                    plain if i == 0 else f"{plain}_{i}")
        else:
            found.append(plain)

    add(form, "", "x")
    doubled = sorted({name for name in found if found.count(name) > 1})
    if doubled:
        raise ValueError(f"the parts of an element have the same name twice: {', '.join(doubled)}; rename one of them "
                         "(labels that are not a dict are called \"label\")")
    return found


def check_dict_keys(form: Any) -> None:
    if isinstance(form, dict):
        for key, item in form.items():
            if not isinstance(key, str):
                raise TypeError(f"keys of features are strings; {key!r} is {type(key).__name__}")
            check_dict_keys(item)
    elif isinstance(form, tuple):
        for item in form:
            check_dict_keys(item)
