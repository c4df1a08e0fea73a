"""Python's `h2`, a state machine of HTTP/2 with strict rules of its own, against the server whose URL is the only argument.

Whatever the server sends against RFC 9113 is an error here. SERVER_PID is the process to end at last.
"""

import gzip
import json
import os
import select
import signal
import socket
import time
import urllib.parse

import cells

try:
    from h2 import connection, errors, events, exceptions, settings
    from h2.config import H2Configuration
except ImportError as error:
    cells.cannot_load(error)

# After a GOAWAY h2 takes the connection for closed; RFC 9113, section 6.8, lets its streams go on.
states = connection.ConnectionState
connection.H2ConnectionStateMachine._transitions[(states.CLIENT_OPEN, connection.ConnectionInputs.RECV_GOAWAY)] = (
    None,
    states.CLIENT_OPEN,
)

PATIENCE = 30
PLACE = urllib.parse.urlsplit(cells.url())
JSON = ("content-type", "application/json")


class Stream:
    """What came on a stream."""

    def __init__(self):
        self.heads, self.body, self.ended, self.reset, self.trailers = [], bytearray(), False, None, None

    @property
    def status(self):
        return int(dict(self.heads[-1])[":status"])

    def json(self):
        return json.loads(self.body)

    def lines(self):
        """The whole events of a watch so far; heartbeats are spaces between them."""
        whole = self.body.rpartition(b"\n")[0]
        return [json.loads(line) for line in whole.split(b"\n") if line.strip()]

    def head(self, name):
        return dict(self.heads[-1]).get(name)


class Connection:
    """A connection, and its streams by number. `windows` opens both windows again for whatever came."""

    def __init__(self, windows=True, **initial):
        self.socket = socket.create_connection((PLACE.hostname, PLACE.port), PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if PLACE.scheme == "https":
            context = cells.tls()
            context.set_alpn_protocols(["h2", "http/1.1"])
            self.socket = context.wrap_socket(self.socket, server_hostname=PLACE.hostname)
            assert self.socket.selected_alpn_protocol() == "h2", self.socket.selected_alpn_protocol()
        self.h2 = connection.H2Connection(H2Configuration(header_encoding="utf-8"))
        if initial:
            codes = {settings.SettingCodes[name]: value for name, value in initial.items()}
            self.h2.local_settings = settings.Settings(client=True, initial_values=codes)
        self.h2.initiate_connection()
        self.windows, self.streams, self.pongs, self.goaway = windows, {}, [], None
        self.closed = self.mute = False
        self.flush()
        self.until(lambda: self.h2.remote_settings.max_concurrent_streams < 2**32)

    def flush(self):
        data = self.h2.data_to_send()
        if data and not self.mute:
            try:
                self.socket.sendall(data)
            except OSError:
                # The server is closing: what it said is still to be read.
                self.mute = True

    def read(self, wait):
        """Whatever comes within this time; False: nothing did."""
        pending = getattr(self.socket, "pending", lambda: 0)()
        if not pending and not select.select([self.socket], [], [], wait)[0]:
            return False
        try:
            data = self.socket.recv(1 << 18)
        except ConnectionError:
            data = b""
        if not data:
            self.closed = True
            return False
        for event in self.h2.receive_data(data):
            self.take(event)
        self.flush()
        return True

    def take(self, event):
        stream = self.streams.get(getattr(event, "stream_id", 0))
        match event:
            case events.ResponseReceived() | events.InformationalResponseReceived():
                stream.heads.append(event.headers)
            case events.DataReceived():
                stream.body += event.data
                if self.windows and event.flow_controlled_length:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case events.TrailersReceived():
                stream.trailers = event.headers
            case events.StreamEnded():
                stream.ended = True
            case events.StreamReset():
                stream.reset = event.error_code
            case events.PingAckReceived():
                self.pongs.append(event.ping_data)
            case events.ConnectionTerminated():
                self.goaway = (event.error_code, event.last_stream_id)

    def until(self, condition, patience=PATIENCE):
        end = time.monotonic() + patience
        while not condition():
            left = end - time.monotonic()
            assert left > 0 and not self.closed, f"waited in vain; goaway {self.goaway}, closed {self.closed}"
            self.read(min(left, 1))

    def request(self, method, path, fields=(), body=None, end=True, **priority):
        number = self.h2.get_next_available_stream_id()
        head = [(":method", method), (":scheme", PLACE.scheme), (":authority", PLACE.netloc), (":path", path)]
        head += [(name.lower(), value) for name, value in cells.headers().items()]
        self.streams[number] = Stream()
        self.h2.send_headers(number, head + list(fields), end_stream=body is None and end, **priority)
        self.flush()
        if body is not None:
            self.upload(number, body, end=end)
        return number

    def upload(self, number, body, end=True, piece=1 << 20, padding=None):
        """Sends a body as the server's windows let it."""
        body = memoryview(body)
        extra = 0 if padding is None else padding + 1
        while body:
            room = min(self.h2.local_flow_control_window(number), self.h2.max_outbound_frame_size, piece)
            if room <= extra:
                self.until(lambda: self.h2.local_flow_control_window(number) > extra)
                continue
            part, body = body[: room - extra], body[room - extra :]
            self.h2.send_data(number, part.tobytes(), pad_length=padding)
            self.flush()
            self.read(0)
        if end:
            self.h2.end_stream(number)
            self.flush()

    def answer(self, number):
        stream = self.streams[number]
        self.until(lambda: stream.ended or stream.reset is not None)
        assert stream.ended, f"reset with {stream.reset}"
        return stream

    def exchange(self, *arguments, **options):
        return self.answer(self.request(*arguments, **options))

    def alive(self):
        self.h2.ping(b"are you?")
        self.flush()
        known = len(self.pongs)
        self.until(lambda: len(self.pongs) > known)
        assert self.goaway is None, self.goaway

    def close(self):
        self.socket.close()


def maps(namespace):
    return f"/api/v1/namespaces/{namespace}/configmaps"


def config_map(name, value="0"):
    return json.dumps({"metadata": {"name": name}, "data": {"k": value}}).encode()


def create(made, namespace, name, value="0"):
    created = made.exchange("POST", maps(namespace), [JSON], config_map(name, value))
    assert created.status == 201, (created.status, bytes(created.body[:200]))
    return created.json()


def large(namespace, count=12):
    """Objects of more than `count` MB in all; random digits, so that gzip cannot help."""
    made = Connection()
    for number in range(count):
        create(made, namespace, f"m{number:02}", os.urandom(500_000).hex())
    listed = made.exchange("GET", maps(namespace))
    assert len(listed.body) > count * 1_000_000
    made.close()
    return bytes(listed.body)


def objects():
    made = Connection()
    place = maps("h2-objects")
    create(made, "h2-objects", "a")
    assert made.exchange("POST", place, [JSON], config_map("a")).status == 409
    assert made.exchange("GET", f"{place}/a").json()["data"] == {"k": "0"}
    merge = [("content-type", "application/merge-patch+json")]
    patched = made.exchange("PATCH", f"{place}/a", merge, b'{"data":{"k":"1"}}')
    assert (patched.status, patched.json()["data"]) == (200, {"k": "1"})
    new = dict(patched.json(), data={"k": "2"})
    assert made.exchange("PUT", f"{place}/a", [JSON], json.dumps(new).encode()).status == 200
    assert [item["data"]["k"] for item in made.exchange("GET", place).json()["items"]] == ["2"]
    assert made.exchange("DELETE", f"{place}/a").status == 200
    assert made.exchange("GET", f"{place}/a").status == 404
    made.alive()


def many_watches():
    made, count, changes = Connection(), 90, 200
    watches = [made.request("GET", f"{maps('h2-watches')}?watch=1") for _ in range(count)]
    made.until(lambda: all(made.streams[number].heads for number in watches))
    for number in range(changes):
        create(made, "h2-watches", f"n{number:03}")
    expected = [f"n{number:03}" for number in range(changes)]
    for number in watches:
        stream = made.streams[number]
        made.until(lambda: stream.body.count(b"\n") >= changes)
        names = [event["object"]["metadata"]["name"] for event in stream.lines()]
        assert names == expected and stream.lines()[0]["type"] == "ADDED", names
        assert not stream.ended and stream.reset is None
    made.alive()
    made.close()


def too_many_streams():
    made = Connection()
    most = made.h2.remote_settings.max_concurrent_streams
    watches = [made.request("GET", f"{maps('h2-many')}?watch=1") for _ in range(most)]
    made.until(lambda: all(made.streams[number].heads for number in watches))
    try:
        made.request("GET", maps("h2-many"))
    except exceptions.TooManyStreamsError:
        pass
    else:
        raise AssertionError("h2 opens more streams than the server allows")
    # As a client that did not read the settings.
    made.h2.remote_settings._settings[settings.SettingCodes.MAX_CONCURRENT_STREAMS].append(most + 10)
    made.h2.remote_settings.acknowledge()
    refused = [made.streams[made.request("GET", maps("h2-many"))] for _ in range(5)]
    made.until(lambda: all(stream.reset is not None for stream in refused))
    assert {stream.reset for stream in refused} == {errors.ErrorCodes.REFUSED_STREAM}
    made.h2.reset_stream(watches[0], errors.ErrorCodes.CANCEL)
    made.flush()
    made.alive()
    assert made.exchange("GET", maps("h2-many")).status == 200
    assert all(made.streams[number].reset is None for number in watches[1:])
    made.close()


def windows(frames):
    def large_list():
        namespace = f"h2-windows-{frames}"
        expected = large(namespace)
        made = Connection(INITIAL_WINDOW_SIZE=frames)
        assert made.exchange("GET", maps(namespace)).body == expected
        made.close()

    return large_list


def a_stream_without_a_window():
    whole = large("h2-blocked", 3)
    made = Connection(windows=False, INITIAL_WINDOW_SIZE=0)
    blocked = made.request("GET", maps("h2-blocked"))
    made.until(lambda: made.streams[blocked].heads)
    other = made.request("GET", "/version")
    made.h2.increment_flow_control_window(10_000, other)
    made.flush()
    assert made.answer(other).status == 200
    made.alive()
    assert not made.streams[blocked].body
    # A byte, then everything: the window of the stream, and that of the connection.
    made.h2.increment_flow_control_window(1, blocked)
    made.flush()
    made.until(lambda: len(made.streams[blocked].body) == 1)
    made.windows = True
    made.h2.increment_flow_control_window(len(whole), blocked)
    made.h2.increment_flow_control_window(len(whole))
    made.flush()
    assert made.answer(blocked).body == whole
    made.close()


def windows_that_change():
    whole = large("h2-changing", 3)
    made = Connection(windows=False, INITIAL_WINDOW_SIZE=40_000)
    number = made.request("GET", maps("h2-changing"))
    stream = made.streams[number]
    made.until(lambda: len(stream.body) == 40_000)
    # Negative: 30,000 must be given before anything comes.
    made.h2.update_settings({settings.SettingCodes.INITIAL_WINDOW_SIZE: 10_000})
    made.flush()
    made.alive()
    made.h2.increment_flow_control_window(30_000, number)
    made.flush()
    made.alive()
    assert len(stream.body) == 40_000, len(stream.body)
    made.h2.increment_flow_control_window(len(whole))
    made.h2.update_settings({settings.SettingCodes.INITIAL_WINDOW_SIZE: 10_000_000})
    made.flush()
    made.windows = True
    assert made.answer(number).body == whole
    made.close()


def uploads():
    made = Connection()
    for name, piece, padding in [("whole", 1 << 20, None), ("padded", 1 << 20, 255), ("pieces", 700, 3)]:
        body = config_map(name, "x" * 1_000_000)
        number = made.request("POST", maps("h2-uploads"), [JSON], end=False)
        made.upload(number, body, piece=piece, padding=padding)
        created = made.answer(number)
        assert created.status == 201, (name, created.status, bytes(created.body[:200]))
        assert len(created.json()["data"]["k"]) == 1_000_000
    made.close()


def uploads_at_once():
    made = Connection()
    bodies = {}
    for number in range(50):
        opened = made.request("POST", maps("h2-at-once"), [JSON], end=False)
        bodies[opened] = memoryview(config_map(f"n{number}", f"{number}" * 30_000))
    while bodies:
        for opened, body in list(bodies.items()):
            room = min(made.h2.local_flow_control_window(opened), made.h2.max_outbound_frame_size, 4_000)
            part, bodies[opened] = body[:room], body[room:]
            last = not bodies[opened]
            if room or last:
                made.h2.send_data(opened, part.tobytes(), end_stream=last)
                made.flush()
            if last:
                del bodies[opened]
        made.read(0 if room else 1)
    assert {made.answer(opened).status for opened in list(made.streams)} == {201}
    made.close()


def trailers_and_continue():
    made = Connection()
    number = made.request("POST", maps("h2-trailers"), [JSON, ("trailer", "x-sum")], config_map("a"), end=False)
    made.h2.send_headers(number, [("x-sum", "1")], end_stream=True)
    made.flush()
    assert made.answer(number).status == 201
    number = made.request("POST", maps("h2-trailers"), [JSON, ("expect", "100-continue")], end=False)
    stream = made.streams[number]
    made.until(lambda: stream.heads)
    assert stream.status == 100 and not stream.ended
    made.upload(number, config_map("b"))
    assert made.answer(number).status == 201
    made.close()


def compressed():
    made = Connection()
    create(made, "h2-gzip", "a", "a" * 300_000)
    listed = made.exchange("GET", maps("h2-gzip"), [("accept-encoding", "gzip")])
    assert listed.head("content-encoding") == "gzip" and len(listed.body) < 30_000
    assert json.loads(gzip.decompress(listed.body))["items"][0]["data"]["k"] == "a" * 300_000
    made.close()


def pings():
    made = Connection()
    made.exchange("GET", "/version")
    for number in range(5_000):
        made.h2.ping(number.to_bytes(8, "big"))
        if number % 500 == 0:
            made.flush()
            made.read(0)
    made.flush()
    made.until(lambda: len(made.pongs) == 5_000)
    assert made.pongs == [number.to_bytes(8, "big") for number in range(5_000)]
    assert made.exchange("GET", "/version").status == 200
    made.close()


def must_calm_down(flood):
    """Floods until the server has had enough; another connection is served meanwhile."""

    def flooding():
        made, other = Connection(), Connection()
        made.exchange("GET", "/version")
        for number in range(60_000):
            flood(made, number)
            if number % 100 == 0:
                made.flush()
                made.read(0)
            if made.goaway or made.closed or made.mute:
                break
        while made.goaway is None and made.read(5):
            pass
        assert made.goaway and made.goaway[0] == errors.ErrorCodes.ENHANCE_YOUR_CALM, made.goaway
        assert other.exchange("GET", "/version").status == 200
        made.close()

    return flooding


def ping_flood(made, number):
    made.h2.ping(number.to_bytes(8, "big"))


def reset_flood(made, _number):
    made.h2.reset_stream(made.request("GET", f"{maps('h2-resets')}?watch=1"), errors.ErrorCodes.CANCEL)


def settings_flood(made, number):
    made.h2.update_settings({settings.SettingCodes.INITIAL_WINDOW_SIZE: 60_000 + number % 1_000})


def priorities():
    made = Connection()
    for number in range(1, 200, 2):
        made.h2.prioritize(number, weight=number, depends_on=0, exclusive=number % 4 == 1)
    made.flush()
    first = made.request("GET", "/version", priority_weight=256, priority_exclusive=True)
    second = made.request("GET", "/version", priority_depends_on=first, priority_weight=1)
    assert (made.answer(first).status, made.answer(second).status) == (200, 200)
    made.alive()
    made.close()


def tables():
    for size in (0, 65_536):
        made = Connection(HEADER_TABLE_SIZE=size)
        for number in range(300):
            # A table that fills, and forgets.
            fields = [(f"x-{number % 70}", f"{number}" * 20), ("user-agent", "python-h2")]
            assert made.exchange("GET", "/version", fields).status == 200
        made.close()


def a_client_that_goes():
    made = Connection()
    watched = made.request("GET", f"{maps('h2-goes')}?watch=1&timeoutSeconds=2")
    made.until(lambda: made.streams[watched].heads)
    # GOAWAY by hand: h2 itself would take its connection for closed.
    made.socket.sendall(bytes.fromhex("000008070000000000" "0000000000000000"))
    stream = made.answer(watched)
    assert stream.status == 200
    while not made.closed:
        assert made.read(PATIENCE) or made.closed, "not closed when all is done"


def the_end():
    """SIGTERM: every watch gets its end, what is under way is finished, each connection gets a GOAWAY and is closed."""
    whole = large("h2-under-way", 2)
    slow = Connection(windows=False, INITIAL_WINDOW_SIZE=20_000)
    under_way = slow.request("GET", maps("h2-under-way"))
    slow.until(lambda: len(slow.streams[under_way].body) == 20_000)
    made, count = Connection(), 50
    watches = [made.request("GET", f"{maps('h2-end')}?watch=1&allowWatchBookmarks=1") for _ in range(count)]
    made.until(lambda: all(made.streams[number].heads for number in watches))
    create(made, "h2-end", "last")
    os.kill(int(os.environ["SERVER_PID"]), signal.SIGTERM)
    slow.until(lambda: slow.goaway)
    slow.windows = True
    slow.h2.increment_flow_control_window(len(whole), under_way)
    slow.h2.increment_flow_control_window(len(whole))
    slow.flush()
    assert slow.answer(under_way).body == whole
    while not made.closed:
        assert made.read(PATIENCE) or made.closed, "not closed"
    assert made.goaway is not None and made.goaway[0] == errors.ErrorCodes.NO_ERROR, made.goaway
    for number in watches:
        stream = made.streams[number]
        assert stream.ended and stream.reset is None, (number, stream.ended, stream.reset)
        assert "last" in [event["object"]["metadata"].get("name") for event in stream.lines()]
        assert stream.body.endswith(b"\n") or stream.body.endswith(b" ")


cells.run(
    [
        ("objects", objects),
        ("90 watches on a connection", many_watches),
        ("more streams than may be", too_many_streams),
        ("12 MB, windows of 64 KiB", windows(65_535)),
        ("12 MB, windows of 1,000 bytes", windows(1_000)),
        ("a stream without a window", a_stream_without_a_window),
        ("windows that change", windows_that_change),
        ("1 MB up: whole, padded, in pieces", uploads),
        ("50 uploads at once", uploads_at_once),
        ("trailers, 100-continue", trailers_and_continue),
        ("gzip", compressed),
        ("5,000 pings", pings),
        ("a flood of pings", must_calm_down(ping_flood)),
        ("a flood of settings", must_calm_down(settings_flood)),
        ("a flood of resets", must_calm_down(reset_flood)),
        ("priorities", priorities),
        ("tables of fields", tables),
        ("a client's GOAWAY", a_client_that_goes),
        ("SIGTERM", the_end),
    ]
)
