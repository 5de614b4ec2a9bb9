// Drives a page in Chromium by the DevTools protocol, over the pipe that it takes for that: no packages, no ports.
"use strict";
const { spawn } = require("child_process");
const fs = require("fs");
const os = require("os");
const path = require("path");

/** Starts Chromium with one empty page; `close` ends it. */
async function open(program = process.env.CHROMIUM || "chromium") {
  const profile = fs.mkdtempSync(path.join(os.tmpdir(), "perfuse-page-"));
  const root = process.getuid && process.getuid() === 0 ? ["--no-sandbox"] : [];
  const flags = ["--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--mute-audio", `--user-data-dir=${profile}`, ...root];
  const child = spawn(program, [...flags, "about:blank"], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
  const [to, from] = [child.stdio[3], child.stdio[4]];
  const waiting = new Map(), listeners = [];
  let next = 1, session, held = [];
  const ended = new Promise((_, reject) => child.on("exit", (code) => reject(new Error(`Chromium has ended: ${code}`))));
  ended.catch(() => {});
  from.on("data", (bytes) => {
    for (let end; (end = bytes.indexOf(0)) >= 0; bytes = bytes.subarray(end + 1)) {
      const message = JSON.parse(Buffer.concat([...held, bytes.subarray(0, end)]).toString());
      held = [];
      if (message.id) {
        const { resolve, reject } = waiting.get(message.id);
        waiting.delete(message.id);
        if (message.error) reject(new Error(JSON.stringify(message.error))); else resolve(message.result);
      } else listeners.forEach((listener) => listener(message));
    }
    if (bytes.length) held.push(bytes);
  });
  const send = (method, params = {}) => {
    const id = next++;
    const answer = new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
    to.write(JSON.stringify({ id, method, params, sessionId: session }) + "\0");
    return Promise.race([answer, ended]);
  };
  const once = (method) => new Promise((resolve) => {
    const listener = (message) => {
      if (message.method !== method) return;
      listeners.splice(listeners.indexOf(listener), 1);
      resolve(message.params);
    };
    listeners.push(listener);
  });

  const { targetId } = await send("Target.createTarget", { url: "about:blank" });
  session = (await send("Target.attachToTarget", { targetId, flatten: true })).sessionId;
  for (const domain of ["Page", "Runtime", "Log", "Network"]) await send(`${domain}.enable`);
  // What no page may do: errors, dialogs, requests beyond itself, what its policy had to stop.
  const wrong = [];
  let url = "";
  listeners.push(({ method, params }) => {
    if (method === "Runtime.exceptionThrown") wrong.push(params.exceptionDetails.exception?.description || params.exceptionDetails.text);
    else if (method === "Runtime.consoleAPICalled") wrong.push("console: " + JSON.stringify(params.args.map((one) => one.value)));
    else if (method === "Log.entryAdded") wrong.push("log: " + params.entry.text);
    else if (method === "Page.javascriptDialogOpening") { wrong.push("dialog: " + params.message); send("Page.handleJavaScriptDialog", { accept: false }); }
    else if (method === "Network.requestWillBeSent" && params.request.url.split("#")[0] !== url.split("#")[0]) wrong.push("request: " + params.request.url.slice(0, 200));
  });

  const evaluate = async (expression) => {
    const { result, exceptionDetails } = await send("Runtime.evaluate", { expression, returnByValue: true, awaitPromise: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description || exceptionDetails.text);
    return result.value;
  };
  const screen = async ({ width = 1400, height = 900, isDark = false, isPhone = false } = {}) => {
    await send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: isPhone ? 2 : 1, mobile: isPhone });
    await send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: isDark ? "dark" : "light" }] });
  };
  const go = async (to) => {
    url = to;
    // Where only what follows # differs, nothing would be loaded.
    for (const next of ["about:blank", to]) {
      const loaded = once("Page.loadEventFired");
      await send("Page.navigate", { url: next });
      await loaded;
    }
  };
  const CODES = { Enter: 13, Escape: 27, " ": 32, End: 35, Home: 36, ArrowLeft: 37, ArrowUp: 38, ArrowRight: 39, ArrowDown: 40, Tab: 9 };
  const key = async (name, { shift = false } = {}) => {
    const text = name === "Enter" ? "\r" : name.length === 1 ? name : undefined;
    const shared = { key: name, code: name.length === 1 ? undefined : name, windowsVirtualKeyCode: CODES[name] || name.toUpperCase().charCodeAt(0), modifiers: shift ? 8 : 0 };
    await send("Input.dispatchKeyEvent", { type: text ? "keyDown" : "rawKeyDown", text, ...shared });
    await send("Input.dispatchKeyEvent", { type: "keyUp", ...shared });
  };
  const mouse = (type, x, y, extra = {}) => send("Input.dispatchMouseEvent", { type, x, y, button: "left", buttons: type === "mouseReleased" ? 0 : 1, clickCount: 1, ...extra });
  const click = async (x, y) => { await mouse("mousePressed", x, y); await mouse("mouseReleased", x, y); };
  const drag = async (x, y, toX, toY) => {
    await mouse("mousePressed", x, y);
    for (let step = 1; step <= 4; step++) await mouse("mouseMoved", x + (toX - x) * step / 4, y + (toY - y) * step / 4);
    await mouse("mouseReleased", toX, toY);
  };
  const picture = async (file, params = {}) => {
    const { data } = await send("Page.captureScreenshot", { format: "png", ...params });
    fs.writeFileSync(file, Buffer.from(data, "base64"));
  };
  const close = async () => {
    const exit = new Promise((resolve) => child.on("exit", resolve));
    send("Browser.close").catch(() => {});
    const timer = setTimeout(() => child.kill("SIGKILL"), 5000);
    await exit;
    clearTimeout(timer);
    fs.rmSync(profile, { recursive: true, force: true });
  };
  return { send, evaluate, screen, go, key, mouse, click, drag, picture, close, wrong };
}

module.exports = { open };
