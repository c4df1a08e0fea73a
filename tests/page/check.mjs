// The page in a real browser: it shows what /metrics says, complains of nothing, keeps its token, and can be used by everyone.
//
// usage: node check.mjs BROWSER ADMIN_URL API_URL AXE_FILE OUTPUT_FOLDER; the servers take the tokens `operators` and `clients`.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { Browser } from "./browser.mjs";
import { Clients } from "./clients.mjs";
import { Stream } from "./stream.mjs";

const [program, admin, api, axe, output] = process.argv.slice(2);
const TOKEN = "operators";
// Seconds of which the page keeps samples: before that it grows. Then documents, sent so many at once.
const KEPT = 300;
const TICKS = 1_000;
const AT_ONCE = 50;
const ATTEMPTS = 3;
// What may be more afterwards: less than a word for each document, and a row or two.
const GROWN_BYTES = 64 << 10;
const GROWN_NODES = 100;
const pause = (ms) => new Promise((resume) => setTimeout(resume, ms));

async function metrics() {
  const reply = await fetch(`${admin}/metrics`, { headers: { Authorization: `Bearer ${TOKEN}` } });
  assert.equal(reply.status, 200);
  const text = await reply.text();
  // All samples of a name, added up.
  return (name) => text.split("\n").reduce((sum, line) => {
    const [sample, value] = line.split(" ");
    return sample === name || sample.startsWith(`${name}{`) ? sum + Number(value) : sum;
  }, 0);
}

const shown = (page, id) => page.run(`Number(document.getElementById(${JSON.stringify(id)}).getAttribute("value"))`);
const cells = (page, table) => page.run(`[...document.querySelectorAll("#${table} tbody tr")].map((row) => [...row.cells].map((cell) => cell.textContent))`);

async function step(name, act) {
  const began = Date.now();
  await act();
  console.log(`ok   ${name} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
}

// The page over a stream: what it holds after the documents that it keeps, and after many more, is the same.
async function remains(stream) {
  const streamed = await browser.page();
  await streamed.open(`${stream.url}/`);
  await streamed.until(`held.latest !== null`);
  const show = async (count) => {
    for (let sent = 0; sent < count; sent += AT_ONCE) {
      const last = stream.send(AT_ONCE);
      await streamed.until(`held.latest.uptimeSeconds >= ${last}`, 20);
    }
  };
  await show(KEPT + 100);
  let before, after = await streamed.held();
  // Code that is compiled late, on a busy machine, is there once; what is held for each document is there every time.
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    before = after;
    await show(TICKS);
    after = await streamed.held();
    if (after.bytes - before.bytes < GROWN_BYTES) break;
  }
  const kept = await streamed.run(`held.samples.kept.length`);
  console.log(`     ${JSON.stringify(before)}, then ${JSON.stringify(after)}, ${kept} samples`);
  assert.ok(kept > KEPT / 2 && kept < KEPT * 1.2, `${kept} samples: as many as it keeps`);
  assert.ok(after.bytes - before.bytes < GROWN_BYTES, "bytes of its scripts");
  assert.ok(after.nodes - before.nodes < GROWN_NODES, "nodes of its document");
  assert.equal(after.listeners, before.listeners, "listeners");
  assert.deepEqual(streamed.complaints, []);
}

const browser = new Browser(program);
let clients;
try {
  const page = await browser.page();
  await step("the page is shown without a right, and asks for a token", async () => {
    await page.open(`${admin}/`);
    await page.until(`!document.getElementById("token-form").hidden && document.activeElement.id === "token"`);
    // The browser itself logs the refusal; the page does not.
    const refusals = page.complaints.splice(0);
    assert.ok(refusals.every((text) => text.includes("401")), refusals.join("\n"));
    assert.equal(await page.run(`document.getElementById("watchers-now").textContent`), "–");
  });
  await step("a token is typed in, with the keyboard alone", async () => {
    await page.type("wrong");
    await page.press("Enter");
    await page.until(`!document.getElementById("token-form").hidden`);
    page.complaints.splice(0);
    await page.type(TOKEN);
    await page.press("Enter");
    await page.until(`document.getElementById("connection").textContent === "connected"`);
  });
  clients = new Clients(api);
  await clients.write();
  await clients.err();
  await step("charts and rates move", async () => {
    await page.until(`Number(document.getElementById("deliveries-now").getAttribute("value")) > 20`);
    await pause(12_000);
    assert.ok(await page.run(`document.querySelectorAll("#deliveries-chart path.series").length === 1`));
    assert.ok(await page.run(`document.querySelectorAll("#stages-chart path.series").length >= 3`));
  });
  await step("latencies are percentiles", async () => {
    const rows = await cells(page, "stages");
    assert.equal(rows.length, 4);
    for (const row of rows.slice(0, 3)) assert.match(row[3], /^(> 10 s|[\d.,]+ (µs|ms|s))$/, row.join(" | "));
  });
  await step("the watcher that never reads is named", async () => {
    await page.until(`document.querySelector("#slowest tbody td:not(.empty)") !== null`, 20);
    const [[client, what, phase]] = await cells(page, "slowest");
    assert.match(client, /^127\.0\.0\.1:\d+$/);
    assert.deepEqual([what, phase], ["configmaps in shop", "Catching up, socket full"]);
  });
  for (const [name, width, scheme] of [["light", 1280, "light"], ["dark", 1280, "dark"], ["narrow", 360, "light"], ["narrow-dark", 360, "dark"], ["wide", 2560, "light"], ["4k", 3840, "dark"]]) {
    await step(`${name}: nothing is wider than ${width} px`, async () => {
      await page.look({ width, scheme });
      const beyond = await page.run(`[...document.querySelectorAll("body *")].filter((it) => it.getBoundingClientRect().right > ${width} + 1 && !it.closest(".scroll") && !it.closest(".hidden")).map((it) => it.tagName + "#" + it.id).join(" ")`);
      assert.equal(beyond, "");
      assert.ok(await page.run(`document.documentElement.scrollWidth <= ${width}`));
      await page.picture(join(output, `${name}.png`));
    });
  }
  if (axe) await step("axe finds nothing serious", async () => {
    for (const [width, scheme] of [[1280, "light"], [360, "dark"]]) {
      await page.look({ width, scheme });
      await page.run(readFileSync(axe, "utf8") + ";0");
      const found = await page.run(`axe.run().then(({ violations }) => violations.filter(({ impact }) => impact === "serious" || impact === "critical").map(({ id, nodes }) => id + ": " + nodes.map(({ html }) => html).join(" ")))`);
      assert.deepEqual(found, []);
    }
  });
  await step(`${TICKS} documents leave nothing behind`, async () => {
    const stream = await Stream.start(admin, TOKEN);
    try {
      await remains(stream);
    } finally {
      stream.close();
    }
  });
  await clients.stop();
  await step("numbers are those of /metrics within a second", async () => {
    await pause(1_500);
    const counted = await metrics();
    await pause(1_100);
    for (const [id, name] of [
      ["deliveries-total", "revcast_events_sent_total"],
      ["events-total", "revcast_events_received_total"],
      ["watchers-now", "revcast_watchers"],
      ["window-bytes", "revcast_window_bytes"],
      ["window-events", "revcast_window_events"],
      ["source-revision", "revcast_revision"],
      ["source-objects", "revcast_objects"],
    ]) assert.equal(await shown(page, id), counted(name), name);
    assert.equal(counted("revcast_watchers"), clients.count);
    const watchers = await cells(page, "watchers");
    assert.deepEqual(watchers.map(([resource, all]) => [resource, all]), [["configmaps", "61"], ["pods", "25"], ["apps/deployments", "9"]]);
    const errors = new Map((await cells(page, "errors")).map(([name, , total]) => [name, Number(total.replace(",", ""))]));
    const text = await (await fetch(`${admin}/metrics`, { headers: { Authorization: `Bearer ${TOKEN}` } })).text();
    const of404 = text.split("\n").filter((line) => line.startsWith("revcast_http_requests_total") && line.includes('code="404"'));
    assert.equal(errors.get("Request answered with 404"), of404.reduce((sum, line) => sum + Number(line.split(" ")[1]), 0));
  });
  await step("a pause is one", async () => {
    await page.run(`document.getElementById("pause").click()`);
    const before = await page.run(`document.getElementById("about").textContent`);
    await pause(2_200);
    assert.equal(await page.run(`document.getElementById("about").textContent`), before);
    await page.run(`document.getElementById("pause").click()`);
    assert.notEqual(await page.run(`document.getElementById("about").textContent`), before);
  });
  await step("the token is in no URL and in no store", async () => {
    assert.ok(page.asked.length >= 2);
    for (const { url } of page.asked) assert.ok(url.startsWith("data:") || ["/", "/status"].includes(new URL(url).pathname) && !url.includes(TOKEN), url);
    assert.deepEqual(await page.run(`[document.cookie, localStorage.length, sessionStorage.length, document.documentElement.outerHTML.includes(${JSON.stringify(TOKEN)})]`), ["", 0, 0, false]);
  });
  assert.deepEqual(page.complaints, [], "the console has no error");
} catch (error) {
  console.log(`FAIL ${error.message}`);
  process.exitCode = 1;
} finally {
  clients?.close();
  await clients?.stop();
  await browser.close();
}
