"""A page in Debian's chromium, driven through its debugging pipe: nothing but the standard library and the browser is needed."""
import base64
import fcntl
import json
import os
import pathlib
import select
import shutil
import subprocess
import time

KEYS = {"Enter": (13, "\r"), "Tab": (9, ""), "Escape": (27, ""), "Backspace": (8, ""), "ArrowDown": (40, ""), "ArrowUp": (38, ""), "ArrowLeft": (37, ""), "ArrowRight": (39, "")}
# What a page does before anything else: tasks that block it are written down.
WATCH = """window.longTasks = []; new PerformanceObserver((list) => { for (const task of list.getEntries()) window.longTasks.push([task.startTime, task.duration]); }).observe({entryTypes: ['longtask']});"""


def chromium():
    """The browser's path, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    def __init__(self, profile, width=1280, height=900):
        def high(pair):  # above 3 and 4, which the browser has
            out = tuple(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 20) for fd in pair)
            for fd in pair:
                os.close(fd)
            return out

        to_browser, self._write = high(os.pipe())
        self._read, from_browser = high(os.pipe())
        words = [chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking", "--hide-scrollbars",
                 f"--user-data-dir={profile}", f"--window-size={width},{height}", "--remote-debugging-pipe", "about:blank"]
        self._process = subprocess.Popen(words, preexec_fn=lambda: (os.dup2(to_browser, 3), os.dup2(from_browser, 4)), pass_fds=(3, 4), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self._buffer, self._number, self.errors, self.requests, self._loaded = b"", 0, [], [], False
        target = next(t for t in self._call("Target.getTargets")["targetInfos"] if t["type"] == "page")["targetId"]
        self._session = None
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Performance"):
            self._call(f"{domain}.enable")
        self._call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)

    _session = None

    def _next(self, timeout):
        """One message, or None."""
        end = time.monotonic() + timeout
        while b"\0" not in self._buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._read], [], [], left)[0]:
                return None
            got = os.read(self._read, 1 << 20)
            if not got:
                raise RuntimeError("the browser ended")
            self._buffer += got
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _note(self, message):
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(params["exceptionDetails"].get("exception", {}).get("description", params["exceptionDetails"]["text"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(str(params["args"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Page.loadEventFired":
            self._loaded = True

    def _call(self, method, timeout=60, **params):
        self._number += 1
        message = {"id": self._number, "method": method, "params": params} | ({"sessionId": self._session} if self._session else {})
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            got = self._next(timeout)
            if got is None:
                raise TimeoutError(method)
            if got.get("id") == self._number:
                if "error" in got:
                    raise RuntimeError(f"{method}: {got['error']}")
                return got["result"]
            self._note(got)

    def open(self, path):
        self.errors, self.requests, self._loaded = [], [], False
        self._call("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        while not self._loaded:
            got = self._next(60)
            if got is None:
                raise TimeoutError("load")
            self._note(got)

    def js(self, text):
        got = self._call("Runtime.evaluate", expression=text, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in got:
            raise RuntimeError(got["exceptionDetails"])
        return got["result"].get("value")

    def key(self, *names):
        for name in names:
            code, text = KEYS.get(name, (ord(name.upper()[0]), name))
            key = {"key": name, "windowsVirtualKeyCode": code}
            self._call("Input.dispatchKeyEvent", type="keyDown", **key, **({"text": text} if text else {}))
            self._call("Input.dispatchKeyEvent", type="keyUp", **key)

    def type(self, text):
        self._call("Input.insertText", text=text)

    def click(self, selector, which=0):
        box = self.js(f"(() => {{ const e = document.querySelectorAll({json.dumps(selector)})[{which}]; e.scrollIntoView({{block: 'center'}}); const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; }})()")
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def size(self, width, height=900):
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def dark(self, on=True):
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if on else "light"}])

    def heap(self):
        """Bytes of the page's JavaScript."""
        self._call("HeapProfiler.collectGarbage")
        return self._call("Runtime.getHeapUsage")["usedSize"]

    def screenshot(self, path):
        pathlib.Path(path).write_bytes(base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        try:
            self._session = None
            self._call("Browser.close", timeout=10)
        except (TimeoutError, RuntimeError, OSError):
            pass
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        os.close(self._write)
