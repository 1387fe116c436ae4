"""Debian's Chromium without a window, driven by its DevTools protocol over two pipes: no port, no network, no other program."""
import base64
import json
import os
import select
import signal
import subprocess
import time

import harness

CHROMIUM = "/usr/bin/chromium"
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
         "--disable-background-networking", "--disable-component-update", "--disable-breakpad", "--disable-crash-reporter",
         "--no-default-browser-check", "--disable-sync", "--mute-audio", "--remote-debugging-pipe", "--password-store=basic",
         "--proxy-server=127.0.0.1:9", "--disable-features=Translate,OptimizationHints,MediaRouter")
KEYS = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Home": 36, "End": 35}
TIMEOUT = 20


class Browser:
    """One process; pages are opened one after the other."""

    def __init__(self, folder):
        self.folder, self.number, self.buffer, self.events = folder, 0, b"", []
        from_us, to_us = os.pipe(), os.pipe()

        def wire():
            os.dup2(from_us[0], 100)
            os.dup2(to_us[1], 101)
            os.dup2(100, 3)
            os.dup2(101, 4)
        with open(os.path.join(folder, "chromium.log"), "w") as log:
            self.process = subprocess.Popen([CHROMIUM, *FLAGS, f"--user-data-dir={folder}/profile"], stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, preexec_fn=wire, close_fds=False, start_new_session=True,
                                            env={**os.environ, "HOME": folder, "XDG_CONFIG_HOME": folder, "XDG_CACHE_HOME": folder})
        os.close(from_us[0])
        os.close(to_us[1])
        self.writer, self.reader, self.session, self.target = from_us[1], to_us[0], None, None

    def close(self):
        """Ends all of its processes: they are one session."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
                self.process.wait(timeout=5)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.close(self.writer)
        os.close(self.reader)

    # ---- messages ----

    def receive(self, until):
        """The next message; those that aren't answers are kept as events, too."""
        while b"\0" not in self.buffer:
            assert select.select([self.reader], [], [], max(0, until - time.monotonic()))[0], "chromium doesn't answer"
            data = os.read(self.reader, 1 << 20)
            assert data, "chromium has ended: " + open(os.path.join(self.folder, "chromium.log")).read()[-2000:]
            self.buffer += data
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message

    def call(self, method, **params):
        self.number += 1
        request = {"id": self.number, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self.writer, data):]
        until = time.monotonic() + TIMEOUT * harness.PATIENCE
        while (message := self.receive(until)).get("id") != self.number:
            pass
        assert "error" not in message, (method, message["error"])
        return message["result"]

    # ---- pages ----

    def open(self, path, width=1280, height=900, dark=False, ready="document.readyState === 'complete'", scale=1):
        """Opens a file in a page of its own and waits until the expression is true of it, not of the blank page before it."""
        self.leave()
        self.target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)
        self.resize(width, height, scale)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.await_load(self.call("Page.navigate", url=path if "://" in path else "file://" + path)["loaderId"])
        self.wait(ready)

    def await_load(self, loader):
        """Chromium tells when the document is loaded. A look at the document before that may meet one without any element."""
        until = time.monotonic() + TIMEOUT * harness.PATIENCE
        while not any(event["method"] == "Page.lifecycleEvent" and event["params"]["loaderId"] == loader and event["params"]["name"] == "load"
                      for event in self.events):
            self.receive(until)

    def leave(self):
        """Closes the page, if one is open."""
        self.session = None
        if self.target:
            self.call("Target.closeTarget", targetId=self.target)
        self.target, self.events = None, []

    def resize(self, width, height, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)

    def run(self, expression):
        """The value of a JavaScript expression, awaited if it is a promise."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, expression):
        harness.until(lambda: self.run(expression), expression)

    def key(self, key, modifiers=0):
        text = key if len(key) == 1 else {"Enter": "\r"}.get(key, "")
        code = KEYS.get(key) or ord(key.upper())
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, modifiers=modifiers,
                      **({"text": text} if text and kind == "keyDown" else {}))

    def type(self, text):
        for letter in text:
            self.key(letter)

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)

    def drag(self, from_x, from_y, to_x, to_y, modifiers=0):
        self.mouse("mousePressed", from_x, from_y, button="left", buttons=1, clickCount=1, modifiers=modifiers)
        for step in range(1, 6):
            self.mouse("mouseMoved", from_x + (to_x - from_x) * step / 5, from_y + (to_y - from_y) * step / 5, button="left", buttons=1,
                       modifiers=modifiers)
        self.mouse("mouseReleased", to_x, to_y, button="left", clickCount=1, modifiers=modifiers)

    def box(self, selector):
        """The middle of an element, in the window."""
        return self.run(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}});"
                        "const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2] })()")

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def requests(self):
        """What the page asked for."""
        return [event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"]

    def complaints(self):
        """Exceptions, and lines of the console."""
        return [event for event in self.events if event["method"] in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")]
