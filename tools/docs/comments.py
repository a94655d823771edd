"""Finds public names without a comment in Doxygen's XML.

Every class, function, constant, type and macro that a public header declares, and every public or protected
member, has a comment or shares that of the declaration right above. What needs none:

- enumerators of an enumeration that has one;
- members of expression nodes and functors, which belong to interfaces that operand.h and functors.h
  describe, and of mshadow's types, which mean what they did, once node, functor or type has one;
- constructors, of which the class's comment speaks where they have none of their own;
- what the language or a base class has said: whatever copies, moves, or is `= default` or `= delete`,
  destructors, overriding functions, friends, using-declarations, specializations of a template with those
  of their members that the template has or another one explains, and specializations of others' templates.
"""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Iterator, NamedTuple

_COMPOUNDS = ("class", "struct", "union", "concept")
_CONTAINERS = _COMPOUNDS + ("namespace", "file")
_INTERFACES = re.compile(r"tessera::(expr|op|red|sv)::\w|mshadow::([a-z]+::)*[A-Z]")
_SPECIAL = re.compile(r"=\s*(default|delete)\b")


class Uncommented(NamedTuple):
    """A public name without a comment."""
    file: str
    line: int
    name: str


def _has_comment(element: ElementTree.Element) -> bool:
    return any("".join(found.itertext()).strip()
               for part in ("briefdescription", "detaileddescription")
               for found in element.findall(part))


def _text(element: ElementTree.Element, child: str) -> str:
    found = element.find(child)
    return "".join(found.itertext()) if found is not None else ""


def _copies_or_moves(owner: str, name: str, arguments: str) -> bool:
    """Whether this assigns another object of class `owner`."""
    return name == "operator=" and bool(
        re.match(rf"\((const )?{owner}(\s?<[^()]*>)? ?&&? ?\w*\)", arguments))


def _needs_none(owner: str, member: ElementTree.Element) -> bool:
    name, arguments = _text(member, "name"), _text(member, "argsstring")
    return (member.get("kind") == "friend" or name.startswith(("~", "@")) or name == owner or
            name.endswith("_internal") or bool(_SPECIAL.search(arguments)) or
            member.find("reimplements") is not None or
            bool(re.search(r"\b(override|final)\b", arguments)) or
            _text(member, "type").endswith("->") or
            _copies_or_moves(owner, name, arguments))


def _place(element: ElementTree.Element) -> tuple[str, int]:
    location = element.find("location")
    assert location is not None
    return (location.get("declfile") or location.get("file", ""),
            int(location.get("declline") or location.get("line", "0")))


def uncommented(xml: Path) -> Iterator[Uncommented]:
    """The names that lack a comment, in no order."""
    seen = set()
    compounds = [compound for file in sorted(xml.glob("*.xml")) if file.name != "index.xml"
                 for compound in ElementTree.parse(file).iter("compounddef")]
    # What a template has, or one of its specializations explains.
    explained: dict[str, set[str]] = {}
    for compound in compounds:
        template, is_special, _ = _text(compound, "compoundname").partition("<")
        explained.setdefault(template.rstrip(), set()).update(
            _text(member, "name") for member in compound.iter("memberdef")
            if not is_special or _has_comment(member))
    for compound in compounds:
        kind, name = compound.get("kind"), _text(compound, "compoundname")
        if kind not in _CONTAINERS or "@" in name or compound.get("prot") == "private":
            continue
        template = name.partition("<")[0].rstrip()
        scope, _, owner = template.rpartition("::")
        if (kind in _COMPOUNDS and name == template and not _has_comment(compound) and
                not _INTERFACES.match(scope)):
            yield Uncommented(*_place(compound), name)
        if kind in _COMPOUNDS and _INTERFACES.match(name):
            continue
        if template.startswith(("std::", "Eigen::")):
            continue
        said = explained[template] if name != template else set()
        for member in compound.iter("memberdef"):
            if member.get("id") in seen or member.get("prot") == "private" or _text(member, "name") in said:
                continue
            seen.add(member.get("id"))
            if not _has_comment(member) and not _needs_none(owner, member):
                prefix = "" if kind == "file" else name + "::"
                yield Uncommented(*_place(member), prefix + _text(member, "name"))
