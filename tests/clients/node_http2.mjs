// Node's own `http2`, against the server whose URL is the only argument: SERVER_CA and SERVER_TOKEN as in cells.py, SERVER_PID is
// the process to end at last. A line for each operation: its name, a tab, and `ok` or `FAIL`, a tab and the reason.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import http2 from 'node:http2';
import { gunzipSync } from 'node:zlib';

const url = process.argv[2];
if (url === undefined) {
  console.error('usage: node node_http2.mjs URL, as http://127.0.0.1:8080');
  process.exit(2);
}
const PATIENCE = 30_000;
const secured = process.env.SERVER_CA ? { ca: readFileSync(process.env.SERVER_CA) } : {};
const own = process.env.SERVER_TOKEN ? { authorization: `Bearer ${process.env.SERVER_TOKEN}` } : {};
const JSON_BODY = { 'content-type': 'application/json' };

const maps = (namespace) => `/api/v1/namespaces/${namespace}/configmaps`;
const map = (name, k = '0') => JSON.stringify({ metadata: { name }, data: { k } });

async function connect(options = {}) {
  const session = http2.connect(url, { ...secured, ...options });
  await Promise.race([once(session, 'remoteSettings'), once(session, 'error').then(([error]) => Promise.reject(error))]);
  if (url.startsWith('https:')) assert.equal(session.alpnProtocol, 'h2');
  return session;
}

// A request whose head and chunks are kept; `done` is settled when its stream is closed.
function begin(session, method, path, fields = {}, options = {}) {
  const stream = session.request({ ':method': method, ':path': path, ...own, ...fields }, options);
  stream.chunks = [];
  stream.body = () => Buffer.concat(stream.chunks);
  stream.on('data', (chunk) => stream.chunks.push(chunk));
  stream.head = new Promise((resolve, reject) => {
    stream.once('response', resolve);
    stream.once('error', reject);
    stream.once('close', () => reject(new Error(`closed with ${stream.rstCode} before its head`)));
  });
  stream.done = new Promise((resolve, reject) => {
    stream.once('error', reject);
    stream.once('close', () => (stream.readableEnded ? resolve() : reject(new Error(`cut off: ${stream.rstCode}`))));
  });
  stream.head.catch(() => {});
  stream.done.catch(() => {});
  return stream;
}

async function answer(stream) {
  const head = await stream.head;
  await stream.done;
  return { status: head[':status'], head, body: stream.body(), json: () => JSON.parse(stream.body()) };
}

function exchange(session, method, path, fields = {}, body = undefined) {
  const stream = begin(session, method, path, fields, { endStream: body === undefined });
  if (body !== undefined) stream.end(body);
  return answer(stream);
}

async function create(session, namespace, name, k) {
  const made = await exchange(session, 'POST', maps(namespace), JSON_BODY, map(name, k));
  assert.equal(made.status, 201, String(made.body).slice(0, 200));
}

const lines = (stream) =>
  String(stream.body())
    .split('\n')
    .slice(0, -1)
    .filter((line) => line.trim() !== '')
    .map((line) => JSON.parse(line));

async function until(condition) {
  const end = Date.now() + PATIENCE;
  while (!condition()) {
    assert(Date.now() < end, 'waited in vain');
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

async function objects() {
  const session = await connect();
  const place = maps('node-h2-objects');
  await create(session, 'node-h2-objects', 'a');
  assert.equal((await exchange(session, 'POST', place, JSON_BODY, map('a'))).status, 409);
  const merge = { 'content-type': 'application/merge-patch+json' };
  const patched = await exchange(session, 'PATCH', `${place}/a`, merge, '{"data":{"k":"1"}}');
  assert.deepEqual([patched.status, patched.json().data.k], [200, '1']);
  const put = await exchange(session, 'PUT', `${place}/a`, JSON_BODY, JSON.stringify({ ...patched.json(), data: { k: '2' } }));
  assert.equal(put.status, 200);
  assert.deepEqual((await exchange(session, 'GET', place)).json().items.map((item) => item.data.k), ['2']);
  assert.equal((await exchange(session, 'DELETE', `${place}/a`)).status, 200);
  assert.equal((await exchange(session, 'GET', `${place}/a`)).status, 404);
  session.close();
  await once(session, 'close');
}

async function manyWatches() {
  const session = await connect();
  const watches = Array.from({ length: 90 }, () => begin(session, 'GET', `${maps('node-h2-watches')}?watch=1`));
  for (const watch of watches) assert.equal((await watch.head)[':status'], 200);
  const names = Array.from({ length: 200 }, (_, number) => `n${String(number).padStart(3, '0')}`);
  for (const name of names) await create(session, 'node-h2-watches', name);
  for (const watch of watches) {
    await until(() => lines(watch).length >= names.length);
    assert.deepEqual(lines(watch).map((event) => event.object.metadata.name), names);
  }
  // A client that cancels its streams keeps its connection.
  for (const watch of watches) watch.close(http2.constants.NGHTTP2_CANCEL);
  assert.equal((await exchange(session, 'GET', '/version')).status, 200);
  session.close();
}

// Node holds back itself what is more than the server allows.
async function manyRequests() {
  const session = await connect();
  const most = session.remoteSettings.maxConcurrentStreams;
  const answers = await Promise.all(Array.from({ length: 2_000 }, () => exchange(session, 'GET', '/version')));
  assert(answers.every((one) => one.status === 200));
  // At the limit, one that is cancelled gives its place to the next at once.
  const watches = Array.from({ length: most }, () => begin(session, 'GET', `${maps('node-h2-many')}?watch=1`));
  for (const watch of watches) await watch.head;
  const waiting = exchange(session, 'GET', '/version');
  watches[0].close(http2.constants.NGHTTP2_CANCEL);
  assert.equal((await waiting).status, 200);
  assert(watches.slice(1).every((watch) => !watch.closed));
  session.destroy();
}

const largeList = (settings) => async () => {
  const namespace = `node-h2-large-${settings.initialWindowSize}`;
  const session = await connect();
  const k = Array.from({ length: 1_000_000 }, () => 'abcdefghijklmnop'[Math.trunc(Math.random() * 16)]).join('');
  for (let number = 0; number < 12; number += 1) await create(session, namespace, `m${number}`, k);
  const narrow = await connect({ settings });
  const [one, other] = await Promise.all([exchange(narrow, 'GET', maps(namespace)), exchange(narrow, 'GET', maps(namespace))]);
  assert(one.body.length > 12_000_000);
  assert(one.json().items.every((item) => item.data.k === k));
  assert(one.body.equals(other.body));
  session.close();
  narrow.close();
};

// A stream that nobody reads holds up no other.
async function slowReader() {
  const session = await connect();
  for (let number = 0; number < 3; number += 1) await create(session, 'node-h2-slow', `m${number}`, 'x'.repeat(1_000_000));
  const slow = begin(session, 'GET', maps('node-h2-slow'));
  slow.pause();
  await slow.head;
  for (let number = 0; number < 50; number += 1) assert.equal((await exchange(session, 'GET', '/version')).status, 200);
  slow.resume();
  const read = await answer(slow);
  assert.equal(read.json().items.length, 3);
  session.close();
}

async function uploads() {
  const session = await connect();
  const made = await Promise.all(
    Array.from({ length: 20 }, (_, number) =>
      exchange(session, 'POST', maps('node-h2-up'), JSON_BODY, map(`m${number}`, 'y'.repeat(1_000_000))),
    ),
  );
  assert(made.every((one) => one.status === 201 && one.json().data.k.length === 1_000_000));
  session.close();
}

async function trailersAndContinue() {
  const session = await connect({ paddingStrategy: http2.constants.PADDING_STRATEGY_MAX });
  const sum = begin(session, 'POST', maps('node-h2-trailers'), JSON_BODY, { waitForTrailers: true });
  sum.on('wantTrailers', () => sum.sendTrailers({ 'x-sum': '1' }));
  sum.end(map('a', 'z'.repeat(100_000)));
  assert.equal((await answer(sum)).status, 201);
  const asks = begin(session, 'POST', maps('node-h2-trailers'), { ...JSON_BODY, expect: '100-continue' }, { endStream: false });
  await once(asks, 'continue');
  asks.end(map('b'));
  assert.equal((await answer(asks)).status, 201);
  session.close();
}

async function compressed() {
  const session = await connect();
  await create(session, 'node-h2-gzip', 'a', 'a'.repeat(300_000));
  const { head, body } = await exchange(session, 'GET', maps('node-h2-gzip'), { 'accept-encoding': 'gzip' });
  assert.equal(head['content-encoding'], 'gzip');
  assert(body.length < 30_000);
  assert.equal(JSON.parse(gunzipSync(body)).items[0].data.k.length, 300_000);
  session.close();
}

async function pings() {
  const session = await connect();
  for (let number = 0; number < 200; number += 1) {
    await new Promise((resolve, reject) => {
      session.ping(Buffer.from(String(number).padStart(8)), (error, _time, payload) =>
        error || String(payload) !== String(number).padStart(8) ? reject(error ?? new Error('another ping')) : resolve(),
      );
    });
  }
  session.settings({ initialWindowSize: 1_000_000 });
  await once(session, 'localSettings');
  session.close();
}

async function ends() {
  const session = await connect();
  const watches = Array.from({ length: 50 }, () => begin(session, 'GET', `${maps('node-h2-end')}?watch=1&allowWatchBookmarks=1`));
  for (const watch of watches) await watch.head;
  await create(session, 'node-h2-end', 'last');
  const goaway = once(session, 'goaway');
  const closed = once(session, 'close');
  process.kill(Number(process.env.SERVER_PID), 'SIGTERM');
  assert.equal((await goaway)[0], http2.constants.NGHTTP2_NO_ERROR);
  for (const watch of watches) {
    await watch.done;
    assert.equal(watch.rstCode, http2.constants.NGHTTP2_NO_ERROR);
    assert(lines(watch).some((event) => event.object.metadata.name === 'last'));
  }
  await closed;
}

const operations = [
  ['objects', objects],
  ['90 watches on a connection', manyWatches],
  ['more requests than streams', manyRequests],
  ['12 MB, windows of 64 KiB', largeList({ initialWindowSize: 65_535 })],
  ['12 MB, windows of 1,000 bytes', largeList({ initialWindowSize: 1_000 })],
  ['a stream that nobody reads', slowReader],
  ['20 uploads of 1 MB at once', uploads],
  ['trailers, 100-continue', trailersAndContinue],
  ['gzip', compressed],
  ['pings and settings', pings],
  ['SIGTERM', ends],
];
const late = (name) => new Promise((_, reject) => setTimeout(() => reject(new Error(`${name}: not in time`)), PATIENCE).unref());
for (const [name, operation] of operations) {
  try {
    await Promise.race([operation(), late(name)]);
    console.log(`${name}\tok`);
  } catch (error) {
    console.log(`${name}\tFAIL\t${String(error.message ?? error).replaceAll(/\s+/g, ' ').slice(0, 300)}`);
  }
}
process.exit(0);
