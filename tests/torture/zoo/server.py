"""A server of a test's own, and ways to ask one."""
import os
import socket
import struct
import subprocess

from harness import until


def converse(client, lines, end):
    """Sends the lines, and returns the answer up to `end`, or to the end of the connection."""
    answer = b""
    for line in lines:
        client.sendall(line.encode())
    while not answer.endswith(end.encode()):
        more = client.recv(65536)
        if not more:
            break
        answer += more
    return answer.decode()


def ask(path, *lines, end):
    """What a server says at a socket to these lines, up to `end`."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(300)
        client.connect(path)
        return converse(client, lines, end)


def free_port():
    """A port of 127.0.0.1 that nobody has, for UDP and TCP."""
    with socket.socket() as one, socket.socket(type=socket.SOCK_DGRAM) as other:
        one.bind(("127.0.0.1", 0))
        other.bind(one.getsockname())
        return one.getsockname()[1]


def ask_name(port, name):
    """What a name server says of the addresses of that name, without the question's number."""
    words = b"".join(bytes([len(word)]) + word.encode() for word in name.split("."))
    with socket.create_connection(("127.0.0.1", port), timeout=300) as client:
        question = struct.pack(">6H", 7, 0x100, 1, 0, 0, 0) + words + struct.pack(">BHH", 0, 1, 1)
        client.sendall(struct.pack(">H", len(question)) + question)
        answer = b""
        while len(answer) < 2 or len(answer) < 2 + struct.unpack(">H", answer[:2])[0]:
            more = client.recv(65536)
            if not more:
                raise ConnectionError("the answer ends early")
            answer += more
        return answer.hex()


ZONE = """$TTL 300
@ IN SOA ns.zoo. root.zoo. 1 300 300 300 300
@ IN NS ns
ns IN A 192.0.2.1
a IN A 192.0.2.2
b IN CNAME a
*.c IN A 192.0.2.3
"""


class Server:
    """A server of the test's own. `answer` gives what it says to a fixed question."""
    traced = ()
    entries_only = False
    ends = (0, -15)  # after SIGTERM

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
