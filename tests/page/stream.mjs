// A server that shows the page of another one, and streams that one's status to it as fast as it is told to: each document is a second later
// than the one before, and what grew in a second grows again. Texts and rows come and go, as they do while clients do.

import { createServer } from "node:http";

const LINE = "\n";

export class Stream {
  // Of the server at `admin`, which takes this token.
  static async start(admin, token) {
    const stream = new Stream();
    const headers = { Authorization: `Bearer ${token}` };
    const page = await fetch(`${admin}/`);
    stream.body = await page.text();
    stream.headers = Object.fromEntries(["content-type", "content-security-policy"].map((name) => [name, page.headers.get(name)]));
    stream.pair = await documents(`${admin}/status?watch=1`, headers, 2);
    stream.latest = stream.pair[1];
    stream.ticks = 0;
    stream.server = createServer((request, reply) => stream.answer(request, reply));
    await new Promise((resume) => stream.server.listen(0, "127.0.0.1", resume));
    stream.url = `http://127.0.0.1:${stream.server.address().port}`;
    return stream;
  }

  answer(request, reply) {
    if (request.url === "/") return reply.writeHead(200, this.headers).end(this.body);
    if (request.url !== "/status?watch=1") return reply.writeHead(404).end();
    reply.writeHead(200, { "content-type": "application/json" });
    this.reply = reply;
    reply.write(JSON.stringify(this.latest) + LINE);
  }

  // Sends this many documents. What the last one says of its time.
  send(count) {
    for (let sent = 0; sent < count; sent += 1) {
      this.ticks += 1;
      // The second document of the pair has what it has; of the first are texts and rows of every other one.
      const [before, after] = this.pair;
      this.latest = grown(this.latest, before, after, this.ticks % 2 === 0);
      this.reply.write(JSON.stringify(this.latest) + LINE);
    }
    return this.latest.uptimeSeconds;
  }

  close() {
    this.server.closeAllConnections();
    this.server.close();
  }
}

// The first documents of a stream.
async function documents(url, headers, count) {
  const stop = new AbortController();
  const reply = await fetch(url, { headers, signal: stop.signal });
  let text = "";
  for await (const bytes of reply.body.pipeThrough(new TextDecoderStream())) {
    text += bytes;
    if (text.split(LINE).length > count) break;
  }
  stop.abort();
  return text.split(LINE).slice(0, count).map((line) => JSON.parse(line));
}

// A document a second after `latest`.
function grown(latest, before, after, isOdd) {
  if (Array.isArray(after)) {
    const rows = isOdd && Array.isArray(before) ? before : after;
    return rows.map((row, at) => grown(latest?.[at], before?.[at], after[at] ?? row, isOdd));
  }
  if (typeof after === "object" && after !== null) {
    return Object.fromEntries(Object.entries(after).map(([name, value]) => [name, grown(latest?.[name], before?.[name], value, isOdd)]));
  }
  if (typeof after !== "number" || typeof latest !== "number" || typeof before !== "number") return isOdd ? before ?? after : after;
  return after >= before ? latest + (after - before) : isOdd ? before : after;
}
