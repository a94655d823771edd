"""Tessera's comments as Doxygen reads them.

In Tessera a comment above a declaration is also that of the declarations that follow it line by line, as
long as it can be about them: one that says what a function does ("Reads …"), or what a class is where no
class follows, holds for related names alone, which share a word with those before or with the comment.
And `// …` behind a field or an enumerator is its comment. Doxygen knows neither, so it is given headers in
which such a comment is repeated and such a `//` is `///<`. Each line keeps the number of the line that it
stems from, for messages. Only as much C++ is understood here as formatted headers need.
"""

import dataclasses
import re
from typing import NamedTuple, Sequence

# Names in it are users' names, whatever it is called.
_ISA_NAMESPACE = re.compile(
    r"^(inline namespace TESSERA_ISA_NAMESPACE \{|\}  // namespace TESSERA_ISA_NAMESPACE)$")
_SKIPPED = re.compile(
    r"//[^\n]*|/\*.*?\*/|R\"(?P<mark>\w*)\(.*?\)(?P=mark)\"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])'",
    re.DOTALL)
_SCOPE = re.compile(
    r"(?:^|[\s>)])(namespace|class|struct|union|enum)\b(?:\s+(?:class|struct)\b)?"
    r"(?:\s*\[\[[^\]]*\]\]|\s+alignas\([^)]*\))*\s*([\w:]*)(?:\s*<[^()]*>)?(?:\s+final)?(?:\s*:[^:].*)?\s*$",
    re.DOTALL)
_ACCESS = re.compile(r"^\s*(public|protected|private)\s*:$")
_REQUIREMENT = re.compile(r"\brequires\s*(\([^()]*(\([^()]*\)[^()]*)*\))?\s*$")
_SEVERAL = re.compile(
    r"(\s*(?:(?:static|constexpr|inline|const) )*[\w:]+) "
    r"(\w+(?: = [^,;(]*)?(?:, \w+(?: = [^,;(]*)?)+);(?: +///<(.*))?$")
_SPECIAL = re.compile(r"= (delete|default);$|~\w+\(|\(\w+&&( \w+)?\)")
_DOES = re.compile(r"\s*/// [A-Z][a-z]+s\b")
_TEMPLATE = re.compile(r"^\s*template\s*<([^<>]|<([^<>]|<[^<>]*>)*>)*>")
_FILE_COMMENT = re.compile(r"^namespace \w")
_TRAILING = re.compile(r"^(.*[;,{}\w)].*?\s)// (?!NOLINT|clang-format|namespace)(.*)$")


@dataclasses.dataclass
class Line:
    """A line of a translated header."""
    text: str
    number: int  # in the header, from 1


@dataclasses.dataclass
class Declaration:
    """Something declared in a namespace, a class or an enumeration; lines count from 0."""
    first: int
    last: int = -1
    has_body: bool = False
    is_enumerator: bool = False
    is_type: bool = False  # with a body
    owner: str = ""  # the class that it is a member of


class _Group(NamedTuple):
    """Declarations with one comment."""
    comment: list[str]
    names: list[str]
    of_constructor: bool
    on_type: bool


class _Scope(NamedTuple):
    """What braces belong to."""
    kind: str
    name: str = ""
    declaration: Declaration | None = None


class _Scanner:
    """Finds declarations, in one pass over the characters of a header."""

    def __init__(self, text: str):
        # Comments become blanks, strings empty ones of the same length.
        self._lines = _SKIPPED.sub(self._blank, text).split("\n")
        self._scopes: list[_Scope] = [_Scope("namespace")]
        self._current: Declaration | None = None
        self._head = ""  # of the current declaration
        self._nested = 0  # braces, parentheses and brackets inside it
        self._in_requirement = False
        self.declarations: list[Declaration] = []

    @staticmethod
    def _blank(match: re.Match[str]) -> str:
        kept = re.sub(r"[^\n]", " ", match[0])
        return kept if match[0].startswith("/") else f'"{kept[1:-1]}"'

    def scan(self) -> list[Declaration]:
        number = 0
        while number < len(self._lines):
            if self._lines[number].lstrip().startswith("#"):
                number = self._directive(number)
            else:
                for column, character in enumerate(self._lines[number]):
                    self._take(character, number, column)
                self._head += "\n"
            number += 1
        return self.declarations

    def _directive(self, first: int) -> int:
        last = first
        while self._lines[last].rstrip().endswith("\\"):
            last += 1
        if self._lines[first].lstrip().startswith("#define"):
            self.declarations.append(Declaration(first, last, has_body=True))
        return last

    def _take(self, character: str, number: int, column: int) -> None:
        if self._current is None:
            if character == "}":
                self._leave(number)
            if character.isspace() or character in ";}":
                return
            scope = self._scopes[-1]
            self._current = Declaration(number, is_enumerator=scope.kind == "enum", owner=scope.name)
            self._head = ""
        if character == "}" and self._nested == 0:  # behind the last enumerator
            self._end(number - (not self._lines[number][:column].strip()))
            self._leave(number)
            return
        self._head += character
        if character in "([":
            self._nested += 1
        elif character in ")]":
            self._nested -= 1
        elif character == "{":
            self._open()
        elif character == "}":
            self._close(number, column)
        elif self._nested == 0 and (character == ";" or
                                    character == "," and self._current.is_enumerator):
            self._end(number)
        elif character == ":" and self._nested == 0 and _ACCESS.match(self._head):
            self._current = None

    def _open(self) -> None:
        assert self._current
        head = self._head[:-1]
        scope = _SCOPE.search(head) if self._nested == 0 else None
        if scope:
            if scope[1] == "namespace":
                self._scopes.append(_Scope("namespace"))
            else:
                self._current.has_body = True
                self._current.is_type = True
                self.declarations.append(self._current)
                self._scopes.append(_Scope(scope[1], scope[2], self._current))
            self._current = None
            return
        if self._nested == 0:
            self._in_requirement = bool(_REQUIREMENT.search(head))
        self._nested += 1

    def _close(self, number: int, column: int) -> None:
        self._nested -= 1
        if self._nested > 0 or self._in_requirement:
            return
        rest = "".join([self._lines[number][column + 1:], *self._lines[number + 1:number + 3]])
        # Behind an initializer in braces its declaration goes on.
        if rest.lstrip()[:1] not in tuple(";,{"):
            assert self._current
            self._current.has_body = True
            self._end(number)

    def _end(self, number: int) -> None:
        assert self._current
        self._current.last = number
        self.declarations.append(self._current)
        self._current = None

    def _leave(self, number: int) -> None:
        declaration = self._scopes.pop().declaration
        if declaration:
            declaration.last = number


def declarations(text: str) -> list[Declaration]:
    """What a header declares outside of functions, in the order of first lines."""
    return sorted(_Scanner(text).scan(), key=lambda declaration: declaration.first)


def _line_before(lines: list[str], first: int) -> int:
    """The line above, over directives: `#if` and `#else` part no group."""
    before = first - 1
    while before >= 0 and re.match(r"\s*#\s*(if|el|endif)", lines[before]):
        before -= 1
    return before


def _comment_above(lines: list[str], first: int) -> list[str]:
    first = begin = _line_before(lines, first) + 1
    while begin > 0 and re.match(r"\s*///(?!<)", lines[begin - 1]):
        begin -= 1
    return lines[begin:first]


def _name(lines: list[str], declaration: Declaration) -> str:
    """What is declared, as far as its words say what it is about."""
    text = _TEMPLATE.sub("", " ".join(lines[declaration.first:declaration.last + 1]))
    scope = re.match(r"\s*(?:class|struct|union|enum(?: class)?|concept|using|#\s*define)\s+(\w+)", text)
    if scope:
        return scope[1]
    operator = re.search(r"\boperator\b", text)
    head = re.split(r"[(={;]", text)[0]
    while "<" in head and not operator:
        head, rest = re.sub(r"<[^<>]*>", "", head), head
        if head == rest:
            break
    found = re.findall(r"\w+", head)
    return "operator" if operator else found[-1] if found else ""


def _words(text: str) -> set[str]:
    """The words of a name or a comment, by their first four letters."""
    return {word[:4].lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", text)
            if len(word) > 1}


def _holds_for(group: _Group, name: str, is_type: bool) -> bool:
    """Whether the group's comment can be about this name, too."""
    does = group.comment and _DOES.match(group.comment[0])
    if name in group.names or not does and (is_type or not group.on_type):
        return True
    return bool(_words(name) & _words(" ".join([*group.names, *group.comment])))


def _is_constructor(lines: list[str], declaration: Declaration) -> bool:
    text = " ".join(lines[declaration.first:declaration.last + 1])
    return bool(declaration.owner) and bool(
        re.search(rf"(^|\s){re.escape(declaration.owner)}$", text.partition("(")[0]))


def _mark_trailing(lines: list[str], last: int) -> None:
    """Makes the `//` behind a declaration, and those below it in the same column, `///<`."""
    found = _TRAILING.match(lines[last])
    if not found:
        return
    lines[last] = f"{found[1]}///< {found[2]}"
    below = last + 1
    while below < len(lines) and lines[below].startswith(" " * len(found[1]) + "// "):
        lines[below] = lines[below].replace("// ", "///< ", 1)
        below += 1


def _with_tables(lines: list[Line]) -> list[Line]:
    """Indented lines of a comment that continue no list are a table, which Markdown wants as code."""
    result = []
    in_list = in_table = False
    for line in lines:
        found = re.match(r"(\s*///)( *)(.*)$", line.text)
        if not found or not found[3]:
            in_list = in_table = False
        elif len(found[2]) < 3:
            if in_table:
                result.append(Line(found[1], line.number))
            in_list = bool(re.match(r"(-|\d+\.) ", found[3]))
            in_table = False
        elif len(found[2]) < 5 and not in_list:
            if not in_table:
                result.append(Line(found[1], line.number))
            in_table = True
        if in_table:
            line = Line(f"{found[1]}    {found[2]}{found[3]}", line.number)
        result.append(line)
    return result


def translated(text: str) -> list[Line]:
    """A header for Doxygen."""
    lines = [("" if _ISA_NAMESPACE.match(line) else line) for line in text.split("\n")]
    repeated: dict[int, list[str]] = {}
    # Comments by the last line of what they belong to, with what else they belong to.
    above: dict[int, _Group] = {}
    for declaration in declarations("\n".join(lines)):
        if not declaration.has_body:
            _mark_trailing(lines, declaration.last)
        if declaration.is_enumerator:
            continue
        comment = _comment_above(lines, declaration.first)
        constructs = _is_constructor(lines, declaration)
        name = _name(lines, declaration)
        group = _Group(comment, [], constructs, declaration.is_type)
        if not comment:
            group = above.get(_line_before(lines, declaration.first), group)
            is_type = declaration.is_type or bool(re.match(r"\s*using\b", lines[declaration.first]))
            if group.of_constructor and not constructs or not _holds_for(group, name, is_type):
                continue
            comment = group.comment
            last = lines[declaration.last]
            if "///<" not in last and not _SPECIAL.search(last):
                repeated[declaration.first] = comment
        if comment:
            above[declaration.last] = group._replace(names=[*group.names, name], of_constructor=constructs)
        several = _SEVERAL.match(lines[declaration.last])
        if several:
            # Each name on a line, with the comment.
            own = [f"///{several[3]}"] if several[3] else comment
            each = [[*own, f"{several[1]} {name};"] for name in several[2].split(", ")]
            repeated[declaration.first] = [line for group in each for line in group][:-1]
            lines[declaration.last] = each[-1][-1]
    # What stands above a header's first namespace speaks of the header.
    outer = next((n for n, line in enumerate(lines) if _FILE_COMMENT.match(line)), 0)
    about = _comment_above(lines, outer)
    if about:
        repeated[outer - len(about)] = ["/// @file"]
        repeated[outer] = [""]
    result = []
    for number, line in enumerate(lines):
        result += [Line(text, number + 1) for text in [*repeated.get(number, []), line]]
    return _with_tables(result)
