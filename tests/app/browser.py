"""One headless browser for all pages of a test, driven over its pipe (the DevTools protocol)."""
import base64
import contextlib
import http.server
import json
import os
import re
import select
import shutil
import subprocess
import tempfile
import threading

PATH = next((found for found in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if found), None)
LIMIT_S = 300  # only a browser that hangs takes so long


class Counter(http.server.BaseHTTPRequestHandler):
    """A proxy that notes what is asked for and gives nothing."""
    asked = []

    def do_GET(self):
        """Note it."""
        # What the browser itself wants to know of its maker is not the page's.
        if not re.search(r"google|gvt1|chromium", self.path):
            self.asked.append(self.path)
        with contextlib.suppress(BrokenPipeError):
            self.send_error(404)

    do_CONNECT = do_POST = do_HEAD = do_GET

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        """Say nothing."""


class Browser:
    """One window in which page after page is opened."""

    def __init__(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Counter)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.directory = tempfile.TemporaryDirectory()
        orders, self.orders = os.pipe()
        self.answers, answers = os.pipe()

        def give_pipes():
            for end in (orders, answers):  # neither is 3 or 4 when the other is put there
                os.set_inheritable(end, True)
            kept = [os.dup(orders), os.dup(answers)]
            os.dup2(kept[0], 3)
            os.dup2(kept[1], 4)
        self.process = subprocess.Popen(
            [PATH, "--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--disable-default-apps", "--disable-extensions",
             "--disable-dev-shm-usage", "--allow-file-access-from-files", f"--user-data-dir={self.directory.name}",
             f"--proxy-server=127.0.0.1:{self.server.server_port}", "--proxy-bypass-list=<-loopback>",
             "--remote-debugging-pipe", *(["--no-sandbox"] if os.geteuid() == 0 else []), "about:blank"],
            preexec_fn=give_pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(orders)
        os.close(answers)
        self.rest, self.number, self.session, self.loaded, self.console, self.scripts = b"", 0, None, 0, [], True
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def close(self):
        """End it."""
        with contextlib.suppress(OSError):
            os.write(self.orders, b'{"id": 0, "method": "Browser.close"}\0')
        self.process.wait(LIMIT_S)
        os.close(self.orders)
        os.close(self.answers)
        self.server.shutdown()
        self.server.server_close()
        self.directory.cleanup()

    def receive(self):
        """The next message, noted if it is an event."""
        while b"\0" not in self.rest:
            assert select.select([self.answers], [], [], LIMIT_S)[0], "the browser hangs"
            more = os.read(self.answers, 1 << 20)
            assert more, "the browser ended"
            self.rest += more
        line, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(line)
        method, given = message.get("method"), message.get("params", {})
        if method == "Page.loadEventFired":
            self.loaded += 1
        elif method == "Log.entryAdded":
            self.console.append(given["entry"]["text"])
        elif method == "Runtime.consoleAPICalled":
            self.console.append(str(given["args"]))
        elif method == "Runtime.exceptionThrown":
            self.console.append(str(given["exceptionDetails"]))
        return message

    def ask(self, method, **given):
        """What the browser answers to @method."""
        self.number += 1
        order = {"id": self.number, "method": method, "params": given}
        if self.session:
            order["sessionId"] = self.session
        os.write(self.orders, json.dumps(order).encode() + b"\0")
        while (message := self.receive()).get("id") != self.number:
            pass
        assert "error" not in message, (method, message)
        return message["result"]

    def look(self, width=1200, dark=False, height=900):
        """How wide the window is, and whether it is night."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, path, script=True, place=""):
        """Load the page at @path, forgetting what the one before said."""
        self.scripts = script
        self.ask("Emulation.setScriptExecutionDisabled", value=not script)
        for url in "about:blank", path.as_uri() + place:
            self.console, Counter.asked[:], before = [], [], self.loaded
            self.ask("Page.navigate", url=url)
            while self.loaded == before:
                self.receive()

    def run(self, script):
        """The value of @script in the page, waited for."""
        found = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def heard(self):
        """What the page said to the console, and what was asked for through the network."""
        self.run("new Promise(done => setTimeout(done))" if self.scripts else "0")  # what was on its way is there
        return self.console, Counter.asked

    def press(self, key):
        """A key, where the focus is."""
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, **({"text": key} if kind == "keyDown" and len(key) == 1 else {}))

    def paper(self):
        """The page as PDF."""
        return base64.b64decode(self.ask("Page.printToPDF")["data"])

    def picture(self, path):
        """Write a PNG file of what is seen."""
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot")["data"]))
