"""Makes shipped_prototypes.[ch] of the headers that are installed: headers.py HEADER SOURCE GLIBC LIBSTDCXX TOOL CC..."""
import subprocess
import sys

LIBC = """aio alloca argp arpa/inet assert byteswap complex crypt ctype dirent dlfcn endian envz err errno error execinfo fcntl
fenv fmtmsg fnmatch fts ftw gconv getopt glob gnu/libc-version grp gshadow iconv ifaddrs inttypes langinfo libgen libintl limits
link locale malloc math mcheck mntent monetary mqueue net/if netdb netinet/in nl_types nss obstack paths poll printf pthread pty
pwd regex resolv sched search semaphore setjmp sgtty shadow signal spawn stdio stdio_ext stdlib string strings stropts
sys/auxv sys/epoll sys/eventfd sys/fanotify sys/file sys/fsuid sys/inotify sys/ioctl sys/ipc sys/klog sys/mman sys/mount
sys/msg sys/personality sys/pidfd sys/poll sys/prctl sys/ptrace sys/quota sys/random sys/reboot sys/resource sys/rseq
sys/select sys/sem sys/sendfile sys/shm sys/signalfd sys/socket sys/stat sys/statfs sys/statvfs sys/swap sys/syscall
sys/sysinfo sys/syslog sys/time sys/timeb sys/timerfd sys/times sys/timex sys/types sys/uio sys/un sys/utsname sys/vfs sys/wait
sys/xattr syslog termios thread_db threads time uchar ucontext ulimit unistd utime utmp utmpx values wait wchar wctype wordexp"""
# Library, its headers, and the parts of paths that tell them from the headers that they include.
LIBRARIES = [
    ("libc.so", LIBC.split(), ["/"]),
    ("libz.so", ["zlib"], ["zlib.h"]),
    ("libsqlite3.so", ["sqlite3"], ["sqlite3.h"]),
    ("libcrypto.so", ["openssl/" + name for name in """aes asn1 bio bn buffer cms cmac conf crypto dh dsa ec ecdh ecdsa engine err
     evp hmac kdf md5 objects pem pkcs12 pkcs7 provider rand rsa sha stack ts ui x509 x509v3 x509_vfy""".split()], ["openssl/"]),
    ("libssl.so", ["openssl/ssl", "openssl/tls1", "openssl/dtls1"], ["openssl/ssl", "openssl/tls1", "openssl/dtls1"]),
]


def prototypes(tool, compiler, library, text, parts):
    """The prototypes of one library; headers that aren't installed are left out."""
    done = subprocess.run([*compiler, "-E", "-D_GNU_SOURCE", "-DOPENSSL_SUPPRESS_DEPRECATED", "-x", "c", "-"], input=text, text=True,
                          capture_output=True)
    if done.returncode:
        sys.exit(f"{library}: {done.stderr}")
    return subprocess.run([tool, *parts], input=done.stdout, text=True, check=True, capture_output=True).stdout


def rows(data):
    return "\n".join("\t" + "".join(f"{byte}," for byte in data[at:at + 20]) for at in range(0, len(data), 20))


def more(tool, path):
    """The prototypes that a file of ours adds."""
    with open(path) as file:
        return subprocess.run([tool, path], input=f'# 1 "{path}"\n{file.read()}', text=True, check=True, capture_output=True).stdout


def main(header, source, glibc, libstdcxx, tool, *compiler):
    found = {}
    for library, names, parts in LIBRARIES:
        text = "".join(f"#if __has_include(<{name}.h>)\n#include <{name}.h>\n#endif\n" for name in names)
        found[library] = prototypes(tool, compiler, library, text, parts)
    for library, path in (("libc.so", glibc), ("libstdc++.so", libstdcxx)):
        found[library] = found.get(library, "") + more(tool, path)
    with open(header, "w") as file:
        file.write("struct shipped_library {\n\tconst char *name, *text;\n};\nextern const struct shipped_library shipped_libraries[];\n"
                   f"enum {{ SHIPPED_LIBRARIES = {len(found)} }};\n")
    with open(source, "w") as file:
        file.write('#include "shipped_prototypes.h"\n')
        for at, text in enumerate(found.values()):
            file.write(f"static const char text_{at}[] = {{\n{rows(text.encode())}\n\t0\n}};\n")
        entries = "".join(f'\t{{ "{library}", text_{at} }},\n' for at, library in enumerate(found))
        file.write(f"const struct shipped_library shipped_libraries[] = {{\n{entries}}};\n")


main(*sys.argv[1:])
