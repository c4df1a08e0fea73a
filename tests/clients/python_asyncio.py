"""kubernetes_asyncio, unchanged, against the server whose URL is the only argument."""

import asyncio

import cells

try:
    from kubernetes_asyncio import client, watch
except ImportError as error:
    cells.cannot_load(error)

MERGE = "application/merge-patch+json"


def body(name):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"app": "a"}), data={"k": "0"})


async def create(api, namespace, *names):
    for name in names:
        await api.create_namespaced_config_map(namespace, body(name))


def names(listed):
    return [item.metadata.name for item in listed.items]


async def creating(api):
    await create(api, "as-create", "a")
    try:
        await create(api, "as-create", "a")
        raise AssertionError("created twice")
    except client.ApiException as error:
        assert error.status == 409, error
    assert (await api.read_namespaced_config_map("a", "as-create")).data == {"k": "0"}


async def pages(api):
    await create(api, "as-pages", *"abc")
    first = await api.list_namespaced_config_map("as-pages", limit=2)
    second = await api.list_namespaced_config_map("as-pages", limit=2, _continue=first.metadata._continue)
    assert names(first) + names(second) == list("abc")


async def patching(api):
    await create(api, "as-merge", "a")
    patch = {"data": {"more": "1"}}
    patched = await api.patch_namespaced_config_map("a", "as-merge", patch, _content_type=MERGE)
    assert patched.data == {"k": "0", "more": "1"}, patched.data


async def watching(api):
    await create(api, "as-watch", "a")
    start = (await api.list_namespaced_config_map("as-watch")).metadata.resource_version

    async def write():
        await asyncio.sleep(0.3)
        await create(api, "as-watch", "w")
        await api.patch_namespaced_config_map("w", "as-watch", {"data": {"k": "1"}}, _content_type=MERGE)
        await api.delete_namespaced_config_map("w", "as-watch")

    writer = asyncio.create_task(write())
    seen = []
    async with watch.Watch() as stream:
        listing = stream.stream(
            api.list_namespaced_config_map, "as-watch", resource_version=start, timeout_seconds=20, allow_watch_bookmarks=True
        )
        async for event in listing:
            if event["type"] == "BOOKMARK":
                continue
            seen.append((event["type"], event["object"].metadata.name))
            if len(seen) == 3:
                stream.stop()
    await writer
    assert seen == [("ADDED", "w"), ("MODIFIED", "w"), ("DELETED", "w")], seen


async def watching_from_nowhere(api):
    await create(api, "as-state", "a", "b")
    async with watch.Watch() as stream:
        listing = stream.stream(api.list_namespaced_config_map, "as-state", timeout_seconds=1)
        assert [event["object"].metadata.name async for event in listing] == ["a", "b"]


async def deleting(api):
    await create(api, "as-delete", "a", "b")
    await api.delete_namespaced_config_map("a", "as-delete")
    await api.delete_collection_namespaced_config_map("as-delete")
    assert names(await api.list_namespaced_config_map("as-delete")) == []


async def main():
    configuration = cells.configured(client.Configuration())
    async with client.ApiClient(configuration) as connection:
        api = client.CoreV1Api(connection)
        for name, operation in [
            ("create, read, conflict", creating),
            ("list in pages", pages),
            ("patch: merge", patching),
            ("watch", watching),
            ("watch from the state on", watching_from_nowhere),
            ("delete, delete all", deleting),
        ]:
            try:
                await asyncio.wait_for(operation(api), 30)
            except Exception as error:  # Whatever it is, it is this operation's.
                cells.report(name, error)
            else:
                cells.report(name)


if __name__ == "__main__":
    asyncio.run(main())
