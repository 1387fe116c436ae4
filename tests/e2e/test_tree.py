"""The tree's own rules: names, sizes and descriptions of folders, width of lines, and a check per numbered rule."""
import collections
import pathlib
import re


THIS = pathlib.Path(__file__).resolve()
ROOT = THIS.parents[2]
SRC = ROOT / "src"
SOURCES = {".c", ".h", ".S"}
FILES_AT_MOST = 30
FILES_AIM = 25
COLUMNS = 100

# "(B1) A chunk has one owner" at the start of a comment line. H numbers are hazards of targets, not rules of a file.
DEFINITION = re.compile(r"^(/\*|[ \t]*\*)[ \t]+\(((?!H)[A-Z]\d+)\) [\w`]", re.M)
ASSERT = re.compile(r"\b(?:static_)?assert\(.*?;[^\n]*", re.S)
COMMENT = re.compile(r'/\*.*?\*/|""".*?"""|#[^\n]*', re.S)
CITATION = re.compile(r"\b[A-Z]\d+\b")


def sources(folder=SRC, suffixes=frozenset(SOURCES)):
    return sorted(path for path in folder.rglob("*") if path.suffix in suffixes)


def shown(paths):
    return ", ".join(str(path.relative_to(ROOT)) for path in paths)


def test_names_are_unique():
    """An #include or a message that names a file means one file."""
    places = collections.defaultdict(list)
    for path in SRC.rglob("*"):
        if path.is_file() and path.name not in ("README.md", "meson.build"):
            places[path.name].append(path)
    assert not [shown(paths) for paths in places.values() if len(paths) > 1]


def test_folders_are_small():
    counts = collections.Counter(path.parent for path in sources())
    print("\n".join(f"{shown([folder])}: {count} files" for folder, count in counts.items() if count > FILES_AIM))
    assert not {shown([folder]): count for folder, count in counts.items() if count > FILES_AT_MOST}


def test_folders_have_a_readme():
    """Code for one architecture is described by the folder above it."""
    folders = {path.parent.parent if path.parent.name == "x86_64" else path.parent for path in sources()}
    assert not [shown([folder]) for folder in sorted(folders) if not (folder / "README.md").exists()]


def wide_lines(folder):
    for path in sources(folder, {".c", ".h"}):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            # a text that users see stays whole, so that it can be found; a single name can't be broken
            if len(line.expandtabs(8)) > COLUMNS and '"' not in line and " " in line.strip():
                yield f"{shown([path])}:{number}"


def test_lines_are_short():
    assert not [*wide_lines(SRC), *wide_lines(ROOT / "tests")]


def rules():
    """The numbered rules of src/: {number: files that define it, each as often as it does}."""
    defined, noted = collections.defaultdict(list), collections.defaultdict(list)
    for path in sources():
        for begin, number in DEFINITION.findall(path.read_text()):
            (noted if begin == "/*" else defined)[number].append(path)
    # "/* (B1) ... */" above a function refers to a rule, unless the rule stands nowhere else.
    return {**{number: sorted(set(paths)) for number, paths in noted.items()}, **defined}


def citations():
    """The numbers that asserts in src/ and comments and docstrings in tests/ cite."""
    texts = [match for path in sources() for match in ASSERT.findall(path.read_text())]
    texts += [match for path in sources(ROOT / "tests", {".c", ".h", ".S", ".py", ".cpp"}) if path != THIS
              for match in COMMENT.findall(path.read_text())]
    return {number for text in texts for number in CITATION.findall(text)}


def test_rules_have_one_definition():
    """A citation leads to one rule."""
    assert not {number: shown(sorted(paths)) for number, paths in rules().items() if len(paths) > 1}


def test_rules_are_checked():
    """Each rule is cited by an assert, `assert(condition); /* B1 */`, or by a test."""
    cited = citations()
    assert not {number: shown(sorted(paths)) for number, paths in rules().items() if number not in cited}
