#!/usr/bin/python3
"""Keeps a shop's orders in a database: statements of several kinds, one of them slow."""
import sqlite3
import time

database = sqlite3.connect("orders.db", isolation_level=None, cached_statements=0)
database.execute("pragma synchronous = off")
database.execute("pragma journal_mode = memory")
database.execute("create table orders (number integer, customer text, total real)")
database.execute("begin")
database.executemany("insert into orders values (?, ?, ?)", ((i, f"customer {i % 50}", i / 4) for i in range(5000)))
database.execute("commit")


def store(number):
    database.execute("insert into orders values (?, 'Ada', 9.5)", (number,))
    database.execute("delete from orders where rowid = last_insert_rowid()")


def find(number):
    return database.execute("select customer from orders where rowid = ?", (number % 5000,)).fetchone()


def statistics():
    return database.execute("select customer, sum(total) from orders group by customer").fetchall()


def settings():
    """Looks for a file that nobody wrote."""
    try:
        with open("/etc/shop/orders.conf", encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


print("ready", flush=True)
turn = 0
while True:
    turn += 1
    store(turn)
    find(turn)
    if turn % 10 == 0:
        statistics()
        settings()
    time.sleep(0.002)
