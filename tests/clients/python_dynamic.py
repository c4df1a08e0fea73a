"""The DynamicClient of the official Python client, unchanged, against the server whose URL is the only argument."""

import tempfile
import threading
import time

import cells

try:
    from kubernetes import client, dynamic
except ImportError as error:
    cells.cannot_load(error)

configuration = cells.configured(client.Configuration())
base = client.ApiClient(configuration)
made = None


def connect():
    """What it learns of the server it keeps in a file; here in one of its own."""
    global made
    if made is None:
        folder = tempfile.mkdtemp()
        made = dynamic.DynamicClient(base, cache_file=f"{folder}/cache.json")
    return made


def maps():
    return connect().resources.get(api_version="v1", kind="ConfigMap")


def body(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"app": "a"}}, "data": data}


def names(listed):
    return [item.metadata.name for item in listed.items]


def discovering():
    resources = connect().resources
    assert connect().version["kubernetes"]["major"] == "1"
    deployment = resources.get(api_version="apps/v1", kind="Deployment")
    assert deployment.name == "deployments" and deployment.namespaced
    assert "all" in deployment.categories and "deploy" in deployment.short_names
    assert "status" in deployment.subresources
    assert resources.get(kind="Widget").group == "example.com"


def creating():
    maps().create(body=body("a", k="0"), namespace="dy-create")
    cells.refused(409, maps().create, body=body("a"), namespace="dy-create")
    assert maps().get(name="a", namespace="dy-create").data.k == "0"
    cells.refused(404, maps().get, name="none", namespace="dy-create")


def pages():
    for name in "abc":
        maps().create(body=body(name), namespace="dy-pages")
    first = maps().get(namespace="dy-pages", limit=2)
    second = maps().get(namespace="dy-pages", limit=2, _continue=first.metadata["continue"])
    assert names(first) + names(second) == list("abc")


def selectors():
    for name in "ab":
        maps().create(body=body(name), namespace="dy-selectors")
    assert names(maps().get(namespace="dy-selectors", field_selector="metadata.name=b")) == ["b"]
    assert names(maps().get(namespace="dy-selectors", label_selector="app!=a")) == []


def replacing():
    old = maps().create(body=body("a", k="0"), namespace="dy-replace").to_dict()
    maps().replace(body={**old, "data": {"k": "1"}}, namespace="dy-replace")
    cells.refused(409, maps().replace, body={**old, "data": {"k": "2"}}, namespace="dy-replace")


def patching(namespace, content_type, patch):
    def operation():
        maps().create(body=body("a", k="0"), namespace=namespace)
        options = {} if content_type is None else {"content_type": content_type}
        patched = maps().patch(body=patch, name="a", namespace=namespace, **options)
        assert patched.data.to_dict() == {"k": "0", "more": "1"}, patched

    return operation


def applying():
    applied = maps().server_side_apply(body=body("a", k="0"), namespace="dy-apply", field_manager="me")
    assert applied.data.k == "0"
    applied = maps().server_side_apply(body=body("a", k="1"), namespace="dy-apply", field_manager="me")
    assert applied.data.k == "1"


def watching():
    maps().create(body=body("a"), namespace="dy-watch")
    start = maps().get(namespace="dy-watch").metadata.resourceVersion

    def write():
        time.sleep(0.3)
        maps().create(body=body("w"), namespace="dy-watch")
        maps().delete(name="w", namespace="dy-watch")

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    for event in maps().watch(namespace="dy-watch", resource_version=start, timeout=20):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 2:
            break
    writer.join()
    assert seen == [("ADDED", "w"), ("DELETED", "w")], seen


def deleting():
    for name in "ab":
        maps().create(body=body(name), namespace="dy-delete")
    maps().delete(name="a", namespace="dy-delete")
    cells.refused(404, maps().delete, name="a", namespace="dy-delete")
    maps().delete(namespace="dy-delete", label_selector="app=a")
    assert names(maps().get(namespace="dy-delete")) == []


def declared():
    widgets = connect().resources.get(api_version="example.com/v1", kind="Widget")
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"color": "red"}}
    widgets.create(body=widget, namespace="dy-declared")
    assert widgets.get(name="w", namespace="dy-declared").spec.color == "red"


if __name__ == "__main__":
    merge, json = "application/merge-patch+json", "application/json-patch+json"
    cells.run(
        [
            ("discovery", discovering),
            ("create, read, conflict", creating),
            ("list in pages", pages),
            ("list with selectors", selectors),
            ("replace, conflict", replacing),
            ("patch: merge", patching("dy-merge", merge, {"data": {"more": "1"}})),
            ("patch: JSON", patching("dy-json", json, [{"op": "add", "path": "/data/more", "value": "1"}])),
            ("patch: the client's default", patching("dy-default", None, {"data": {"more": "1"}})),
            ("server-side apply", applying),
            ("watch", watching),
            ("delete, delete all", deleting),
            ("declared resource", declared),
        ]
    )
