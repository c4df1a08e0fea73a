// Chromium over a pipe, with the DevTools protocol: a page, what it logs, and pictures of it.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export class Browser {
  constructor(program) {
    this.home = mkdtempSync(join(tmpdir(), "revcast-page-"));
    // Nothing is asked of the network: the page is on this machine.
    const options = ["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--force-color-profile=srgb", `--user-data-dir=${this.home}`, "about:blank"];
    this.child = spawn(program, options, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    this.number = 0;
    this.waiting = new Map();
    this.listeners = [];
    let rest = "";
    this.child.stdio[4].setEncoding("utf8").on("data", (text) => {
      const messages = (rest + text).split("\0");
      rest = messages.pop();
      for (const message of messages) this.take(JSON.parse(message));
    });
    this.child.on("exit", () => {
      for (const { reject } of this.waiting.values()) reject(new Error("the browser ended"));
    });
  }

  take(message) {
    const { id, error, result } = message;
    if (id === undefined) return this.listeners.forEach((listener) => listener(message));
    const { resolve, reject } = this.waiting.get(id);
    this.waiting.delete(id);
    if (error) reject(new Error(error.message));
    else resolve(result);
  }

  send(method, params = {}, sessionId = undefined) {
    const id = (this.number += 1);
    this.child.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
  }

  async page() {
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    const page = new Page(this, sessionId);
    for (const domain of ["Page", "Runtime", "Log", "Network"]) await page.send(`${domain}.enable`);
    return page;
  }

  async close() {
    const ended = new Promise((resolve) => this.child.on("exit", resolve));
    this.child.kill();
    await ended;
    // Its other processes may write for a moment longer, and `maxRetries` is not for what they add.
    for (let left = 50; ; left -= 1) {
      try {
        return rmSync(this.home, { recursive: true, force: true });
      } catch (error) {
        if (error.code !== "ENOTEMPTY" || left === 0) throw error;
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }
  }
}

class Page {
  constructor(browser, session) {
    Object.assign(this, { browser, session, complaints: [], asked: [] });
    browser.listeners.push(({ method, params, sessionId }) => {
      if (sessionId !== session) return;
      if (method === "Runtime.exceptionThrown") this.complaints.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
      if (method === "Log.entryAdded" && params.entry.level === "error") this.complaints.push(params.entry.text);
      if (method === "Runtime.consoleAPICalled" && ["error", "warning", "assert"].includes(params.type)) this.complaints.push(JSON.stringify(params.args));
      if (method === "Network.requestWillBeSent") this.asked.push(params.request);
    });
  }

  send(method, params) {
    return this.browser.send(method, params, this.session);
  }

  async open(url) {
    const loaded = new Promise((resolve) => this.browser.listeners.push(({ method, sessionId }) => {
      if (method === "Page.loadEventFired" && sessionId === this.session) resolve();
    }));
    await this.send("Page.navigate", { url });
    await loaded;
  }

  async run(expression) {
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(`${expression.slice(0, 80)}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
    return result.value;
  }

  // Waits until an expression is true.
  async until(expression, seconds = 10) {
    const end = Date.now() + seconds * 1000;
    while (!(await this.run(expression))) {
      if (Date.now() > end) throw new Error(`not true within ${seconds} s: ${expression}`);
      await new Promise((resume) => setTimeout(resume, 50));
    }
  }

  // What it holds after everything else was collected: bytes of its scripts, nodes of its documents, listeners.
  async held() {
    await this.send("HeapProfiler.collectGarbage");
    await this.send("HeapProfiler.collectGarbage");
    const { usedSize } = await this.send("Runtime.getHeapUsage");
    const { nodes, jsEventListeners } = await this.send("Memory.getDOMCounters");
    return { bytes: usedSize, nodes, listeners: jsEventListeners };
  }

  async type(text) {
    await this.send("Input.insertText", { text });
  }

  async press(key) {
    const codes = { Tab: 9, Enter: 13 };
    const event = { key, code: key, windowsVirtualKeyCode: codes[key], text: key === "Enter" ? "\r" : undefined };
    await this.send("Input.dispatchKeyEvent", { ...event, type: "keyDown" });
    await this.send("Input.dispatchKeyEvent", { ...event, type: "keyUp" });
  }

  async look({ width, scheme }) {
    await this.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }, { name: "prefers-reduced-motion", value: "reduce" }] });
    await this.send("Emulation.setDeviceMetricsOverride", { width, height: 900, deviceScaleFactor: 1, mobile: width < 500 });
    // The charts are drawn again, for the new width.
    await new Promise((resume) => setTimeout(resume, 400));
  }

  async picture(path) {
    const { data } = await this.send("Page.captureScreenshot", { captureBeyondViewport: true });
    writeFileSync(path, Buffer.from(data, "base64"));
  }
}
