//! The settings of a connection (RFC 9113, section 6.5): what this side announces, and what the peer did.

use super::frame::{self, PAYLOAD_BYTES_MAX, kind};
use super::hpack::TABLE_BYTES_INITIAL;
use super::{ErrorCode, Fault, Limits};

const HEADER_TABLE_SIZE: u16 = 1;
const ENABLE_PUSH: u16 = 2;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;
const MAX_HEADER_LIST_SIZE: u16 = 6;
/// RFC 8441, section 3.
const ENABLE_CONNECT_PROTOCOL: u16 = 8;
/// RFC 9218, section 2.1.
const NO_RFC7540_PRIORITIES: u16 = 9;

/// The window of a stream and of a connection until a setting, or an update, says otherwise.
pub(super) const DEFAULT_WINDOW: u32 = 65_535;
/// The largest window.
pub(super) const WINDOW_MAX: i64 = (1 << 31) - 1;
/// The largest payload that is sent in one frame, whatever the peer allows: streams of one connection take turns.
const SENT_PAYLOAD_BYTES_MAX: u32 = 64 << 10;

/// What the peer announced, as far as this side obeys it. It sends no pushes, and its heads fit in any list.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerSettings {
    /// The window with which streams begin, in bytes.
    pub(super) initial_window: u32,
    /// The largest payload of a frame that is sent.
    pub(super) payload_bytes_max: u32,
    /// Whether the next field block must say that no table is used: the peer made its table smaller (RFC 7541, section 4.2).
    pub(super) owes_size_update: bool,
}

impl PeerSettings {
    pub(super) const DEFAULT: Self = Self {
        initial_window: DEFAULT_WINDOW,
        payload_bytes_max: PAYLOAD_BYTES_MAX,
        owes_size_update: false,
    };

    /// Applies one setting. Unknown ones are ignored.
    pub(super) fn apply(&mut self, id: u16, value: u32) -> Result<(), Fault> {
        match id {
            ENABLE_PUSH | ENABLE_CONNECT_PROTOCOL | NO_RFC7540_PRIORITIES if value > 1 => {
                Err(Fault::of(ErrorCode::ProtocolError, "a setting that is on or off is 0 or 1"))
            }
            INITIAL_WINDOW_SIZE if i64::from(value) > WINDOW_MAX => {
                Err(Fault::of(ErrorCode::FlowControlError, "INITIAL_WINDOW_SIZE is at most 2^31-1"))
            }
            INITIAL_WINDOW_SIZE => {
                self.initial_window = value;
                Ok(())
            }
            MAX_FRAME_SIZE if !(1 << 14..1 << 24).contains(&value) => {
                Err(Fault::of(ErrorCode::ProtocolError, "MAX_FRAME_SIZE is from 2^14 to 2^24-1"))
            }
            MAX_FRAME_SIZE => {
                self.payload_bytes_max = value.min(SENT_PAYLOAD_BYTES_MAX);
                Ok(())
            }
            HEADER_TABLE_SIZE => {
                self.owes_size_update |= (value as usize) < TABLE_BYTES_INITIAL;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Appends the settings of this side.
pub(super) fn push(out: &mut Vec<u8>, limits: &Limits) {
    let mut payload = Vec::with_capacity(6 * 6);
    let mut put = |id: u16, value: u32| {
        payload.extend_from_slice(&id.to_be_bytes());
        payload.extend_from_slice(&value.to_be_bytes());
    };
    put(HEADER_TABLE_SIZE, limits.table_bytes);
    put(MAX_CONCURRENT_STREAMS, limits.streams);
    put(INITIAL_WINDOW_SIZE, limits.stream_window);
    put(MAX_HEADER_LIST_SIZE, limits.list_bytes);
    put(ENABLE_CONNECT_PROTOCOL, 1);
    put(NO_RFC7540_PRIORITIES, 1);
    frame::push(out, kind::SETTINGS, 0, 0, &payload);
}
