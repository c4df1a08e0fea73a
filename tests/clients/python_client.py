"""The official Python client, unchanged, against the server whose URL is the only argument: the typed client.

Every operation has a namespace of its own.
"""

import os
import sys
import threading
import time

import cells

try:
    from kubernetes import client, watch
except ImportError as error:
    cells.cannot_load(error)

MERGE = "application/merge-patch+json"
configuration = cells.configured(client.Configuration())
api = client.CoreV1Api(client.ApiClient(configuration))


def config_map(name, value="0", app="a"):
    metadata = client.V1ObjectMeta(name=name, labels={"app": app})
    return client.V1ConfigMap(metadata=metadata, data={"k": value})


def create(namespace, *names):
    return [api.create_namespaced_config_map(namespace, config_map(name)) for name in names]


def names(listed):
    return [item.metadata.name for item in listed.items]


def creating():
    (made,) = create("py-create", "a")
    assert made.metadata.uid and made.metadata.namespace == "py-create", made
    cells.refused(409, create, "py-create", "a")
    assert api.read_namespaced_config_map("a", "py-create").data == {"k": "0"}
    cells.refused(404, api.read_namespaced_config_map, "none", "py-create")


def pages():
    create("py-pages", *"abcde")
    first = api.list_namespaced_config_map("py-pages", limit=2)
    second = api.list_namespaced_config_map("py-pages", limit=3, _continue=first.metadata._continue)
    assert names(first) + names(second) == list("abcde")
    assert first.metadata.resource_version == second.metadata.resource_version


def selectors():
    create("py-selectors", "a", "b")
    assert names(api.list_namespaced_config_map("py-selectors", field_selector="metadata.name=b")) == ["b"]
    assert names(api.list_namespaced_config_map("py-selectors", label_selector="app notin (a)")) == []
    everywhere = api.list_config_map_for_all_namespaces(label_selector="app in (a)")
    assert set(names(everywhere)) >= {"a", "b"}


def replacing():
    create("py-replace", "a")
    read = api.read_namespaced_config_map("a", "py-replace")
    read.data["k"] = "1"
    replaced = api.replace_namespaced_config_map("a", "py-replace", read)
    assert int(replaced.metadata.resource_version) > int(read.metadata.resource_version)
    cells.refused(409, api.replace_namespaced_config_map, "a", "py-replace", read)


def patching(namespace, body, **options):
    def patch():
        create(namespace, "a")
        patched = api.patch_namespaced_config_map("a", namespace, body, **options)
        assert patched.data == {"k": "0", "more": "1"}, patched.data

    return patch


def status():
    body = client.V1Pod(
        metadata=client.V1ObjectMeta(name="p"),
        spec=client.V1PodSpec(containers=[client.V1Container(name="c", image="i")]),
    )
    api.create_namespaced_pod("py-status", body)
    phase = {"status": {"phase": "Running"}, "spec": {"nodeName": "n"}}
    api.patch_namespaced_pod_status("p", "py-status", phase, _content_type=MERGE)
    pod = api.read_namespaced_pod_status("p", "py-status")
    assert (pod.status.phase, pod.spec.node_name) == ("Running", None), pod


def watching():
    create("py-watch", "a")
    start = api.list_namespaced_config_map("py-watch").metadata.resource_version

    def write():
        time.sleep(0.3)
        create("py-watch", "w")
        api.patch_namespaced_config_map("w", "py-watch", {"data": {"k": "1"}}, _content_type=MERGE)
        api.delete_namespaced_config_map("w", "py-watch")

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    stream = watch.Watch()
    arguments = {"resource_version": start, "timeout_seconds": 20, "allow_watch_bookmarks": True}
    for event in stream.stream(api.list_namespaced_config_map, "py-watch", **arguments):
        if event["type"] == "BOOKMARK":
            continue
        seen.append((event["type"], event["object"].metadata.name, event["object"].data["k"]))
        if len(seen) == 3:
            stream.stop()
    writer.join()
    assert seen == [("ADDED", "w", "0"), ("MODIFIED", "w", "1"), ("DELETED", "w", "1")], seen


def watching_from_nowhere():
    # Begins with the state, and ends when it was told to.
    create("py-state", "a", "b")
    begun = time.monotonic()
    stream = watch.Watch().stream(api.list_namespaced_config_map, "py-state", timeout_seconds=1)
    assert [event["object"].metadata.name for event in stream] == ["a", "b"]
    assert time.monotonic() - begun < 15


def deleting():
    create("py-delete", "a", "b", "c")
    api.delete_namespaced_config_map("a", "py-delete")
    cells.refused(404, api.delete_namespaced_config_map, "a", "py-delete")
    api.delete_collection_namespaced_config_map("py-delete")
    assert names(api.list_namespaced_config_map("py-delete")) == []


def discovering():
    assert client.VersionApi(api.api_client).get_code().major == "1"
    groups = client.ApisApi(api.api_client).get_api_versions().groups
    assert any(group.name == "apps" for group in groups)
    resources = client.AppsV1Api(api.api_client).get_api_resources().resources
    assert any(resource.name == "deployments" for resource in resources)


def declared():
    custom = client.CustomObjectsApi(api.api_client)
    place = ("example.com", "v1", "py-declared", "widgets")
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"color": "red"}}
    custom.create_namespaced_custom_object(*place, body)
    listed = custom.list_namespaced_custom_object(*place)
    assert [item["spec"]["color"] for item in listed["items"]] == ["red"], listed


def leader_election():
    from kubernetes.leaderelection import electionconfig, leaderelection
    from kubernetes.leaderelection.resourcelock.configmaplock import ConfigMapLock

    client.Configuration.set_default(configuration)
    led = threading.Event()
    lock = ConfigMapLock("lock", "py-election", "me")
    config = electionconfig.Config(
        lock, lease_duration=6, renew_deadline=4, retry_period=2, onstarted_leading=led.set, onstopped_leading=None
    )
    threading.Thread(target=leaderelection.LeaderElection(config).run, daemon=True).start()
    assert led.wait(15), "never led"


if __name__ == "__main__":
    cells.run(
        [
            ("create, read, conflict", creating),
            ("list in pages", pages),
            ("list with selectors", selectors),
            ("replace, conflict", replacing),
            ("patch: merge", patching("py-merge", {"data": {"more": "1"}}, _content_type=MERGE)),
            ("patch: JSON", patching("py-json", [{"op": "add", "path": "/data/more", "value": "1"}])),
            ("patch: the client's default", patching("py-default", {"data": {"more": "1"}})),
            ("status", status),
            ("watch", watching),
            ("watch from the state on", watching_from_nowhere),
            ("delete, delete all", deleting),
            ("discovery", discovering),
            ("declared resource", declared),
            ("leader election", leader_election),
        ]
    )
    # The election goes on in a thread that nothing stops, and that may die loudly while the interpreter ends.
    sys.stdout.flush()
    os._exit(0)
