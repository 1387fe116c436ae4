"""Servers that came to the zoo later: proxies, mail, messages, names, files; in C, C++ and Go, with many threads or processes."""
import json
import os
import socket
import ssl
import subprocess
import urllib.request

from server import Server, ask_name, converse, free_port


def ask_port(port, *lines, end="never"):
    """What a server says at a port to these lines, up to `end`."""
    with socket.create_connection(("127.0.0.1", port), timeout=300) as client:
        return converse(client, lines, end)


class Configured(Server):
    """Has a port, and a file `conf`."""

    def prepare(self):
        self.port = free_port()
        with open(f"{self.folder}/conf", "w") as file:
            file.write(self.configuration())


def body(answer):
    return answer.split("\r\n\r\n", 1)[1]


class Squid(Configured):
    """C++; answers with an error page of its own, for it has nobody to ask."""

    def configuration(self):
        return f"""http_port 127.0.0.1:{self.port}
pid_filename none
cache_log /dev/null
access_log none
coredump_dir {self.folder}
cache_mem 8 MB
shutdown_lifetime 0 seconds
acl bad dstdomain .bad.zoo
http_access deny bad
http_access allow all
error_default_language en
pinger_enable off
cache_effective_user nobody
cache_effective_group nogroup
"""

    def command(self):
        return ["/usr/sbin/squid", "-N", "-n", f"zoo{os.getpid()}", "-f", f"{self.folder}/conf"]

    def answer(self):
        pages = [ask_port(self.port, f"GET http://a{n}.bad.zoo/ HTTP/1.0\r\n\r\n") for n in range(5)]
        return [page.splitlines()[0] + str(page.count("<p>")) for page in pages]


class Dovecot(Configured):
    """A master, and processes that it starts for each login. libunwind.so.8, which it has for backtraces, costs the exits."""
    entries_only = True

    def configuration(self):
        return f"""base_dir = {self.folder}/run
state_dir = {self.folder}/run
log_path = /dev/null
protocols = imap
ssl = no
disable_plaintext_auth = no
mail_location = maildir:{self.folder}/mail
mail_uid = 65534
mail_gid = 65534
first_valid_uid = 1
default_internal_user = nobody
default_login_user = nobody
default_internal_group = nogroup
service anvil {{
  chroot =
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    address = 127.0.0.1
    port = {self.port}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
passdb {{
  driver = static
  args = password=secret
}}
userdb {{
  driver = static
  args = uid=65534 gid=65534 home={self.folder}/mail
}}
"""

    def command(self):
        return ["/usr/sbin/dovecot", "-F", "-c", f"{self.folder}/conf"]

    def answer(self):
        words = ["a LOGIN zoo secret\r\n", "b CREATE x\r\n", "c LIST \"\" *\r\n", "d DELETE x\r\n", "e LOGOUT\r\n"]
        lines = ask_port(self.port, *words).splitlines()
        assert "e OK Logout completed" in lines[-1]
        return sorted(line.split("(")[0] for line in lines if line[:2] in ("c ", "* L", "d ") or line.startswith("* LIST"))


class Dnsmasq(Configured):
    def configuration(self):
        return f"""port={self.port}
listen-address=127.0.0.1
bind-interfaces
no-resolv
no-hosts
user=root
address=/zoo/192.0.2.7
host-record=a.zoo,192.0.2.2
cname=b.zoo,a.zoo
"""

    def command(self):
        return ["/usr/sbin/dnsmasq", "-k", "-C", f"{self.folder}/conf", "--pid-file="]

    def answer(self):
        return [ask_name(self.port, name) for name in ("a.zoo", "b.zoo", "x.c.zoo", "none.other")]


class Uwsgi(Configured):
    """Python with two threads, inside a server in C."""
    ends = (0, 30)
    traced = ("Py*@libpython3*",)

    def configuration(self):
        return """def application(environment, start):
    start("200 OK", [("Content-Type", "text/plain")])
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)
    try:
        {}["nothing"]
    except KeyError as error:
        return [f"{fib(12)} {error} {environment['PATH_INFO']}".encode()]
"""

    def prepare(self):
        super().prepare()
        os.rename(f"{self.folder}/conf", f"{self.folder}/app.py")

    def command(self):
        return ["/usr/bin/uwsgi", "--plugin", "python3", "--http-socket", f"127.0.0.1:{self.port}", "--wsgi-file",
                f"{self.folder}/app.py", "--threads", "2", "--disable-logging", "--need-app", "--die-on-term"]

    def answer(self):
        return [body(ask_port(self.port, f"GET /{n} HTTP/1.0\r\n\r\n")) for n in range(10)]


class Ngircd(Configured):
    def configuration(self):
        return f"""[Global]
Name = irc.zoo
Listen = 127.0.0.1
Ports = {self.port}
MotdPhrase = hello
ServerUID = 65534
ServerGID = 65534
[Options]
DNS = no
Ident = no
PAM = no
ChrootDir = /
SyslogFacility = local1
"""

    def command(self):
        return ["/usr/sbin/ngircd", "-n", "-f", f"{self.folder}/conf"]

    def answer(self):
        words = ["NICK zoo\r\nUSER a b c :d\r\n", "JOIN #x\r\nTOPIC #x :apes\r\nNAMES #x\r\nLIST\r\nMODE #x +t\r\nQUIT\r\n"]
        lines = ask_port(self.port, *words).splitlines()
        return [line for line in lines if any(f" {number} " in line for number in ("353", "366", "322", "323", "TOPIC"))]


class Stunnel(Configured):
    """A thread per connection, OpenSSL, and a program behind it."""
    traced = ("SSL_*@libssl*", "EVP_*@libcrypto*")

    def configuration(self):
        return f"""foreground = yes
pid =
debug = emerg
[echo]
accept = 127.0.0.1:{self.port}
connect = 127.0.0.1:{self.behind}
cert = {self.folder}/pem
"""

    def prepare(self):
        self.behind = free_port()
        super().prepare()
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=zoo", "-keyout", "key", "-out", "crt"],
                       cwd=self.folder, check=True, capture_output=True)
        with open(f"{self.folder}/pem", "w") as file:
            for name in ("key", "crt"):
                with open(f"{self.folder}/{name}") as part:
                    file.write(part.read())
        os.chmod(f"{self.folder}/pem", 0o600)
        self.listener = socket.create_server(("127.0.0.1", self.behind))
        self.listener.settimeout(300)

    def command(self):
        return ["/usr/bin/stunnel4", f"{self.folder}/conf"]

    def answer(self):
        context = ssl._create_unverified_context()
        answers = []
        for n in range(4):
            with context.wrap_socket(socket.create_connection(("127.0.0.1", self.port), timeout=300)) as client:
                server = self.listener.accept()[0]
                client.sendall(b"ping %d" % n * 1000)
                got = b""
                while len(got) < 6000:
                    got += server.recv(65536)
                server.sendall(got[::-1])
                server.close()
                answers.append(b"".join(iter(lambda: client.recv(65536), b"")))
        return answers


class Smbd(Configured):
    """Samba: a process per connection."""

    def configuration(self):
        return f"""[global]
server role = standalone server
smb ports = {self.port}
interfaces = 127.0.0.1
bind interfaces only = yes
map to guest = bad user
guest account = nobody
log file = /dev/null
disable netbios = yes
load printers = no
disable spoolss = yes
private dir = {self.folder}/p
lock directory = {self.folder}/l
state directory = {self.folder}/s
cache directory = {self.folder}/c
pid directory = {self.folder}/pid
ncalrpc dir = {self.folder}/n
[zoo]
path = {self.folder}/share
guest ok = yes
"""

    def prepare(self):
        super().prepare()
        for name in ("p", "l", "s", "c", "pid", "n", "share"):
            os.mkdir(f"{self.folder}/{name}")
        for n in range(5):
            with open(f"{self.folder}/share/{n}.txt", "w") as file:
                file.write(f"text {n}\n" * 1000)

    def command(self):
        return ["/usr/sbin/smbd", "-F", "--no-process-group", "-s", f"{self.folder}/conf"]

    def answer(self):
        result = subprocess.run(["smbclient", "-s", "/dev/null", "-N", "-p", str(self.port), "//127.0.0.1/zoo", "-c",
                                 "get 3.txt -; get 4.txt -"], capture_output=True, text=True, check=True, timeout=300)
        return result.stdout


class Etcd(Server):
    """Go, with gRPC."""

    def prepare(self):
        self.port, self.peer = free_port(), free_port()

    def command(self):
        here = f"http://127.0.0.1:{self.port}"
        return ["/usr/bin/etcd", "--data-dir", f"{self.folder}/data", "--listen-client-urls", here, "--advertise-client-urls", here,
                "--listen-peer-urls", f"http://127.0.0.1:{self.peer}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{self.peer}",
                "--initial-cluster", f"default=http://127.0.0.1:{self.peer}", "--unsafe-no-fsync"]

    def answer(self):
        answers = []
        for n in range(10):
            for path, what in (("put", {"key": "Zm9v", "value": "YmFy"}), ("range", {"key": "Zm9v"})):
                request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v3/kv/{path}", json.dumps(what).encode())
                with urllib.request.urlopen(request, timeout=300) as answer:
                    found = json.load(answer)
            answers.append((found["kvs"][0]["value"], found["count"]))
        return answers


class Caddy(Configured):
    """Go, with templates and compression."""

    def configuration(self):
        return f"""{{
  admin off
  auto_https off
}}
http://127.0.0.1:{self.port} {{
  respond /hello/* "hello {{path}} {{query}}"
  header X-Zoo yes
  encode gzip
}}
"""

    def command(self):
        return ["/usr/bin/caddy", "run", "--config", f"{self.folder}/conf", "--adapter", "caddyfile"]

    def options(self):
        return {"env": {**os.environ, "HOME": self.folder}}

    def answer(self):
        return [body(ask_port(self.port, f"GET /hello/{n}?a={n} HTTP/1.0\r\nHost: 127.0.0.1:{self.port}\r\n\r\n")) for n in range(10)]


class Nats(Server):
    """Go, without gRPC."""
    ends = (0, 1)

    def prepare(self):
        self.port = free_port()

    def command(self):
        return ["/usr/sbin/nats-server", "-a", "127.0.0.1", "-p", str(self.port)]

    def answer(self):
        words = ["CONNECT {\"verbose\":false}\r\n", "SUB a.* 1\r\n", "".join(f"PUB a.{n} 5\r\nhello\r\n" for n in range(50)), "PING\r\n"]
        return ask_port(self.port, *words, end="PONG\r\n").split("\r\n", 1)[1]


class Pgbouncer(Configured):
    """Answers itself as the database pgbouncer."""
    ends = (0, 1)

    def configuration(self):
        return f"""[databases]
[pgbouncer]
listen_addr =
unix_socket_dir = {self.folder}
listen_port = {self.port}
auth_type = any
user = nobody
admin_users = zoo
"""

    def command(self):
        return ["/usr/sbin/pgbouncer", "-q", f"{self.folder}/conf"]

    def answer(self):
        result = subprocess.run(["psql", "-X", "-A", "-t", "-h", self.folder, "-p", str(self.port), "-U", "zoo", "pgbouncer", "-c", "show databases"],
                                capture_output=True, text=True, check=True, timeout=300)
        return result.stdout


class Unbound(Configured):
    """Two threads; names of its own configuration."""

    def configuration(self):
        return f"""server:
  interface: 127.0.0.1@{self.port}
  num-threads: 2
  username: ""
  chroot: ""
  directory: "{self.folder}"
  pidfile: ""
  use-syslog: no
  do-daemonize: no
  local-zone: "zoo." static
  local-data: "a.zoo. A 192.0.2.2"
  local-data: "x.c.zoo. A 192.0.2.3"
remote-control:
  control-enable: no
"""

    def command(self):
        return ["/usr/sbin/unbound", "-d", "-p", "-c", f"{self.folder}/conf"]

    def answer(self):
        return [ask_name(self.port, name) for name in ("a.zoo", "x.c.zoo", "none.zoo")]


class Mosquitto(Configured):
    def configuration(self):
        return f"listener {self.port} 127.0.0.1\nallow_anonymous true\nuser root\n"

    def command(self):
        return ["/usr/sbin/mosquitto", "-c", f"{self.folder}/conf"]

    def answer(self):
        for n in range(5):
            subprocess.run(["mosquitto_pub", "-p", str(self.port), "-r", "-t", f"zoo/{n}", "-m", f"text {n}"], check=True, timeout=300,
                           capture_output=True)
        return subprocess.run(["mosquitto_sub", "-p", str(self.port), "-t", "zoo/#", "-C", "5", "-v"], check=True, timeout=300,
                              capture_output=True, text=True).stdout


LATER = {"squid": Squid, "dovecot": Dovecot, "dnsmasq": Dnsmasq, "uwsgi": Uwsgi, "ngircd": Ngircd, "stunnel": Stunnel, "smbd": Smbd,
         "etcd": Etcd, "caddy": Caddy, "nats": Nats, "pgbouncer": Pgbouncer, "unbound": Unbound, "mosquitto": Mosquitto}
