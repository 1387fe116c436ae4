"""The zoo: servers that are attached to and left while they answer, by a dyntrace that ends in all ways, kill -9 among them. Their
answers are the same as before, and what is mapped is too."""
import os
import pwd
import random
import shutil
import socket
import subprocess

import pytest
from test_zoo_languages import SEED, TURNS, Visitor  # (finds the folder zoo)
from later_servers import LATER
from server import ZONE, Server, ask, ask_name, free_port

SQL = """create table t(a int, b varchar(20)); insert into t values (1, 'one'), (2, 'two'), (3, 'three');
select sum(a), max(b), count(*) from t where b like 't%'; drop table t;"""


class Memcached(Server):
    def command(self):
        return ["memcached", "-u", "root", "-s", self.socket, "-t", "4"]

    def answer(self):
        words = "".join(f"set k{n} 0 0 {len(str(n))}\r\n{n}\r\nget k{n}\r\n" for n in range(200))
        return ask(self.socket, words, "version\r\nincr k7 5\r\ndelete k8\r\nget k7 k8 k9\r\nmn\r\n", end="MN\r\n")


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


class NameServer(Server):
    """Answers for one zone; its port is told by `configuration`."""

    def prepare(self):
        self.port = free_port()
        with open(os.path.join(self.folder, "zone"), "w") as file:
            file.write(ZONE)
        with open(os.path.join(self.folder, "conf"), "w") as file:
            file.write(self.configuration())

    def answer(self):
        return [ask_name(self.port, name) for name in ("a.zoo", "b.zoo", "x.c.zoo", "none.zoo")]


class Bind(NameServer):
    traced = ("*@libns-*", "*@libdns-*", "*@libisc-*")

    def configuration(self):
        return f"""options {{ directory "{self.folder}"; listen-on port {self.port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }};
pid-file none; session-keyfile none; recursion no; minimal-responses yes; send-cookie no; }}; controls {{ }};
zone "zoo" {{ type primary; file "{self.folder}/zone"; }};"""

    def command(self):
        return ["/usr/sbin/named", "-f", "-n", "2", "-c", f"{self.folder}/conf"]


class Knot(NameServer):
    def configuration(self):
        return f"""server:
  rundir: "{self.folder}"
  listen: 127.0.0.1@{self.port}
  udp-workers: 2
  tcp-workers: 2
  background-workers: 1
database:
  storage: "{self.folder}/db"
zone:
  - domain: zoo
    file: "{self.folder}/zone"
    zonefile-sync: -1
"""

    def command(self):
        return ["/usr/sbin/knotd", "-c", f"{self.folder}/conf"]


class Lighttpd(Server):
    def prepare(self):
        os.mkdir(f"{self.folder}/www")
        for n in range(5):
            with open(f"{self.folder}/www/{n}.txt", "w") as file:
                file.write(f"page {n}\n" * 50 * n)
        with open(f"{self.folder}/conf", "w") as file:
            file.write(f"""server.document-root = "{self.folder}/www"
server.bind = "{self.socket}"
server.modules = ("mod_rewrite", "mod_redirect")
url.rewrite-once = ("^/old/(.*)$" => "/$1")
""")

    def command(self):
        return ["/usr/sbin/lighttpd", "-D", "-f", f"{self.folder}/conf"]

    def answer(self):
        return [ask(self.socket, f"GET /old/{n}.txt HTTP/1.0\r\n\r\n", end="never").split("\r\n\r\n", 1)[1] for n in range(6)]


class Apache(Server):
    """One process with many threads, whose modules are loaded by dlopen."""
    mpm, more = "event", ""

    def prepare(self):
        self.port = free_port()
        os.mkdir(f"{self.folder}/www")
        with open(f"{self.folder}/www/a.html", "w") as file:
            file.write("<p>plain</p>\n" * 100)
        with open(f"{self.folder}/www/b.php", "w") as file:
            file.write("<?php function f($n) { if ($n % 7 == 0) throw new Exception(\"e$n\"); return $n * 2; } $s = 0;"
                       "for ($i = 0; $i < 500; $i++) { try { $s += f($i); } catch (Exception $e) { $s += strlen($e->getMessage()); } }"
                       "echo $s, md5(strrev(json_encode([1, ['a' => $s]]))), \"\\n\"; ?>")
        modules = "/usr/lib/apache2/modules"
        with open(f"{self.folder}/conf", "w") as file:
            file.write(f"""ServerRoot {self.folder}
ServerName zoo
Listen 127.0.0.1:{self.port}
PidFile {self.folder}/pid
ErrorLog {self.folder}/error.log
DocumentRoot {self.folder}/www
LoadModule mpm_{self.mpm}_module {modules}/mod_mpm_{self.mpm}.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule mime_module {modules}/mod_mime.so
LoadModule rewrite_module {modules}/mod_rewrite.so
TypesConfig /etc/mime.types
RewriteEngine on
RewriteRule ^/old/(.*)$ /$1
{self.more}
""")

    def command(self):
        return ["/usr/sbin/apache2", "-X", "-f", f"{self.folder}/conf"]

    def pages(self):
        return ["/old/a.html", "/none"]

    def page(self, path):
        with socket.create_connection(("127.0.0.1", self.port), timeout=300) as client:
            client.sendall(f"GET {path} HTTP/1.0\r\nHost: zoo\r\n\r\n".encode())
            answer = b"".join(iter(lambda: client.recv(65536), b""))
        return answer.split(b"\r\n\r\n", 1)[1]

    def answer(self):
        return [self.page(path) for path in self.pages() * 3]


class ApachePhp(Apache):
    """The same with PHP inside."""
    mpm = "prefork"
    more = "LoadModule php_module /usr/lib/apache2/modules/libphp8.2.so\nAddType application/x-httpd-php .php"
    traced = ("zend_*@libphp8.2.so",)

    def pages(self):
        return ["/old/b.php", "/a.html"]


class Slapd(Server):
    def prepare(self):
        os.mkdir(f"{self.folder}/db")
        with open(f"{self.folder}/conf", "w") as file:
            file.write(f"""include /etc/ldap/schema/core.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {self.folder}/pid
threads 4
database mdb
maxsize 10485760
suffix dc=zoo
rootdn cn=root,dc=zoo
rootpw secret
directory {self.folder}/db
""")
        text = "dn: dc=zoo\nobjectClass: dcObject\nobjectClass: organization\ndc: zoo\no: zoo\n\n" + "".join(
            f"dn: cn=p{n},dc=zoo\nobjectClass: person\ncn: p{n}\nsn: s{n % 7}\n\n" for n in range(50))
        subprocess.run(["/usr/sbin/slapadd", "-f", f"{self.folder}/conf"], input=text, text=True, check=True, capture_output=True)

    def command(self):
        return ["/usr/sbin/slapd", "-d", "0", "-f", f"{self.folder}/conf", "-h", "ldapi://" + self.socket.replace("/", "%2F")]

    def answer(self):
        return subprocess.run(["ldapsearch", "-x", "-LLL", "-H", "ldapi://" + self.socket.replace("/", "%2F"), "-b", "dc=zoo",
                               "(&(objectClass=person)(|(sn=s3)(cn=p1*)))"], capture_output=True, text=True, check=True, timeout=600).stdout


SERVERS = {"bind": Bind, "knot": Knot, "lighttpd": Lighttpd, "apache": Apache, "apache-php": ApachePhp, "slapd": Slapd,
           "memcached": Memcached, "redis": Redis, "nginx": Nginx, "haproxy": Haproxy, "postgres": Postgres, "mariadb": Mariadb, **LATER}


class Cage:
    """What a Visitor wants to know."""

    def __init__(self, folder, server):
        self.folder = folder
        self.animal = type("Animal", (), {"traced": server.traced, "command": [""], "entries_only": server.entries_only})


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
    visitor = Visitor(dyntrace, Cage(folder, server), server.process, random.Random(f"{SEED} {name}"))
    for turn in range(TURNS):
        visitor.turn(server.answer, expected)
        assert server.process.poll() is None, f"turn {turn}: the server ended, {server.process.returncode}"
        assert server.answer() == expected
        if turn % 2:
            visitor.clean()
    visitor.clean()
    assert server.answer() == expected
    server.process.terminate()
    assert server.process.wait(timeout=120) in server.ends
    shutil.rmtree(folder, ignore_errors=True)
