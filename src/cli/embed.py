"""Makes C arrays of files: embed.py HEADER SOURCE NAME FILE... NAME FILE..., where a NAME has no dot. Files of one name follow each other."""
import os
import sys


def c_array(data):
    rows = [data[at:at + 20] for at in range(0, len(data), 20)]
    return "\n".join("\t" + "".join(f"{byte}," for byte in row) for row in rows)


def main(header, source, *parts):
    with open(header, "w") as declarations, open(source, "w") as definitions:
        guard = os.path.basename(header).upper().replace(".", "_")
        declarations.write(f"#ifndef {guard}\n#define {guard}\n#include <stddef.h>\n")
        definitions.write(f'#include "{os.path.basename(header)}"\n')
        arrays = {}
        for part in parts:
            if "." not in part:
                name, arrays[part] = part, b""
                continue
            with open(part, "rb") as file:
                arrays[name] += file.read()
        for name, data in arrays.items():
            declarations.write(f"extern const char {name}[];\nextern const size_t {name}_size;\n")
            definitions.write(f"const char {name}[] = {{\n{c_array(data)}\n\t0\n}};\nconst size_t {name}_size = {len(data)};\n")
        declarations.write("#endif\n")


main(*sys.argv[1:])
