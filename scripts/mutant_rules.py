"""The rules by which scripts/mutants changes a line of C++: small mistakes that a person makes.

A rule looks at one line in which comments and strings are blanked, and yields (begin, end, replacement). The formatter
puts spaces around binary operators and none around the brackets of templates: this tells them apart.
"""
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    file: str  # from the root of the tree
    line: int  # from 1
    rule: str
    before: str
    after: str

    @property
    def layer(self):
        return self.file.split("/")[1]

    @property
    def drops_or_negates(self):
        return self.rule in ("statement deleted", "condition negated", "equal for unequal")

    def __str__(self):
        return f"{self.file}:{self.line}  {self.rule}\n    - {self.before.strip()}\n    + {self.after.strip()}"


def blank(text):
    """The text with comments, strings and preprocessor lines replaced by spaces; every character stays in its place."""
    spaces = lambda found: re.sub(r"[^\n]", " ", found.group())
    text = re.sub(r'//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', spaces, text)
    return re.sub(r"^ *#[^\n]*", spaces, text, flags=re.MULTILINE)


def matching(line, opening):
    """Where the bracket at `opening` is closed in this line; -1 if it is not."""
    depth = 0
    for at in range(opening, len(line)):
        depth += (line[at] in "([{") - (line[at] in ")]}")
        if depth == 0:
            return at
    return -1


def swap(line, pattern, other):
    for found in re.finditer(pattern, line):
        yield found.start(1), found.end(1), other[found.group(1)]


def boundary(line):
    if not re.match(r" *template", line):
        yield from swap(line, r" (<=?|>=?) ", {"<": "<=", "<=": "<", ">": ">=", ">=": ">"})


def connective(line):
    yield from swap(line, r" (&&|\|\|) ", {"&&": "||", "||": "&&"})


def arithmetic(line):
    yield from swap(line, r"[\w)\]] ([+-]|[+-]=) ", {"+": "-", "-": "+", "+=": "-=", "-=": "+="})


def step(line):
    yield from swap(line, r"(\+\+|--)", {"++": "--", "--": "++"})


def off_by_one(line):
    if not re.match(r" *(template|static_assert|using|namespace)", line):
        for found in re.finditer(r"(?<![\w.:'])\d+(?![\w.'])", line):
            yield found.start(), found.end(), str(int(found.group()) + 1)


def truth(line):
    yield from swap(line, r"\b(true|false)\b", {"true": "false", "false": "true"})


def bound(line):
    yield from swap(line, r"std::(min|max)\b[^(]*\(", {"min": "max", "max": "min"})


def leap(line):
    yield from swap(line, r"^ *(?:if .*)?\b(continue|break);", {"continue": "break", "break": "continue"})


def dropped_condition(line):
    """One term of a chain of && or ||."""
    for found in re.finditer(r" (?:&&|\|\|) ", line):
        depth = 0
        for end in range(found.end(), len(line) + 1):
            at = line[end:end + 4]
            depth += (at[:1] in ("(", "[", "{")) - (at[:1] in (")", "]", "}"))
            if depth < 0 or at[:1] in (";", "?") or (depth == 0 and re.match(r",| && | \|\| | \?", at)):
                break
        if depth <= 0 and end < len(line):
            yield found.start(), end, ""


def swapped_branches(line):
    for found in re.finditer(r" \? ([^?:;,()]+(?:\([^()]*\))?) : ([^?:;,()]+(?:\([^()]*\))?)(?=[;,)])", line):
        yield found.start(), found.end(), f" ? {found.group(2)} : {found.group(1)}"


def negated(line):
    for found in re.finditer(r"\b(?:if|while) (?=\()", line):
        end = matching(line, found.end())
        inside = line[found.end() + 1:end]
        if end > 0 and ";" not in inside and not re.match(r"(const )?[\w:<>]+[&*]? [&*]?\w+ = ", inside):
            yield found.end(), end + 1, f"(!{line[found.end():end + 1]})"
    for found in re.finditer(r"!(?=[\w(*])", line):
        yield found.start(), found.end(), ""


def deleted(line):
    """A call, an assignment to a member, a count: a statement that is one line, or what an if of one line guards."""
    found = re.match(r"( *(?:if \(.*\) |else )?)((?:[\w:.\->\[\]*]+\(.*\)|[\w.\->]+_ [+-]?= .*|(?:\+\+|--)[\w.\->]+);)$", line)
    if found and not re.match(r"(return|throw|delete|co_\w+)\b", found.group(2)) and line.count("(") == line.count(")"):
        yield found.start(2), found.end(2), ";"


RULES = {
    "boundary of a comparison": boundary,
    "and for or": connective,
    "plus for minus": arithmetic,
    "step the other way": step,
    "off by one": off_by_one,
    "true for false": truth,
    "least for most": bound,
    "break for continue": leap,
    "condition dropped": dropped_condition,
    "branches swapped": swapped_branches,
    "equal for unequal": lambda line: swap(line, r" (==|!=) ", {"==": "!=", "!=": "=="}),
    "condition negated": negated,
    "statement deleted": deleted,
}


def mutants(file, text):
    """All mutants of a file, in the order of its lines."""
    lines = text.split("\n")
    for number, line in enumerate(blank(text).split("\n"), 1):
        for rule, changes in RULES.items():
            for begin, end, replacement in changes(line.rstrip()):
                before = lines[number - 1]
                yield Mutant(file, number, rule, before, before[:begin] + replacement + before[end:])


def lines_of_code(text):
    return sum(1 for line in blank(text).split("\n") if re.search(r"\w", line))
