"""Includes go one way: the tables in src/README.md and src/control/README.md say which folder may use which."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
# Rooms of the programs, from the ground up.
PROGRAM_ROOMS = ("cli/view", "cli/explain", "cli/trace", "cli/top", "cli/report", "cli/export", "cli/daemon", "cli",
                 "daemon/base", "daemon/profiles", "daemon/keeper", "daemon/asker", "daemon/worker", "daemon/supervisor", "daemon")


def table(path):
    """Rows of a README's table whose first cell is a folder."""
    for line in path.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if re.fullmatch(r"`[\w/]+`", cells[0]):
            yield cells[0].strip("`"), cells


def room_of(path):
    """The supervisor is one loop over one state: its folders are shelves of one room."""
    folder = path.parent.relative_to(SRC).as_posix()
    return re.sub(r"(/x86_64|/lttng(?<=bridge/lttng)|/lines(?<=target/lines)|/signals(?<=target/signals)|(?<=daemon/supervisor)/\w+)$", "", folder)


def edges():
    """(file, folder, folder included) for each include that leaves its folder."""
    for path in sorted([*SRC.rglob("*.[chS]")]):
        for name in INCLUDE.findall(path.read_text()):
            beside, below = path.parent / name, SRC / name
            target = beside if beside.exists() else below
            if not target.exists() or SRC not in target.resolve().parents:
                continue
            if room_of(path) != room_of(target.resolve()):
                yield path.relative_to(ROOT).as_posix(), room_of(path), room_of(target.resolve())


CONTROL = [f"control/{name}" for name, _ in table(SRC / "control/README.md")]
MAY_USE = {name: re.findall(r"`([\w/]+)`", cells[2]) for name, cells in table(SRC / "README.md")}
ORDER = [*CONTROL, *PROGRAM_ROOMS]


def is_allowed(user, used):
    if user in ORDER and used in ORDER and user.split("/")[0] == used.split("/")[0]:
        return ORDER.index(used) < ORDER.index(user)
    allowed = MAY_USE.get(user) or MAY_USE[user.split("/")[0]]
    return any(used == name or used.startswith(name + "/") for name in allowed)


def test_every_folder_is_in_a_table():
    folders = {room_of(path) for path in SRC.rglob("*.[chS]")}
    unknown = {folder for folder in folders if folder not in ORDER and folder not in MAY_USE}
    assert not unknown
    gone = {name for name in [*CONTROL, *PROGRAM_ROOMS] if not (SRC / name).is_dir()}
    assert not gone


def test_includes_go_downward():
    wrong = [f"{path}: {user} -> {used}" for path, user, used in edges() if not is_allowed(user, used)]
    assert not wrong


def test_the_order_would_be_noticed():
    """The check itself: upward, sideways and unknown edges are refused, downward ones allowed."""
    assert is_allowed("control/session", "control/patch")
    assert not is_allowed("control/patch", "control/session")
    assert not is_allowed("daemon/worker", "cli")
    assert not is_allowed("cli/view", "cli/trace")
    assert not is_allowed("target", "control/base")
    assert not is_allowed("client", "control/proc")
    assert len([*edges()]) > 300
