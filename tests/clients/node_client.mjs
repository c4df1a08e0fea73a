// The official Node client, unchanged, against the server whose URL is the only argument: the typed client, the
// KubernetesObjectApi, informers and raw watches. A line for each operation: its name, a tab, and `ok` or `FAIL`, a tab and
// the reason. Exit code 77 says that the client cannot be loaded here. The package is found from the working directory or
// NODE_PATH, so that it need not be installed beside this file.

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
  console.error(`no @kubernetes/client-node in ${places.join(', ')}: npm install @kubernetes/client-node`);
  process.exit(77);
}
let k8s;
try {
  k8s = await import(pathToFileURL(found).href);
} catch (error) {
  console.error(`Node ${process.version} cannot load it: ${String(error.message).split('\n')[0]}`);
  process.exit(77);
}

const config = new k8s.KubeConfig();
config.loadFromOptions({
  // Of a server with TLS and users; undefined for another.
  clusters: [{ name: 'c', server: url, caFile: process.env.SERVER_CA, skipTLSVerify: process.env.SERVER_CA === undefined }],
  users: [{ name: 'u', token: process.env.SERVER_TOKEN }],
  contexts: [{ name: 'x', cluster: 'c', user: 'u' }],
  currentContext: 'x',
});
const api = config.makeApiClient(k8s.CoreV1Api);
const objects = k8s.KubernetesObjectApi.makeApiClient(config);

const body = (name, k = '0') => ({ metadata: { name, labels: { app: 'a' } }, data: { k } });
const create = (namespace, name) => api.createNamespacedConfigMap({ namespace, body: body(name) });
const whole = (namespace, name) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  ...body(name),
  metadata: { namespace, name },
});
const names = (list) => list.items.map((item) => item.metadata.name);
const refused = (call, code) => assert.rejects(call, (error) => error.code === code);
const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function until(what, condition) {
  const deadline = Date.now() + 20_000;
  while (!condition()) {
    assert(Date.now() < deadline, `waited in vain: ${what()}`);
    await sleep(20);
  }
}

/** Watches until the server ends the stream, and gives `TYPE name` for each event. */
function watched(namespace, query, began) {
  const seen = [];
  return new Promise((resolve, reject) => {
    new k8s.Watch(config)
      .watch(
        `/api/v1/namespaces/${namespace}/configmaps`,
        query,
        (type, object) => seen.push(`${type} ${object.metadata?.name ?? object.code}`),
        (error) => (error === null || error === undefined ? resolve(seen) : reject(error)),
      )
      .then(began)
      .catch(reject);
  });
}

const operations = {
  'create, read, conflict': async () => {
    const made = await create('no-create', 'a');
    assert.equal(made.metadata.namespace, 'no-create');
    await refused(create('no-create', 'a'), 409);
    await refused(api.readNamespacedConfigMap({ namespace: 'no-create', name: 'none' }), 404);
  },
  'list in pages': async () => {
    const namespace = 'no-pages';
    for (const name of ['a', 'b', 'c']) await create(namespace, name);
    const first = await api.listNamespacedConfigMap({ namespace, limit: 2 });
    const second = await api.listNamespacedConfigMap({ namespace, limit: 2, _continue: first.metadata._continue });
    assert.deepEqual([...names(first), ...names(second)], ['a', 'b', 'c']);
  },
  'list with selectors': async () => {
    const namespace = 'no-selectors';
    for (const name of ['a', 'b']) await create(namespace, name);
    assert.deepEqual(names(await api.listNamespacedConfigMap({ namespace, fieldSelector: 'metadata.name=b' })), ['b']);
    assert.deepEqual(names(await api.listNamespacedConfigMap({ namespace, labelSelector: 'app!=a' })), []);
  },
  'replace, conflict': async () => {
    const namespace = 'no-replace';
    const old = await create(namespace, 'a');
    await api.replaceNamespacedConfigMap({ name: 'a', namespace, body: { ...old, data: { k: '1' } } });
    await refused(api.replaceNamespacedConfigMap({ name: 'a', namespace, body: { ...old, data: { k: '2' } } }), 409);
  },
  'patch: JSON': async () => {
    const namespace = 'no-patch';
    await create(namespace, 'a');
    const patch = [{ op: 'replace', path: '/data/k', value: '1' }];
    assert.equal((await api.patchNamespacedConfigMap({ name: 'a', namespace, body: patch })).data.k, '1');
  },
  'delete, delete all': async () => {
    const namespace = 'no-delete';
    for (const name of ['a', 'b', 'c']) await create(namespace, name);
    await api.deleteNamespacedConfigMap({ name: 'a', namespace });
    await refused(api.deleteNamespacedConfigMap({ name: 'a', namespace }), 404);
    await api.deleteCollectionNamespacedConfigMap({ namespace });
    assert.deepEqual(names(await api.listNamespacedConfigMap({ namespace })), []);
  },
  discovery: async () => {
    assert.equal((await config.makeApiClient(k8s.VersionApi).getCode()).major, '1');
    const groups = await config.makeApiClient(k8s.ApisApi).getAPIVersions();
    assert(groups.groups.some((group) => group.name === 'apps'));
  },
  'declared resource': async () => {
    const custom = config.makeApiClient(k8s.CustomObjectsApi);
    const place = { group: 'example.com', version: 'v1', plural: 'widgets', namespace: 'no-declared' };
    const widget = { apiVersion: 'example.com/v1', kind: 'Widget', metadata: { name: 'w' }, spec: { color: 'red' } };
    await custom.createNamespacedCustomObject({ ...place, body: widget });
    const list = await custom.listNamespacedCustomObject(place);
    assert.deepEqual(list.items.map((item) => item.spec.color), ['red']);
  },
  'object API: create to delete': async () => {
    const made = await objects.create(whole('no-objects', 'a'));
    const read = await objects.read(whole('no-objects', 'a'));
    assert.equal(read.metadata.uid, made.metadata.uid);
    await objects.replace({ ...read, data: { k: '1' } });
    const merged = await objects.patch(
      { ...whole('no-objects', 'a'), data: { more: '1' } },
      undefined,
      undefined,
      undefined,
      undefined,
      k8s.PatchStrategy.MergePatch,
    );
    assert.deepEqual(merged.data, { k: '1', more: '1' });
    assert.deepEqual(names(await objects.list('v1', 'ConfigMap', 'no-objects')), ['a']);
    await objects.delete(whole('no-objects', 'a'));
    await refused(objects.read(whole('no-objects', 'a')), 404);
  },
  "patch: the client's default": async () => {
    await objects.create(whole('no-default', 'a'));
    const patched = await objects.patch({ ...whole('no-default', 'a'), data: { more: '1' } });
    assert.deepEqual(patched.data, { k: '0', more: '1' });
  },
  'server-side apply': async () => {
    const applied = await objects.patch(
      whole('no-apply', 'a'),
      undefined,
      undefined,
      'me',
      true,
      k8s.PatchStrategy.ServerSideApply,
    );
    assert.equal(applied.data.k, '0');
  },
  informer: async () => {
    const namespace = 'no-informer';
    for (const name of ['a', 'b', 'c']) await create(namespace, name);
    const list = () => api.listNamespacedConfigMap({ namespace });
    const informer = k8s.makeInformer(config, `/api/v1/namespaces/${namespace}/configmaps`, list);
    const told = [];
    for (const event of ['add', 'update', 'delete']) {
      informer.on(event, (object) => told.push(`${event} ${object.metadata.name}`));
    }
    let stopping = false;
    informer.on('error', (error) => {
      // It reports its own stop as an aborted request.
      if (!stopping) told.push(`error ${error}`);
    });
    await informer.start();
    await until(() => `the state, not ${told}`, () => told.length === 3);
    assert.deepEqual(told.splice(0), ['add a', 'add b', 'add c']);
    await create(namespace, 'd');
    await api.patchNamespacedConfigMap({ name: 'a', namespace, body: [{ op: 'replace', path: '/data/k', value: '1' }] });
    await api.deleteNamespacedConfigMap({ name: 'b', namespace });
    await until(() => `three events, not ${told}`, () => told.length >= 3);
    assert.deepEqual(told, ['add d', 'update a', 'delete b']);
    assert.deepEqual(informer.list(namespace).map((object) => object.metadata.name).sort(), ['a', 'c', 'd']);
    stopping = true;
    await informer.stop();
  },
  watch: async () => {
    const namespace = 'no-watch';
    await create(namespace, 'a');
    const { resourceVersion } = (await api.listNamespacedConfigMap({ namespace })).metadata;
    const seen = await watched(namespace, { resourceVersion, timeoutSeconds: 2 }, async () => {
      await api.deleteNamespacedConfigMap({ name: 'a', namespace });
      await create(namespace, 'b');
    });
    assert.deepEqual(seen, ['DELETED a', 'ADDED b']);
  },
  'watch from the state on': async () => {
    for (const name of ['a', 'b']) await create('no-state', name);
    assert.deepEqual(await watched('no-state', { timeoutSeconds: 1 }), ['ADDED a', 'ADDED b']);
  },
};

for (const [name, operation] of Object.entries(operations)) {
  const late = sleep(30_000).then(() => {
    throw new Error('not done in 30 s');
  });
  // Who loses the race must not end the process.
  late.catch(() => {});
  try {
    await Promise.race([operation(), late]);
    console.log(`${name}\tok`);
  } catch (error) {
    console.log(`${name}\tFAIL\t${String(error?.message ?? error).replace(/\s+/g, ' ').slice(0, 300)}`);
  }
}
process.exit(0);
