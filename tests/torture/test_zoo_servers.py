"""The zoo: servers that are attached to and left while they answer, by a dyntrace that ends in all ways, kill -9 among them. Their
answers are the same as before, and what is mapped is too."""
import os
import pwd
import random
import shutil
import socket
import subprocess

import pytest
from harness import until
from test_zoo_languages import SEED, TURNS, Visitor

SQL = """create table t(a int, b varchar(20)); insert into t values (1, 'one'), (2, 'two'), (3, 'three');
select sum(a), max(b), count(*) from t where b like 't%'; drop table t;"""


def ask(path, *lines, end):
    """What a server says at a socket to these lines, up to `end`."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(300)
        client.connect(path)
        answer = b""
        for line in lines:
            client.sendall(line.encode())
        while not answer.endswith(end.encode()):
            more = client.recv(65536)
            if not more:
                break
            answer += more
        return answer.decode()


class Server:
    """A server of the test's own. `answer` gives what it says to a fixed question."""
    traced = ()

    def __init__(self, processes, folder):
        self.folder, self.socket = folder, os.path.join(folder, "socket")
        os.chmod(folder, 0o777)
        self.prepare()
        self.process = processes.start(self.command(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, cwd=folder, **self.options())
        until(lambda: self.process.poll() is not None or self.answers(), "the server to answer")

    def prepare(self):
        pass

    def options(self):
        return {}

    def answers(self):
        try:
            return self.answer()
        except (OSError, subprocess.SubprocessError):
            return None


class Memcached(Server):
    def command(self):
        return ["memcached", "-u", "root", "-s", self.socket, "-t", "4"]

    def answer(self):
        words = "".join(f"set k{n} 0 0 {len(str(n))}\r\n{n}\r\nget k{n}\r\n" for n in range(200))
        return ask(self.socket, words, "version\r\nincr k7 5\r\ndelete k8\r\nget k7 k8 k9\r\n", end="k9 0 1\r\n9\r\nEND\r\n")


class Redis(Server):
    def command(self):
        return ["redis-server", "--port", "0", "--unixsocket", self.socket, "--save", "", "--appendonly", "no", "--dir", self.folder]

    def answer(self):
        words = "".join(f"SET k{n} {n}\r\nLPUSH l {n}\r\n" for n in range(200))
        return ask(self.socket, "FLUSHALL\r\n", words, "SORT l DESC LIMIT 0 5\r\nEVAL \"return redis.call('get', 'k7')\" 0\r\nECHO end\r\n",
                   end="end\r\n")


class Nginx(Server):
    def prepare(self):
        with open(os.path.join(self.folder, "nginx.conf"), "w") as file:
            file.write(f"""daemon off; master_process off; pid {self.folder}/pid; error_log {self.folder}/error.log;
events {{ }} http {{ access_log off; gzip on; gzip_min_length 10; gzip_types *; server {{ listen unix:{self.socket};
rewrite ^/old/(.*)$ /new/$1; location / {{ return 200 "hello $uri $request_length\n"; }} }} }}""")

    def command(self):
        return ["/usr/sbin/nginx", "-c", f"{self.folder}/nginx.conf", "-p", self.folder]

    def answer(self):
        text = ""
        for n in range(30):
            answer = ask(self.socket, f"GET /old/{n} HTTP/1.0\r\n\r\n", end="never")
            text += answer.split("\r\n\r\n", 1)[1]
        return text


class Haproxy(Server):
    def prepare(self):
        with open(os.path.join(self.folder, "haproxy.cfg"), "w") as file:
            file.write(f"""global
  nbthread 2
defaults
  mode http
  timeout connect 100s
  timeout client 100s
  timeout server 100s
frontend f
  bind unix@{self.socket}
  http-request return status 200 content-type text/plain lf-string "hello %[path,upper] %[url_param(n),mul(3)]\\n"
""")

    def command(self):
        return ["/usr/sbin/haproxy", "-db", "-f", f"{self.folder}/haproxy.cfg"]

    def answer(self):
        return "".join(ask(self.socket, f"GET /a?n={n} HTTP/1.0\r\n\r\n", end="never").split("\r\n\r\n", 1)[1] for n in range(30))


class Postgres(Server):
    def place(self):
        base = "/usr/lib/postgresql"
        return f"{base}/{sorted(os.listdir(base))[-1]}/bin"

    def options(self):
        user = pwd.getpwnam("postgres")
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}

    def prepare(self):
        subprocess.run([f"{self.place()}/initdb", "-D", f"{self.folder}/data", "-A", "trust", "-N", "--locale=C"], check=True,
                       capture_output=True, cwd="/", **self.options())

    def command(self):
        return [f"{self.place()}/postgres", "-D", f"{self.folder}/data", "-k", self.folder, "-c", "listen_addresses=", "-F"]

    def answer(self):
        return subprocess.run([f"{self.place()}/psql", "-X", "-q", "-t", "-A", "-h", self.folder, "-U", "postgres", "-c", SQL],
                              capture_output=True, text=True, check=True, timeout=600).stdout


class Mariadb(Server):
    def command(self):
        return ["/usr/sbin/mariadbd", "--no-defaults", "--user=root", f"--datadir={self.folder}/data", "--innodb-buffer-pool-size=8M",
                "--skip-grant-tables", "--skip-networking", f"--socket={self.socket}"]

    def prepare(self):
        os.mkdir(f"{self.folder}/data")
        subprocess.run([*self.command(), "--bootstrap"], input="create database zoo;", text=True, capture_output=True, check=True)

    def answer(self):
        return subprocess.run(["mariadb", "--no-defaults", "-S", self.socket, "-N", "-B", "zoo", "-e", SQL],
                              capture_output=True, text=True, check=True, timeout=600).stdout


SERVERS = {"memcached": Memcached, "redis": Redis, "nginx": Nginx, "haproxy": Haproxy, "postgres": Postgres, "mariadb": Mariadb}


class Cage:
    """What a Visitor wants to know."""

    def __init__(self, folder, traced):
        self.folder, self.animal = folder, type("Animal", (), {"traced": traced})


@pytest.mark.limit(900)
@pytest.mark.parametrize("name", SERVERS)
def test_attached_to_and_left(dyntrace, processes, scratch, name):
    print(f"ZOO_SEED={SEED}")
    folder = os.path.join(scratch, name)
    os.mkdir(folder)
    os.chmod(scratch, 0o777)
    server = SERVERS[name](processes, folder)
    assert server.process.poll() is None
    expected = server.answer()
    assert expected
    visitor = Visitor(dyntrace, Cage(folder, server.traced), server.process, random.Random(f"{SEED} {name}"))
    for turn in range(TURNS):
        visitor.turn(server.answer, expected)
        assert server.process.poll() is None, f"turn {turn}: the server ended, {server.process.returncode}"
        assert server.answer() == expected
        if turn % 2:
            visitor.clean()
    visitor.clean()
    assert server.answer() == expected
    server.process.terminate()
    assert server.process.wait(timeout=120) in (0, -15)
    shutil.rmtree(folder, ignore_errors=True)
