"""The official Python client, unchanged, against the server whose URL is the only argument.

Lists, pages, watches, creates, patches and deletes; exits with 1 when anything is not as it must be.
"""

import sys
import threading
import time

from kubernetes import client, watch

NAMESPACE = "python"


def config_map(name, value="0", app="a"):
    metadata = client.V1ObjectMeta(name=name, labels={"app": app})
    return client.V1ConfigMap(metadata=metadata, data={"k": value})


def names(listed):
    return [item.metadata.name for item in listed.items]


def objects(api):
    for number in range(5):
        made = api.create_namespaced_config_map(NAMESPACE, config_map(f"n{number}"))
        assert made.metadata.uid and made.metadata.namespace == NAMESPACE, made
    try:
        api.create_namespaced_config_map(NAMESPACE, config_map("n0"))
        raise AssertionError("created twice")
    except client.ApiException as error:
        assert error.status == 409, error
    first = api.list_namespaced_config_map(NAMESPACE, limit=2)
    second = api.list_namespaced_config_map(NAMESPACE, limit=3, _continue=first.metadata._continue)
    assert names(first) + names(second) == [f"n{number}" for number in range(5)]
    assert first.metadata.resource_version == second.metadata.resource_version
    assert names(api.list_namespaced_config_map(NAMESPACE, field_selector="metadata.name=n3")) == ["n3"]
    assert names(api.list_config_map_for_all_namespaces(label_selector="app notin (a)")) == []
    read = api.read_namespaced_config_map("n0", NAMESPACE)
    read.data["k"] = "replaced"
    replaced = api.replace_namespaced_config_map("n0", NAMESPACE, read)
    assert int(replaced.metadata.resource_version) > int(read.metadata.resource_version)
    try:
        api.replace_namespaced_config_map("n0", NAMESPACE, read)
        raise AssertionError("replaced what is newer")
    except client.ApiException as error:
        assert error.status == 409, error
    patched = api.patch_namespaced_config_map(
        "n0", NAMESPACE, {"data": {"more": "1"}}, _content_type="application/merge-patch+json"
    )
    assert patched.data == {"k": "replaced", "more": "1"}, patched.data
    patched = api.patch_namespaced_config_map("n0", NAMESPACE, [{"op": "remove", "path": "/data/more"}])
    assert patched.data == {"k": "replaced"}, patched.data


def watching(api):
    start = api.list_namespaced_config_map(NAMESPACE).metadata.resource_version

    def write():
        time.sleep(0.3)
        api.create_namespaced_config_map(NAMESPACE, config_map("w"))
        api.patch_namespaced_config_map("w", NAMESPACE, {"data": {"k": "1"}}, _content_type="application/merge-patch+json")
        api.delete_namespaced_config_map("w", NAMESPACE)

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    stream = watch.Watch()
    arguments = {"resource_version": start, "timeout_seconds": 20, "allow_watch_bookmarks": True}
    for event in stream.stream(api.list_namespaced_config_map, NAMESPACE, **arguments):
        if event["type"] == "BOOKMARK":
            continue
        seen.append((event["type"], event["object"].metadata.name, event["object"].data["k"]))
        if len(seen) == 3:
            stream.stop()
    writer.join()
    assert seen == [("ADDED", "w", "0"), ("MODIFIED", "w", "1"), ("DELETED", "w", "1")], seen
    # A watch without a revision begins with the state, and ends when it was told to.
    begun = time.monotonic()
    state = [event["object"].metadata.name for event in watch.Watch().stream(api.list_namespaced_config_map, NAMESPACE, timeout_seconds=1)]
    assert state == [f"n{number}" for number in range(5)], state
    assert time.monotonic() - begun < 15


def main(url):
    configuration = client.Configuration()
    configuration.host = url
    api = client.CoreV1Api(client.ApiClient(configuration))
    assert client.VersionApi(api.api_client).get_code().major == "1"
    assert any(group.name == "apps" for group in client.ApisApi(api.api_client).get_api_versions().groups)
    objects(api)
    watching(api)
    api.delete_collection_namespaced_config_map(NAMESPACE)
    assert names(api.list_namespaced_config_map(NAMESPACE)) == []
    try:
        api.delete_namespaced_config_map("n0", NAMESPACE)
        raise AssertionError("deleted twice")
    except client.ApiException as error:
        assert error.status == 404, error
    print("the Python client is content")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python_client.py URL, as http://127.0.0.1:8080")
    main(sys.argv[1])
