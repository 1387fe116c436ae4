"""Damaged and hostile debug information: an error or fewer details, but no crash, no endless loop, not all memory (Y1, Y2)."""
import lzma
import os
import random
import resource
import struct
import subprocess
import zlib

import pytest

from test_values import compile_program

MEMORY = 1 << 30
CYCLES = """
	.section .debug_abbrev,"",@progbits
	.uleb128 1, 0x11
	.byte 1
	.uleb128 0x25, 0x8, 0x13, 0xb, 0x3, 0x8, 0x11, 0x1, 0x12, 0x7, 0, 0
	.uleb128 2, 0x2e
	.byte 1
	.uleb128 0x3, 0x8, 0x3f, 0x19, 0x11, 0x1, 0x12, 0x7, 0x49, 0x13, 0, 0
	.uleb128 3, 0x5
	.byte 0
	.uleb128 0x3, 0x8, 0x49, 0x13, 0, 0
	.uleb128 4, 0x16
	.byte 0
	.uleb128 0x3, 0x8, 0x49, 0x13, 0, 0
	.uleb128 5, 0x13
	.byte 1
	.uleb128 0x3, 0x8, 0xb, 0xb, 0, 0
	.uleb128 6, 0xd
	.byte 0
	.uleb128 0x3, 0x8, 0x49, 0x13, 0x38, 0xb, 0, 0
	.uleb128 7, 0x1
	.byte 1
	.uleb128 0x49, 0x13, 0, 0
	.uleb128 8, 0x21
	.byte 0
	.uleb128 0x37, 0xb, 0, 0
	.uleb128 9, 0x10
	.byte 0
	.uleb128 0x49, 0x13, 0xb, 0xb, 0, 0
	.uleb128 10, 0xd
	.byte 0
	.uleb128 0x49, 0x13, 0x38, 0xb, 0, 0
	.byte 0
	.section .debug_info,"",@progbits
.Lstart:
	.long .Lend - .Lbegin
.Lbegin:
	.value 4
	.long 0
	.byte 8
	.uleb128 1
	.string "hand"
	.byte 12
	.string "cycle.c"
	.quad cycle
	.quad .Lcycle_end - cycle
	.uleb128 2
	.string "cycle"
	.quad cycle
	.quad .Lcycle_end - cycle
	.long .Lname - .Lstart
	.uleb128 3
	.string "name"
	.long .Lname - .Lstart
	.uleb128 3
	.string "self"
	.long .Lself - .Lstart
	.uleb128 3
	.string "array"
	.long .Larray - .Lstart
	.uleb128 3
	.string "reference"
	.long .Lreference - .Lstart
	.uleb128 3
	.string "empty"
	.long .Lempty - .Lstart
	.uleb128 3
	.string "nowhere"
	.long 0x7fffffff
	.byte 0
.Lname:
	.uleb128 4
	.string "one"
	.long .Lother - .Lstart
.Lother:
	.uleb128 4
	.string "other"
	.long .Lname - .Lstart
.Lself:
	.uleb128 5
	.string "self"
	.byte 8
	.uleb128 6
	.string "inside"
	.long .Lself - .Lstart
	.byte 0
	.uleb128 6
	.string "inside2"
	.long .Lself - .Lstart
	.byte 0
	.rept 60
	.uleb128 10
	.long .Lself - .Lstart
	.byte 0
	.endr
	.byte 0
.Lempty:
	.uleb128 5
	.string "empty"
	.byte 8
	.rept 60
	.uleb128 10
	.long .Lempty - .Lstart
	.byte 0
	.endr
	.byte 0
.Larray:
	.uleb128 7
	.long .Larray - .Lstart
	.uleb128 8
	.byte 4
	.byte 0
.Lreference:
	.uleb128 9
	.long .Lreference - .Lstart
	.byte 8
	.byte 0
.Lend:
	.text
	.globl cycle
	.type cycle, @function
cycle:
	.cfi_startproc
	nop
	nop
	nop
	nop
	nop
	ret
	.cfi_endproc
.Lcycle_end:
	.size cycle, .-cycle
	.globl main
	.type main, @function
main:
	.cfi_startproc
	call cycle
	xor %eax, %eax
	ret
	.cfi_endproc
	.size main, .-main
	.section .note.GNU-stack,"",@progbits
"""


def limited(dyntrace, *words, seconds=20):
    """Runs dyntrace with little memory; gives its exit status. A signal or a timeout fails."""
    done = subprocess.run([dyntrace.path, *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, cwd=dyntrace.scratch,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)))
    assert done.returncode in (0, 1), (done.returncode, words, done.stderr[-500:])
    return done


@pytest.fixture(name="whole", params=[[], ["-gz=zlib"], ["-gdwarf-4", "-fdebug-types-section"], ["-gsplit-dwarf"]],
                ids=["plain", "compressed", "type-units", "split"])
def whole_program(request, scratch):
    return compile_program(scratch, "types.c", "-O1", *request.param, name="whole")


def test_whole(dyntrace, whole):
    """Undamaged information is read, in these forms too."""
    text = dyntrace("list-symbols", "-a", whole, "wide").stdout
    assert text.rstrip().endswith(("wide", "wide  void wide(__int128 w, int after)"))


def test_random_damage(dyntrace, scratch, whole):
    with open(whole, "rb") as file:
        original = file.read()
    rng = random.Random(len(original))
    path = os.path.join(scratch, "damaged")
    sections = subprocess.run(["readelf", "-SW", whole], check=True, capture_output=True, text=True).stdout
    places = [(int(words[4], 16), int(words[5], 16)) for words in
              (line.replace("[ ", "[").split() for line in sections.splitlines()) if len(words) > 6 and words[1].startswith(".debug")]
    for _ in range(12):
        data = bytearray(original)
        for _ in range(rng.choice([1, 4, 30])):
            offset, size = rng.choice(places)
            data[offset + rng.randrange(size)] = rng.randrange(256)
        with open(path, "wb") as file:
            file.write(data)
        limited(dyntrace, "list-symbols", "-a", path)
    for cut in range(1, 6):
        with open(path, "wb") as file:
            file.write(original[:len(original) * cut // 6])
        limited(dyntrace, "list-symbols", "-a", path)


def test_types_that_are_made_of_themselves(dyntrace, scratch):
    path = os.path.join(scratch, "cycle")
    subprocess.run(["gcc", "-x", "assembler", "-", "-o", path], check=True, input=CYCLES, text=True)
    assert "cycle" in limited(dyntrace, "list-symbols", "-a", path, "cycle").stdout.decode()
    result, trace = dyntrace.trace("-e", "--function", "cycle", "--", path, seconds=20)
    assert trace.names() == {"cycle_entry": 1, "cycle_exit": 1}
    for expression in ("self.inside.inside2.inside", "self.missing", "empty", "array[1][2][3]", "reference", "name"):
        dyntrace("trace", "-o", dyntrace.new_output(), "--function", "cycle", "-t", "var:" + expression, "--", path, status=None)


def varint(number):
    """As xz writes numbers: seven bits per byte, the lowest first."""
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


def xz_zeroes(count):
    """So many times 16 MiB of zeroes, as one stream of xz: one block is packed and repeated, and the index lists them all."""
    one = lzma.compress(bytes(16 << 20), check=lzma.CHECK_NONE, preset=0)
    index_size = (struct.unpack("<I", one[-8:-4])[0] + 1) * 4
    head, block, old_index, footer = one[:12], one[12:-12 - index_size], one[-12 - index_size:-12], one[-12:]
    record = old_index[2:old_index.index(varint(16 << 20)) + len(varint(16 << 20))]
    index = b"\0" + varint(count) + record * count
    index += bytes(-len(index) % 4)
    index += struct.pack("<I", zlib.crc32(index))
    size = struct.pack("<I", len(index) // 4 - 1)
    return head + block * count + index + struct.pack("<I", zlib.crc32(size + footer[8:10])) + size + footer[8:]


def test_xz_packs_zeroes():
    assert lzma.decompress(xz_zeroes(2)) == bytes(32 << 20)


def test_compressed_symbols_that_fill_the_memory(dyntrace, scratch):
    """A compressed gigabyte of zeroes."""
    path = compile_program(scratch, "types.c", "-O1", "-g0")
    subprocess.run(["strip", path], check=True)
    bomb = os.path.join(scratch, "bomb.xz")
    with open(bomb, "wb") as file:
        file.write(xz_zeroes(64))
    subprocess.run(["objcopy", f"--add-section=.gnu_debugdata={bomb}", path], check=True)
    assert "fn_" in limited(dyntrace, "list-symbols", path).stdout.decode()


@pytest.mark.parametrize("content", [b"", b"\0", b"/nowhere\0" + bytes(20), b"/proc/self/exe\0", b"/dev/zero\0" + bytes(20),
                                     b"x" * 5000])
def test_wrong_alternative_files(dyntrace, scratch, content):
    """.gnu_debugaltlink to nothing, to an endless file, to itself, and without its terminating zero."""
    path = compile_program(scratch, "types.c", "-O1")
    link = os.path.join(scratch, "link")
    with open(link, "wb") as file:
        file.write(content)
    subprocess.run(["objcopy", f"--add-section=.gnu_debugaltlink={link}", path], check=True)
    limited(dyntrace, "list-symbols", "-a", path)
    _, trace = dyntrace.trace("--function", "wide", "--", path, seconds=20)
    assert len(trace.events) == 1


@pytest.mark.parametrize("link", ["program", "loop", "fifo"])
def test_debug_links_that_lead_nowhere(dyntrace, scratch, link):
    """To the file itself, to a link that leads to itself, to a pipe that nobody writes to."""
    path = compile_program(scratch, "types.c", "-O1", "-Wl,--build-id=none", name="program")
    subprocess.run(["strip", "-g", path], check=True)
    with open(os.path.join(scratch, link) if link != "program" else path, "ab"):
        pass
    subprocess.run(["objcopy", f"--add-gnu-debuglink={link}", path], check=True, cwd=scratch)
    if link != "program":
        os.unlink(os.path.join(scratch, link))
        (os.symlink if link == "loop" else lambda _, name: os.mkfifo(name))(link, os.path.join(scratch, link))
    limited(dyntrace, "list-symbols", "-a", path)
    _, trace = dyntrace.trace("--function", "wide", "--", path, seconds=20)
    assert list(trace.events[0].fields) == ["arg2"]


def huge_file(path, kind, original):
    """A file of 500 GB without contents, or one that looks like a program at first."""
    with open(path, "wb") as file:
        if kind != "zeroes":
            head = bytearray(open(original, "rb").read(64))
            size = 500 << 30
            head[40:48] = struct.pack("<Q", size - 64)  # the section headers, at the end
            head[60:64] = struct.pack("<HH", 1, 0)
            file.write(head)
            file.seek(size - 64)
            file.write(bytes(64))
        file.truncate(500 << 30)


@pytest.mark.parametrize("kind", ["zeroes", "headers"])
@pytest.mark.parametrize("identified", [True, False])
def test_huge_debug_files(dyntrace, scratch, kind, identified):
    """A debug link to 500 GB of nothing costs nothing, with a build id to compare and without one."""
    path = compile_program(scratch, "types.c", "-O1", *([] if identified else ["-Wl,--build-id=none"]), name="program")
    subprocess.run(["strip", "-g", path], check=True)
    with open(os.path.join(scratch, "huge"), "wb") as file:
        file.write(b"x")
    subprocess.run(["objcopy", "--add-gnu-debuglink=huge", path], check=True, cwd=scratch)
    huge_file(os.path.join(scratch, "huge"), kind, path)
    limited(dyntrace, "list-symbols", "-a", path)
    _, trace = dyntrace.trace("--function", "wide", "--", path, seconds=20)
    assert list(trace.events[0].fields) == ["arg2"]


@pytest.mark.parametrize("identified", [True, False])
def test_debug_links(dyntrace, scratch, identified):
    """A true one is followed; one to a file of another program isn't."""
    path = compile_program(scratch, "types.c", "-O1", *([] if identified else ["-Wl,--build-id=none"]), name="program")
    subprocess.run(["objcopy", "--only-keep-debug", path, os.path.join(scratch, "right")], check=True)
    other = compile_program(scratch, "types.c", "-O2", name="other")
    subprocess.run(["strip", "-g", path], check=True)
    subprocess.run(["objcopy", "--add-gnu-debuglink=right", path], check=True, cwd=scratch)
    _, trace = dyntrace.trace("--function", "wide", "--", path, seconds=20)
    assert not set(trace.events[0].fields) & {f"arg{i}" for i in range(6)}
    os.replace(other, os.path.join(scratch, "right"))
    _, trace = dyntrace.trace("--function", "wide", "--", path, seconds=20)
    assert list(trace.events[0].fields) == ["arg2"]


def packed_zeroes(count):
    """So many MiB of zeroes, as zlib packs them: the second MiB is packed to the same bytes as all that follow."""
    packer, zeroes = zlib.compressobj(9), bytes(1 << 20)
    first, second = (packer.compress(zeroes) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    sum_of_bytes = (count << 20) % 65521 << 16 | 1  # Adler-32 of zeroes
    return first + second * (count - 1) + b"\x03\x00" + struct.pack(">I", sum_of_bytes)


def test_packing_zeroes():
    assert zlib.decompress(packed_zeroes(3)) == bytes(3 << 20)


def test_packed_bombs(dyntrace, scratch):
    """A section that says to unfold to a gigabyte is not unpacked."""
    path = compile_program(scratch, "types.c", "-g", "-O1", name="program")
    bomb = os.path.join(scratch, "bomb")
    with open(bomb, "wb") as file:
        file.write(struct.pack("<IIQQ", 1, 0, 1 << 30, 1) + packed_zeroes(1024))
    subprocess.run(["objcopy", "--remove-section=.debug_str", f"--add-section=.debug_str={bomb}", path], check=True)
    with open(path, "r+b") as file:
        data = file.read()
        start = struct.unpack_from("<Q", data, 40)[0]
        count = struct.unpack_from("<H", data, 60)[0]
        at = next(start + 64 * i for i in range(count)
                  if struct.unpack_from("<Q", data, start + 64 * i + 32)[0] == os.path.getsize(bomb))
        file.seek(at + 8)
        file.write(struct.pack("<Q", 0x800))  # SHF_COMPRESSED
    limited(dyntrace, "list-symbols", "-a", path)
    _, trace = dyntrace.trace("--function", "wide", "--", path, seconds=20)
    assert len(trace.events) == 1
