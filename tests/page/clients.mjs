// Clients that give the page something to show: watches, one that never reads, and one that writes.

import { connect } from "node:net";

const SLOW_BODY = "x".repeat(20_000);

function open(api, path) {
  const { hostname, port } = new URL(api);
  const socket = connect({ host: hostname, port: Number(port), highWaterMark: 1024 });
  socket.on("error", () => {});
  socket.write(`GET ${path} HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer clients\r\n\r\n`);
  return socket;
}

async function put(api, path, name, data, method = "POST") {
  const target = method === "POST" ? `${api}${path}` : `${api}${path}/${name}`;
  const body = JSON.stringify({ metadata: { name }, data });
  const headers = { Authorization: "Bearer clients", "Content-Type": "application/json" };
  const reply = await fetch(target, { method, headers, body });
  await reply.arrayBuffer();
  return reply.status;
}

export class Clients {
  constructor(api) {
    const maps = "/api/v1/namespaces/shop/configmaps";
    const paths = [...Array(60).fill(maps), ...Array(25).fill("/api/v1/pods"), ...Array(9).fill("/apis/apps/v1/deployments")];
    this.count = paths.length + 1;
    this.sockets = paths.map((path) => open(api, `${path}?watch=1`).resume());
    // Its socket fills, and it lags.
    const slow = open(api, `${maps}?watch=1`);
    slow.pause();
    this.sockets.push(slow);
    Object.assign(this, { api, maps, number: 0, isOver: false });
  }

  // Writes until it is stopped, some times a second.
  async write() {
    for (let name = 0; name < 5; name += 1) await put(this.api, this.maps, `m${name}`, {});
    this.writing = (async () => {
      while (!this.isOver) {
        this.number += 1;
        const name = `m${this.number % 5}`;
        await put(this.api, this.maps, name, { k: this.number % 4 ? String(this.number) : SLOW_BODY + this.number }, "PUT");
        await new Promise((resume) => setTimeout(resume, 30));
      }
    })();
  }

  async stop() {
    this.isOver = true;
    await this.writing;
  }

  // Lets go of the watches.
  close() {
    for (const socket of this.sockets) socket.destroy();
  }

  // Some requests that are refused.
  async err() {
    for (let at = 0; at < 3; at += 1) await fetch(`${this.api}/api/v1/namespaces/shop/configmaps/none`, { headers: { Authorization: "Bearer clients" } });
    await put(this.api, this.maps, "m0", {});
    await fetch(`${this.api}/api/v1/pods`, { headers: { Authorization: "Bearer wrong" } });
  }
}
