//! Options of HTTP/2.

use super::row::{Row, Set, Shown, Standard};
use crate::runtime::Http2Heartbeat;
use crate::value;

pub(super) const MAX_STREAMS: Row = Row {
    name: "http2-max-streams",
    value: "N",
    help: "streams of a connection of HTTP/2 at once",
    standard: Standard::Text("100"),
    in_file: true,
    set: Set::One(|config, text| {
        config.server().http2_max_streams = value::whole(text, 1..=1_000)?;
        Ok(())
    }),
    show: |config| Shown::Number(config.server.http2_max_streams),
};

pub(super) const HEARTBEAT: Row = Row {
    name: "http2-heartbeat",
    value: "WHAT",
    help: "of idle watches over HTTP/2: stream or ping",
    standard: Standard::Text("stream"),
    in_file: true,
    set: Set::One(|config, text| {
        config.server().http2_heartbeat =
            value::one_of(text, &Http2Heartbeat::ALL, "kind of heartbeat", "give stream or ping")?;
        Ok(())
    }),
    show: |config| Shown::Text(config.server.http2_heartbeat.to_string()),
};
