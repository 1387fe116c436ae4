"""Damages copies of a trace, each in a way that its number decides: text of the metadata, heads of packets, bytes of
events, lengths of files, index files, huge sizes."""
import os
import random
import re
import shutil
import struct

HUGE = [0, 1, 7, 8, 0x7f, 0xff, 0xffff, 0x7fffffff, 0xffffffff, 0x100000000, 1 << 40, 1 << 62, (1 << 63) - 1, 1 << 63,
        (1 << 64) - 8, (1 << 64) - 1]
WORDS = ["struct", "variant <tag>", "enum : uint8_t { A, B = 3 ... 2 }", "string", "uint8_t x[18446744073709551615];",
         "integer { size = 0; align = 0; }", "integer { size = 65; align = 8; }", "integer { size = 64; align = 3; }",
         "floating_point { exp_dig = 0; mant_dig = 0; align = 1; }", "typedef", ":=", "}", "{", ";", "\0", "\"", "/*",
         "[packet_size]", "clock", "callsite { };", "struct { " * 300, "align(1 << 63)", "-1", "9" * 40, "\\x", "\\", "é"]
HEAD_SIZE = 96  # magic, stream, UUID and context of a packet, about


def _number_in_text(rng, text):
    places = list(re.finditer(r"\b\d+\b", text))
    if not places:
        return text
    place = rng.choice(places)
    return text[:place.start()] + str(rng.choice(HUGE + [3, 5, 9, 63, 65, 1000])) + text[place.end():]


def _word_in_text(rng, text):
    places = list(re.finditer(r"[\w.]+|[^\s\w]", text))
    place, other = rng.choice(places), rng.choice(places)
    new = rng.choice([rng.choice(WORDS), other.group(), "", place.group() * 2])
    return text[:place.start()] + new + text[place.end():]


def _lines_of_text(rng, text):
    lines = text.split("\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    change = rng.randrange(4)
    if change == 0:
        del lines[at]
    elif change == 1:
        lines.insert(at, lines[other])
    elif change == 2:
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines[at:at] = [lines[other]] * 3000
    return "\n".join(lines)


def metadata(rng, folder, streams):
    path = os.path.join(folder, "metadata")
    with open(path, encoding="latin-1", newline="") as file:
        text = file.read()
    for _ in range(rng.choice([1, 1, 2, 5])):
        text = rng.choice([_number_in_text, _number_in_text, _word_in_text, _lines_of_text])(rng, text)
    with open(path, "w", encoding="latin-1", errors="replace", newline="") as file:
        file.write(text)


def metadata_bytes(rng, folder, streams):
    """Also as packets, of which the first has a damaged head."""
    path = os.path.join(folder, "metadata")
    with open(path, "rb") as file:
        data = bytearray(file.read())
    if rng.random() < 0.4:
        size = len(data) * 8
        head = [rng.choice([size + 296, *HUGE]) & 0xffffffff for _ in range(2)]
        data[:0] = struct.pack("<I16sIIIBBBBB", 0x75d11d57, bytes(16), rng.choice([0, *HUGE]) & 0xffffffff, *head,
                               rng.choice([0, 0, 1, 255]), rng.choice([0, 0, 255]), 0, 1, 8)
    for _ in range(rng.choice([0, 1, 4])):
        data[rng.randrange(len(data))] = rng.randrange(256)
    with open(path, "wb") as file:
        file.write(data)


def head(rng, folder, streams):
    path = rng.choice(streams)
    with open(path, "r+b") as file:
        for _ in range(rng.choice([1, 1, 2, 4])):
            file.seek(rng.randrange(0, HEAD_SIZE, 4))
            width, value = rng.choice([("<B", 0xff), ("<I", 0xffffffff), ("<Q", (1 << 64) - 1)])
            file.write(struct.pack(width, rng.choice(HUGE) & value))


def events(rng, folder, streams):
    path = rng.choice(streams)
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        for _ in range(rng.choice([1, 3, 20, 200])):
            file.seek(rng.randrange(min(HEAD_SIZE, size - 1), size))
            file.write(bytes([rng.choice([0, 1, 0x7f, 0x80, 0xff, rng.randrange(256)])]))


def lengths(rng, folder, streams):
    path = rng.choice([*streams, os.path.join(folder, "metadata")])
    size = os.path.getsize(path)
    change = rng.randrange(4)
    if change == 3:
        with open(path, "rb") as file:
            data = file.read()
        cut = rng.randrange(size)
        with open(path, "wb") as file:
            file.write(data[cut:] if rng.random() < 0.5 else data * 2 + data[:cut])
    else:
        os.truncate(path, rng.choice([rng.randrange(size), size + rng.choice([1, 7, 8, 4096, 1 << 20]), 1 << 40]))


def index(rng, folder, streams):
    """An index as LTTng writes, which lies somewhere."""
    os.makedirs(os.path.join(folder, "index"), exist_ok=True)
    path = rng.choice(streams)
    size = os.path.getsize(path)
    values = [0, size * 8, size * 8, 0, 1 << 40, 0, 0, 0, 0]
    for _ in range(rng.choice([0, 1, 3])):
        values[rng.randrange(len(values))] = rng.choice(HUGE)
    top = [0xC1F1DCC1, 1, rng.choice([0, 1]), rng.choice([72, 56, 72, 72, 0, 1, 0xffffffff, 1 << 16])]
    if rng.random() < 0.2:
        top[rng.randrange(4)] = rng.choice(HUGE) & 0xffffffff
    with open(os.path.join(folder, "index", os.path.basename(path) + ".idx"), "wb") as file:
        file.write(struct.pack(">IIII", *top) + struct.pack(">9Q", *values) * rng.choice([1, 1, 2, 1000]))


KINDS = [metadata, metadata, metadata_bytes, head, head, events, lengths, index]


def damage(trace, folder, number):
    """Makes `folder` a copy of the trace with damage `number`; gives the name of what was done."""
    rng = random.Random(number)
    kind = KINDS[number % len(KINDS)]
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(trace, folder)
    streams = sorted(os.path.join(folder, name) for name in os.listdir(folder)
                     if name != "metadata" and not name.startswith(".") and os.path.getsize(os.path.join(folder, name)))
    kind(rng, folder, streams)
    return kind.__name__
