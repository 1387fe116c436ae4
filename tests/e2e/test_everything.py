"""Probes on all functions of real programs and libraries, and on all instructions of a function that throws: the program's
output is the same as without. (The long version is tests/torture/test_differential.py.)"""
import os
import re
import socket
import subprocess

import pytest
from harness import until

WORK = {
    "python3": ["-c", "import json, subprocess, threading\n"
                "t = threading.Thread(target=lambda: print(sum(range(1000)))); t.start(); t.join()\n"
                "print(subprocess.run(['echo', 'child'], capture_output=True, text=True).stdout, json.dumps({'a': [1, 2.5, None]}))"],
    "bash": ["-c", "for i in 1 2 3; do echo $((i * 7)) $(echo $i | tr 1 x); done; trap 'echo usr' USR1; kill -USR1 $$"],
    "sqlite3": [":memory:", "create table t(a, b); insert into t values (1, 'x'), (2, 'y'); select sum(a), group_concat(b) from t;"],
    "git": ["--version"],
    "openssl": ["dgst", "-sha256", "/etc/passwd"],
}


@pytest.mark.parametrize("module", [None, "libc.so.6"])
@pytest.mark.parametrize("name", WORK)
def test_every_function(dyntrace, name, module):
    path = os.path.realpath(f"/usr/bin/{name}")
    if not os.access(path, os.X_OK):
        pytest.skip(f"{name} isn't installed")
    compare(dyntrace, [path, *WORK[name]], f"*@{module or os.path.basename(path)}")


def test_every_function_of_libcrypto(dyntrace):
    if not os.access("/usr/bin/openssl", os.X_OK):
        pytest.skip("openssl isn't installed")
    compare(dyntrace, ["/usr/bin/openssl", *WORK["openssl"]], "*@libcrypto.so.3")


def compare(dyntrace, command, what):
    plain = subprocess.run(command, capture_output=True, text=True, check=True)
    result = dyntrace("trace", "-o", dyntrace.new_output(), "--probe", what, "--", *command)
    assert result.stdout == plain.stdout
    assert int(re.search(r"^(\d+) events, 0 lost", result.stderr, re.M)[1]) >= 10


def test_landing_pads(dyntrace, scratch):
    """A landing pad is never in the middle of moved bytes: every instruction of the catching function has a probe, and each
    catch is taken."""
    source = os.path.join(scratch, "catches.cpp")
    with open(source, "w") as file:
        file.write('#include <cstdio>\n#include <string>\nstruct noisy { ~noisy() { std::puts("gone"); } };\n'
                   '__attribute__((noinline)) void thrower(int n)\n{\n\tif (n % 3 == 0) throw n;\n'
                   '\tif (n % 3 == 1) throw std::string("text");\n\tif (n > 6) throw 1.5;\n}\n'
                   'extern "C" __attribute__((noinline)) int catcher(int n)\n{\n\ttry {\n\t\tnoisy a;\n\t\tthrower(n);\n'
                   '\t} catch (int i) {\n\t\treturn i;\n\t} catch (const std::string &s) {\n\t\treturn (int)s.size();\n'
                   '\t} catch (...) {\n\t\ttry {\n\t\t\tthrower(0);\n\t\t} catch (int) {\n\t\t\treturn -1;\n\t\t}\n\t}\n\treturn -2;\n}\n'
                   'int main()\n{\n\tfor (int i = 0; i < 12; i++)\n\t\tstd::printf("%d\\n", catcher(i));\n}\n')
    for level in ("-O0", "-O2"):
        program = f"{scratch}/catches{level}"
        subprocess.run(["g++", level, "-o", program, source], check=True)
        lines = [line.split(" ", 2) for line in dyntrace("coverage", "--list", program).stdout.splitlines()]
        places = [place for place, how, name in lines if name.startswith("catcher") and how != "refused"]
        assert len(places) > 20
        plain = subprocess.run([program], capture_output=True, text=True, check=True)
        words = [word for place in places for word in ("--probe", f"{place}@{os.path.basename(program)}")]
        result, trace = dyntrace.trace(*words, "--", program)
        assert result.stdout == plain.stdout
        assert trace.names()[next(iter(trace.names()))] == 12  # the first instruction, once per call


def test_nginx_under_load(dyntrace, processes, scratch):
    """Probes on all functions of nginx, added and removed while it serves."""
    if not os.access("/usr/sbin/nginx", os.X_OK):
        pytest.skip("nginx isn't installed")
    os.makedirs(f"{scratch}/www")
    with open(f"{scratch}/www/page", "w") as file:
        file.write("page " * 1000)
    with open(f"{scratch}/conf", "w") as file:
        file.write(f"daemon off; master_process off; pid {scratch}/pid; error_log {scratch}/log;\nevents {{}}\n"
                   f"http {{ access_log off; client_body_temp_path {scratch}; proxy_temp_path {scratch};\n"
                   f"fastcgi_temp_path {scratch}; uwsgi_temp_path {scratch}; scgi_temp_path {scratch};\n"
                   f"server {{ listen unix:{scratch}/sock; root {scratch}/www; }} }}\n")
    os.chmod(scratch, 0o755)
    server = processes.start(["/usr/sbin/nginx", "-c", f"{scratch}/conf", "-p", scratch], stderr=subprocess.DEVNULL)

    def listens():
        """The file is there between bind and listen, too."""
        with socket.socket(socket.AF_UNIX) as connection:
            return connection.connect_ex(f"{scratch}/sock") == 0

    until(listens, "nginx")

    def fetch():
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(f"{scratch}/sock")
            connection.sendall(b"GET /page HTTP/1.0\r\n\r\n")
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        return answer.split(b"\r\n\r\n", 1)[1].decode()

    assert fetch() == "page " * 1000
    tracing = dyntrace.start_trace(server.pid, "--function", "ngx_*")
    for _ in range(20):
        assert fetch() == "page " * 1000
    trace = tracing.stop()
    assert trace.names()["ngx_http_process_request_entry"] == 20
    assert fetch() == "page " * 1000
    tracing.before.assert_unchanged(busy=True)
