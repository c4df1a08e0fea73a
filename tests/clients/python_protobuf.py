"""A client that speaks protobuf against the server whose URL is the only argument: what it receives is decoded by code that
shares nothing with the server, and compared with the JSON of the same objects.

KUBECTL_WITH_TYPES names a kubectl that has the descriptors of Kubernetes' types, STORED_IN the form in which the server stores
objects (json or protobuf). The objects are those that were recorded from a kube-apiserver, of every kind. The server must serve
example.com/v1 widgets, and keep no more than 1,024 events.
"""

import copy
import gzip
import http.client
import json
import os
import pathlib
import threading
import time
import urllib.parse

import cells

try:
    import kubernetes_protobuf
except ImportError as error:
    cells.cannot_load(error)

PROTOBUF = "application/vnd.kubernetes.protobuf"
JSON = "application/json"
METADATA = ";as={};v=v1;g=meta.k8s.io"
RECORDED = pathlib.Path(__file__).parent / "../../server/tests/fixtures/recorded/30-storage-protobuf.jsonl.gz"
# What the types of the kubectl do not have yet: fields of these kinds are newer.
NEWER = {"DeviceTaintRule", "ResourcePoolStatusRequest"}
# Served in JSON only.
JSON_ONLY = {"CustomResourceDefinition", "APIService"}
# Longer than any answer takes.
PATIENCE = 20

address = urllib.parse.urlsplit(cells.url()).netloc
types = kubernetes_protobuf.Types(os.environ["KUBECTL_WITH_TYPES"])
local = threading.local()


def connected():
    """A new connection."""
    secured = cells.tls()
    if secured is None:
        return http.client.HTTPConnection(address, timeout=PATIENCE)
    return http.client.HTTPSConnection(address, timeout=PATIENCE, context=secured)


class Reply:
    def __init__(self, response):
        self.code = response.status
        self.media_type = response.headers.get("Content-Type", "")
        self.body = response.read()
        if response.headers.get("Content-Encoding") == "gzip":
            self.zipped = len(self.body)
            self.body = gzip.decompress(self.body)

    def json(self):
        return json.loads(self.body)

    def packed(self):
        assert self.media_type == PROTOBUF, self.media_type
        return types.decode(self.body)

    def must(self, code):
        assert self.code == code, f"{self.code}, not {code}: {self.body[:300]}"
        return self


def ask(method, path, body=None, accept=JSON, content=JSON, **headers):
    """One request over this thread's connection."""
    if not hasattr(local, "connection"):
        local.connection = connected()
    if isinstance(body, dict):
        body = json.dumps(body).encode()
    headers |= cells.headers() | {"Accept": accept, **({"Content-Type": content} if body is not None else {})}
    try:
        local.connection.request(method, path, body, headers)
        return Reply(local.connection.getresponse())
    except Exception:
        del local.connection
        raise


def packed(method, path, message=None, **options):
    """One request in protobuf; `message`: apiVersion, kind and message of its body."""
    body = None if message is None else types.encode(*message)
    return ask(method, path, body, accept=PROTOBUF, content=PROTOBUF, **options)


def place(api_version, plural, namespace=None, name=None):
    root = "apis" if "/" in api_version else "api"
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"/{root}/{api_version}{within}/{plural}" + (f"/{name}" if name else "")


def same(decoded, shown):
    """An object in protobuf and the JSON of the same object."""
    api_version, kind, message = decoded
    shown = dict(shown)
    named = (shown.pop("apiVersion", api_version), shown.pop("kind", kind))
    assert named == (api_version, kind), f"{api_version} {kind} in protobuf, {named} in JSON"
    found = kubernetes_protobuf.differences(message, shown, kind)
    assert not found, "; ".join(found[:3])


def config_map(name, value="0", app="a"):
    metadata = {"name": name, "labels": {"app": app}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": value}}


def maps(namespace, name=None):
    return place("v1", "configmaps", namespace, name)


def create(namespace, *names, **options):
    return [ask("POST", maps(namespace), config_map(name, **options)).must(201).json() for name in names]


class Recorded:
    """An object as a kube-apiserver served it."""

    def __init__(self, line):
        self.plural, self.kind, self.name = line["resource"], line["kind"], line["name"]
        self.api_version = line["apiVersion"]
        self.namespace = "pb-all" if line.get("namespace") else None
        self.is_stored = line["apiVersion"] == line["stored_apiVersion"]
        self.body = json.loads(line["json"])
        for member in ["resourceVersion", "uid", "creationTimestamp", "generation", "managedFields", "finalizers"]:
            self.body["metadata"].pop(member, None)
        if self.namespace:
            self.body["metadata"]["namespace"] = self.namespace

    def all(self):
        return place(self.api_version, self.plural, self.namespace)

    def path(self):
        return place(self.api_version, self.plural, self.namespace, self.name)


def recorded():
    with gzip.open(RECORDED, "rt") as lines:
        lines = [json.loads(line) for line in lines]
    wanted = [line for line in lines if line["variant"] in ("minimal", "rich") and line["kind"] not in NEWER]
    found = [Recorded(line) for line in wanted if types.has(line["apiVersion"], line["kind"])]
    missing = {line["kind"] for line in wanted} - {one.kind for one in found}
    assert missing == JSON_ONLY | {"Widget"}, missing
    return found


def every(check):
    """Checks every recorded object, and names those that fail."""
    failed = []
    for one in objects:
        try:
            check(one)
        except AssertionError as error:
            failed.append(f"{one.api_version} {one.name}: {error}")
    assert not failed, f"{len(failed)} of {len(objects)}: {'; '.join(failed[:4])}"


def getting():
    for one in objects:
        if one.is_stored:
            ask("POST", one.all(), one.body).must(201)

    def check(one):
        same(packed("GET", one.path()).must(200).packed(), ask("GET", one.path()).must(200).json())

    every(check)


def listing():
    def check(one):
        reply = packed("GET", one.all()).must(200).packed()
        shown = ask("GET", one.all()).must(200).json()
        assert reply[1] == one.kind + "List" and len(shown["items"]) >= 2, reply[1]
        shown["metadata"]["resourceVersion"] = reply[2].metadata.resourceVersion
        same(reply, shown)

    every(check)


def creating():
    # As typed clients do: what was read, under another name.
    own = {"name", "uid", "resourceVersion", "creationTimestamp", "managedFields"}

    def strip(shown):
        shown["metadata"] = {name: value for name, value in shown["metadata"].items() if name not in own}
        return shown

    def check(one):
        if not one.is_stored:
            return
        api_version, kind, message = packed("GET", one.path()).must(200).packed()
        old = ask("GET", one.path()).must(200).json()
        message.metadata.name = f"{one.name}-2"
        message.metadata.uid = message.metadata.resourceVersion = ""
        del message.metadata.managedFields[:]
        made = packed("POST", one.all(), (api_version, kind, message)).must(201).packed()
        shown = ask("GET", one.path() + "-2").must(200).json()
        same(made, shown)
        assert made[2].metadata.uid, "no uid"
        assert not stored_in_protobuf or strip(shown) == strip(old), f"{strip(shown)} of {strip(old)}"
        ask("DELETE", one.path() + "-2").must(200)

    every(check)


def pages():
    create("pb-pages", *"abcde")
    names, token = [], ""
    while True:
        path = f"{maps('pb-pages')}?limit=2&continue={urllib.parse.quote(token)}"
        _, _, page = packed("GET", path).must(200).packed()
        names += [item.metadata.name for item in page.items]
        token = getattr(page.metadata, "continue")
        if not token:
            break
        assert len(names) % 2 == 0
        assert page.metadata.remainingItemCount == 5 - len(names), page.metadata
    assert names == list("abcde"), names


def selectors():
    create("pb-selectors", "a", "b")
    create("pb-selectors", "c", app="c")
    for query, wanted in [
        ("labelSelector=app%3Da", "ab"),
        ("labelSelector=app+notin+(a)", "c"),
        ("fieldSelector=metadata.name!%3Db", "ac"),
    ]:
        _, _, found = packed("GET", f"{maps('pb-selectors')}?{query}").must(200).packed()
        assert [item.metadata.name for item in found.items] == list(wanted), query


def zipped():
    for number in range(20):
        create("pb-gzip", f"m{number:02}", value="x" * 10_000)
    reply = packed("GET", maps("pb-gzip"), **{"Accept-Encoding": "gzip"}).must(200)
    assert reply.zipped < len(reply.body) / 4, len(reply.body)
    _, _, found = reply.packed()
    assert [item.data["k"] for item in found.items] == ["x" * 10_000] * 20


def replacing():
    create("pb-replace", "a")
    api_version, kind, read = packed("GET", maps("pb-replace", "a")).must(200).packed()
    read.data["k"] = "1 < 2 & ü\u2028"
    written = packed("PUT", maps("pb-replace", "a"), (api_version, kind, read)).must(200).packed()
    same(written, ask("GET", maps("pb-replace", "a")).must(200).json())
    assert int(written[2].metadata.resourceVersion) > int(read.metadata.resourceVersion)
    refused(409, "Conflict", packed("PUT", maps("pb-replace", "a"), (api_version, kind, read)))


def patching():
    create("pb-patch", "a")
    merge = b'{"data":{"more":"1","k":null}}'
    path = maps("pb-patch", "a")
    patched = ask("PATCH", path, merge, accept=PROTOBUF, content="application/merge-patch+json").must(200).packed()
    assert dict(patched[2].data) == {"more": "1"}, patched
    same(patched, ask("GET", path).must(200).json())


def status():
    spec = {"containers": [{"name": "c", "image": "i"}]}
    path = place("v1", "pods", "pb-status")
    ask("POST", path, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}).must(201)
    api_version, kind, pod = packed("GET", f"{path}/p").must(200).packed()
    pod.status.phase, pod.spec.nodeName = "Running", "n"
    written = packed("PUT", f"{path}/p/status", (api_version, kind, pod)).must(200).packed()
    assert (written[2].status.phase, written[2].spec.nodeName) == ("Running", ""), written
    same(written, ask("GET", f"{path}/p").must(200).json())


class Watch:
    """A watch over a connection of its own. Its frames are a length of four bytes and a WatchEvent."""

    def __init__(self, path, accept=PROTOBUF + ";stream=watch"):
        self.connection = connected()
        self.connection.request("GET", path, headers=cells.headers() | {"Accept": accept})
        self.response = self.connection.getresponse()
        assert self.response.status == 200, f"{self.response.status}: {self.response.read(300)}"
        media_type = self.response.headers["Content-Type"]
        assert media_type == PROTOBUF + ";stream=watch", media_type

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def exactly(self, count):
        data = self.response.read(count)
        assert len(data) in (0, count), f"the stream ends within a frame: {data}"
        return data

    def next(self):
        """The type of the next event and its object; None at the end."""
        length = self.exactly(4)
        if not length:
            return None
        message = self.exactly(int.from_bytes(length, "big"))
        event = types.named(kubernetes_protobuf.META + "WatchEvent").FromString(message)
        return event.type, types.decode(event.object.raw)


def lines(path, count):
    """The first events of a watch in JSON."""
    connection = connected()
    connection.request("GET", path, headers=cells.headers() | {"Accept": JSON})
    response = connection.getresponse()
    assert response.status == 200, response.status
    events = [json.loads(response.readline()) for _ in range(count)]
    connection.close()
    return events


def watching():
    kinds = [one for one in objects if one.is_stored and one.name.startswith("rich")]
    for one in kinds:
        start = ask("GET", one.all()).must(200).json()["metadata"]["resourceVersion"]
        path = f"{one.all()}?watch=1&resourceVersion={start}&timeoutSeconds={PATIENCE}"
        with Watch(path) as watch:
            # One whose name no other operation uses, with all that is in the recorded one.
            body = copy.deepcopy(one.body)
            body["metadata"]["name"] = name = f"w-{one.name}"
            ask("POST", one.all(), body).must(201)
            merge = b'{"metadata":{"labels":{"changed":"yes"}}}'
            ask("PATCH", f"{one.all()}/{name}", merge, content="application/merge-patch+json").must(200)
            ask("DELETE", f"{one.all()}/{name}?gracePeriodSeconds=0", b"").must(200)
            # A pod is marked before it is deleted.
            expected = ["ADDED", "MODIFIED"] + (["MODIFIED"] if one.kind == "Pod" else []) + ["DELETED"]
            events = [watch.next() for _ in expected]
        assert [event[0] for event in events] == expected, f"{one.kind}: {events}"
        shown = lines(path, len(expected))
        assert [line["type"] for line in shown] == expected, f"{one.kind}: {shown}"
        for event, line in zip(events, shown):
            same(event[1], line["object"])


def watching_from_the_state():
    create("pb-state", "a", "b")
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    with Watch(f"{maps('pb-state')}?{query}&timeoutSeconds={PATIENCE}") as watch:
        told = [watch.next() for _ in range(3)]
        assert [(kind, decoded[2].metadata.name) for kind, decoded in told] == [
            ("ADDED", "a"),
            ("ADDED", "b"),
            ("BOOKMARK", ""),
        ], told
        api_version, kind, mark = told[2][1]
        assert (api_version, kind) == ("v1", "ConfigMap")
        assert dict(mark.metadata.annotations) == {"k8s.io/initial-events-end": "true"}, mark
        newest = int(mark.metadata.resourceVersion)
        assert newest >= int(told[1][1][2].metadata.resourceVersion)
        (made,) = create("pb-state", "c")
        kind, decoded = watch.next()
        assert kind == "ADDED"
        same(decoded, made)


def selected():
    # What leaves a selection is deleted for its watch.
    create("pb-selected", "a")
    start = ask("GET", maps("pb-selected")).json()["metadata"]["resourceVersion"]
    path = f"{maps('pb-selected')}?watch=1&labelSelector=app%3Da&resourceVersion={start}&timeoutSeconds={PATIENCE}"
    with Watch(path) as watch:
        for app in "ba":
            merge = json.dumps({"metadata": {"labels": {"app": app}}}).encode()
            ask("PATCH", maps("pb-selected", "a"), merge, content="application/merge-patch+json").must(200)
        told = [watch.next() for _ in range(2)]
    for (kind, decoded), line in zip(told, lines(path, 2)):
        assert kind == line["type"]
        same(decoded, line["object"])
    assert [kind for kind, _ in told] == ["DELETED", "ADDED"], told


def ended():
    # An idle watch: frames only, a clean end, and a bookmark before it.
    create("pb-ended", "a")
    start = ask("GET", maps("pb-ended")).json()["metadata"]["resourceVersion"]
    query = f"watch=1&allowWatchBookmarks=true&resourceVersion={start}&timeoutSeconds=1"
    begun, told = time.monotonic(), []
    with Watch(f"{maps('pb-ended')}?{query}") as watch:
        while (event := watch.next()) is not None:
            told.append(event)
    assert time.monotonic() - begun < PATIENCE / 2
    assert all(kind == "BOOKMARK" for kind, _ in told), told


def expired():
    (old,) = create("pb-expired", "a")
    for number in range(1_200):
        merge = json.dumps({"data": {"k": str(number)}}).encode()
        ask("PATCH", maps("pb-expired", "a"), merge, content="application/merge-patch+json").must(200)
    start = old["metadata"]["resourceVersion"]
    with Watch(f"{maps('pb-expired')}?watch=1&resourceVersion={start}&timeoutSeconds={PATIENCE}") as watch:
        kind, (api_version, of, error) = watch.next()
        assert (kind, api_version, of) == ("ERROR", "v1", "Status")
        assert (error.code, error.reason, error.status) == (410, "Expired", "Failure"), error
        assert watch.next() is None


def refused(code, reason, reply):
    """A Status in protobuf, the same as in JSON for the same request if that is a GET."""
    api_version, kind, status = reply.must(code).packed()
    assert (api_version, kind) == ("v1", "Status")
    assert (status.code, status.reason, status.status) == (code, reason, "Failure"), status
    return status


def errors():
    create("pb-errors", "a")
    for query, code, reason in [
        ("/none", 404, "NotFound"),
        ("?limit=x", 400, "BadRequest"),
        ("?labelSelector=a%3D%3D%3Db", 400, "BadRequest"),
        ("?resourceVersion=4611686018427387904&timeoutSeconds=1", 504, "Timeout"),
    ]:
        path = maps("pb-errors") + query
        status = refused(code, reason, packed("GET", path))
        shown = ask("GET", path).must(code).json()
        if code == 504:
            # It counts what is missing, which changes.
            assert shown["reason"] == status.reason
        else:
            same(("v1", "Status", status), shown)
    body = types.named("k8s.io.api.core.v1.ConfigMap")()
    body.metadata.name = "a"
    status = refused(409, "AlreadyExists", packed("POST", maps("pb-errors"), ("v1", "ConfigMap", body)))
    assert (status.details.name, status.details.kind) == ("a", "configmaps"), status
    broken = ask("POST", maps("pb-errors"), b"k8s\0\x0a\xff", accept=PROTOBUF, content=PROTOBUF)
    refused(400, "BadRequest", broken)


def metadata():
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"color": "red"}}
    widgets = place("example.com/v1", "widgets", "pb-metadata")
    ask("POST", widgets, widget).must(201)
    create("pb-metadata", "w")
    for path in [maps("pb-metadata"), widgets]:
        many, one = METADATA.format("PartialObjectMetadataList"), METADATA.format("PartialObjectMetadata")
        shown = ask("GET", path, accept=JSON + many).must(200).json()
        found = ask("GET", path, accept=PROTOBUF + many).must(200).packed()
        shown["metadata"]["resourceVersion"] = found[2].metadata.resourceVersion
        for item in shown["items"]:
            assert item.pop("kind", None) in (None, "PartialObjectMetadata")
            item.pop("apiVersion", None)
        same(found, shown)
        found = ask("GET", f"{path}/w", accept=PROTOBUF + one).must(200).packed()
        same(found, ask("GET", f"{path}/w", accept=JSON + one).must(200).json())
        assert found[1] == "PartialObjectMetadata" and found[2].metadata.name == "w"
        with Watch(f"{path}?watch=1&timeoutSeconds={PATIENCE}", accept=PROTOBUF + one) as watch:
            kind, told = watch.next()
            assert kind == "ADDED" and told[1] == "PartialObjectMetadata" and told[2].metadata.name == "w", told


def negotiating():
    widgets = place("example.com/v1", "widgets", "pb-metadata")
    reply = ask("GET", widgets, accept=f"{PROTOBUF},{JSON}").must(200)
    assert reply.media_type == JSON and reply.json()["kind"] == "WidgetList"
    refused(406, "NotAcceptable", packed("GET", widgets))
    ask("GET", maps("pb-metadata"), accept=PROTOBUF + METADATA.format("Table")).must(406)
    body = types.named("k8s.io.api.core.v1.ConfigMap")()
    ask("POST", widgets, types.encode("example.com/v1", "Widget", body), content=PROTOBUF).must(415)
    reply = ask("GET", maps("pb-metadata"), accept=f"{PROTOBUF},{JSON}").must(200)
    assert reply.packed()[1] == "ConfigMapList"


def discovering():
    aggregated = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    for path, how in [("/api", aggregated), ("/apis", aggregated), ("/api", ""), ("/apis", ""), ("/apis/apps/v1", "")]:
        shown = ask("GET", path, accept=JSON + how).must(200)
        reply = ask("GET", path, accept=PROTOBUF + how).must(200)
        assert reply.media_type == PROTOBUF + how, reply.media_type
        decoded = types.decode(reply.body)
        same(decoded, shown.json())
        assert len(decoded[2].ListFields()) >= 1, path


def deleting():
    create("pb-delete", "a", "b", "c")
    options = types.of("v1", "DeleteOptions")()
    options.propagationPolicy = "Background"
    body = ("v1", "DeleteOptions", options)
    api_version, kind, _ = packed("DELETE", maps("pb-delete", "a"), body).must(200).packed()
    assert (api_version, kind) == ("v1", "Status"), kind
    options.preconditions.uid = "another"
    refused(409, "Conflict", packed("DELETE", maps("pb-delete", "b"), body))
    options.ClearField("preconditions")
    _, kind, gone = packed("DELETE", maps("pb-delete"), body).must(200).packed()
    assert kind == "ConfigMapList" and len(gone.items) == 2, gone
    assert ask("GET", maps("pb-delete")).json()["items"] == []


if __name__ == "__main__":
    objects = recorded()
    stored_in_protobuf = os.environ["STORED_IN"] == "protobuf"
    cells.run(
        [
            ("get, every kind", getting),
            ("list, every kind", listing),
            ("create, every kind", creating),
            ("watch, every kind", watching),
            ("list in pages", pages),
            ("list with selectors", selectors),
            ("list in gzip", zipped),
            ("replace, conflict", replacing),
            ("patch: merge", patching),
            ("status", status),
            ("watch from the state on", watching_from_the_state),
            ("watch with a selector", selected),
            ("watch without events", ended),
            ("watch behind the window", expired),
            ("errors", errors),
            ("metadata only", metadata),
            ("negotiation", negotiating),
            ("discovery", discovering),
            ("delete, delete all", deleting),
        ]
    )
