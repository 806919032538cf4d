"""A real PostgreSQL for tests: one server a session, a database of its own for each test."""

import re
import socket
import sys
import threading
from contextlib import suppress
from itertools import count
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "results"))
from own_postgres import NoServerError, own_postgres

__all__ = ["Dropper", "NoServerError", "execute", "new_database", "own_postgres", "query", "through"]

DATABASES = count()


def query(url, statement, *values):
    """Run a statement; gives its rows."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement, values or None)
        return cursor.fetchall() if cursor.description else []


def execute(url, *statements):
    """Run statements, one after the other."""
    for statement in statements:
        query(url, statement)


def new_database(server):
    """The URL of an empty database of a server."""
    name = f"t{next(DATABASES)}"
    execute(server.url(), f"create database {name}")
    return server.url(name)


def through(url, port):
    """The same URL, by another port."""
    return re.sub(r":\d+/", f":{port}/", url)


class Dropper:
    """A proxy before a server that, once armed, lets the next writing transaction commit, and drops the answer."""

    def __init__(self, port):
        self.server = port
        self.armed = False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *error):
        self.listener.close()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self.server))
            cut = threading.Event()
            threading.Thread(target=self.forward, args=(near, far, cut, True), daemon=True).start()
            threading.Thread(target=self.forward, args=(far, near, cut, False), daemon=True).start()

    def forward(self, source, target, cut, asks):
        """Pass on what comes; what a client asks is looked at."""
        wrote = False
        while data := self.received(source):
            wrote |= asks and b"INSERT INTO trials" in data
            if wrote and self.armed and b"COMMIT" in data:
                self.armed = False
                cut.set()
            if asks or not cut.is_set():
                with suppress(OSError):
                    target.sendall(data)
            else:
                break  # the server answered: it has committed
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # closing would leave whoever reads there waiting

    @staticmethod
    def received(source):
        try:
            return source.recv(1 << 16)
        except OSError:
            return b""
