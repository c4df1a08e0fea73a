// The official Node client, unchanged, against the server whose URL is the only argument: an informer, a raw watch,
// pages and writes. Exits with 1 when anything is not as it must be. The package is found from the working directory
// or NODE_PATH, so that it need not be installed beside this file.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const url = process.argv[2];
if (url === undefined) {
  console.error('usage: node node_client.mjs URL, as http://127.0.0.1:8080');
  process.exit(2);
}

const places = [process.cwd(), ...(process.env.NODE_PATH ?? '').split(path.delimiter).filter(Boolean).map(path.dirname)];
const found = places
  .map((place) => {
    try {
      return createRequire(path.join(place, 'from-here.cjs')).resolve('@kubernetes/client-node');
    } catch {
      return undefined;
    }
  })
  .find((file) => file !== undefined);
if (found === undefined) {
  console.error(`no @kubernetes/client-node in ${places.join(', ')}: npm install @kubernetes/client-node@1.4.0`);
  process.exit(2);
}
const k8s = await import(pathToFileURL(found).href);

const namespace = 'node';
const late = setTimeout(() => {
  console.error('not done in 60 seconds');
  process.exit(1);
}, 60_000);

async function until(what, condition) {
  const deadline = Date.now() + 20_000;
  while (!condition()) {
    assert(Date.now() < deadline, `waited in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const config = new k8s.KubeConfig();
config.loadFromOptions({
  clusters: [{ name: 'c', server: url, skipTLSVerify: true }],
  users: [{ name: 'u' }],
  contexts: [{ name: 'x', cluster: 'c', user: 'u' }],
  currentContext: 'x',
});
const api = config.makeApiClient(k8s.CoreV1Api);
const body = (name, k = '0') => ({ metadata: { name, labels: { app: 'a' } }, data: { k } });
const create = (name) => api.createNamespacedConfigMap({ namespace, body: body(name) });

// Writes and pages.
for (const name of ['a', 'b', 'c']) {
  const made = await create(name);
  assert.equal(made.metadata.namespace, namespace);
}
await assert.rejects(create('a'), (error) => error.code === 409);
const first = await api.listNamespacedConfigMap({ namespace, limit: 2 });
const second = await api.listNamespacedConfigMap({ namespace, limit: 2, _continue: first.metadata._continue });
assert.deepEqual([...first.items, ...second.items].map((item) => item.metadata.name), ['a', 'b', 'c']);

// An informer: the state, then what follows.
const list = () => api.listNamespacedConfigMap({ namespace });
const informer = k8s.makeInformer(config, `/api/v1/namespaces/${namespace}/configmaps`, list);
const told = [];
for (const event of ['add', 'update', 'delete']) {
  informer.on(event, (object) => told.push(`${event} ${object.metadata.name}`));
}
let stopping = false;
informer.on('error', (error) => {
  if (stopping) return; // It reports its own stop as an aborted request.
  console.error(error);
  process.exit(1);
});
await informer.start();
await until('the state', () => told.length === 3);
assert.deepEqual(told.splice(0), ['add a', 'add b', 'add c']);
await create('d');
const patch = [{ op: 'replace', path: '/data/k', value: '1' }];
const patched = await api.patchNamespacedConfigMap({ name: 'a', namespace, body: patch });
assert.equal(patched.data.k, '1');
await api.deleteNamespacedConfigMap({ name: 'b', namespace });
await until('three events', () => told.length >= 3);
assert.deepEqual(told, ['add d', 'update a', 'delete b']);
assert.deepEqual(informer.list(namespace).map((object) => object.metadata.name).sort(), ['a', 'c', 'd']);
stopping = true;
await informer.stop();

// A raw watch that the server ends.
const start = (await list()).metadata.resourceVersion;
const seen = [];
await new Promise((resolve, reject) => {
  new k8s.Watch(config)
    .watch(
      `/api/v1/namespaces/${namespace}/configmaps`,
      { resourceVersion: start, timeoutSeconds: 2 },
      (type, object) => seen.push(`${type} ${object.metadata.name}`),
      (error) => (error === null || error === undefined ? resolve() : reject(error)),
    )
    .then(() => api.deleteNamespacedConfigMap({ name: 'c', namespace }))
    .catch(reject);
});
assert.deepEqual(seen, ['DELETED c']);

await api.deleteCollectionNamespacedConfigMap({ namespace });
assert.equal((await list()).items.length, 0);
clearTimeout(late);
console.log('the Node client is content');
process.exit(0);
