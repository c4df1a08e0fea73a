//! Why bytes are not a request head that is served.

use std::fmt;

use crate::http::status::Status;

/// The first error in a request head. All of them are the client's (or a proxy's) fault.
///
/// Each ends the connection: see `status_code` for the response that is sent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeadError {
    /// The request line is longer than [`REQUEST_LINE_BYTES_MAX`](super::REQUEST_LINE_BYTES_MAX): 414.
    RequestLineTooLong,
    /// A header line is longer than [`HEADER_LINE_BYTES_MAX`](super::HEADER_LINE_BYTES_MAX): 431.
    HeaderTooLong,
    /// The headers are longer than [`HEADERS_BYTES_MAX`](super::HEADERS_BYTES_MAX): 431.
    HeadersTooLong,
    /// More than [`HEADERS_MAX`](super::HEADERS_MAX) headers: 431.
    TooManyHeaders,
    /// LF without CR before it (RFC 9112, section 2.2).
    BareLineFeed,
    /// CR without LF after it (RFC 9112, section 2.2).
    BareCarriageReturn,
    /// NUL or another control character (RFC 9110, section 5.5).
    ControlByte,
    /// Not `METHOD SP target SP version` (RFC 9112, section 3).
    RequestLine,
    /// The preface of HTTP/2 (RFC 9113, section 3.4).
    Http2Preface,
    /// A version other than HTTP/1.0 and HTTP/1.1: 505.
    Version,
    /// A continued header line (RFC 9112, section 5.2).
    Folded,
    /// A header line without a token directly before its colon (RFC 9112, section 5.1).
    HeaderName,
    /// A target that is neither a path nor an http URI (RFC 9112, section 3.2).
    Target,
    /// CONNECT, or `OPTIONS *`: 405.
    NotServed,
    /// `%` without two hex digits in the path.
    PathEscape,
    /// The path decodes to something other than UTF-8.
    PathUtf8,
    /// The path decodes to a control character.
    PathControl,
    /// A segment `.` or `..`, encoded or not.
    DotSegment,
    /// `%2F` in a segment.
    EncodedSlash,
    /// `%` without two hex digits in the query.
    QueryEscape,
    /// The query decodes to something other than UTF-8.
    QueryUtf8,
    /// The query decodes to a control character.
    QueryControl,
    /// HTTP/1.1 without `Host` (RFC 9112, section 3.2).
    HostMissing,
    /// A host with userinfo, or with characters that are not allowed in hosts.
    Host,
    /// A header that must not be repeated is sent twice.
    Repeated,
    /// A header value that must be text is not.
    Value,
    /// `Content-Length` is not one decimal number below 2^64 (RFC 9112, section 6.3).
    ContentLength,
    /// `Transfer-Encoding` ends in something other than `chunked`, or repeats it (RFC 9112, section 6.1).
    TransferEncoding,
    /// A transfer coding that is not implemented: 501.
    TransferCoding,
    /// Both `Content-Length` and `Transfer-Encoding` (RFC 9112, section 6.3).
    LengthAndEncoding,
    /// `Transfer-Encoding` in an HTTP/1.0 request (RFC 9112, section 6.1).
    EncodingInHttp10,
    /// `Expect` with something other than `100-continue`: 417 (RFC 9110, section 10.1.1).
    Expectation,
}

impl HeadError {
    /// The status code of the response.
    #[must_use]
    pub const fn status_code(self) -> u16 {
        match self {
            Self::RequestLineTooLong => 414,
            Self::HeaderTooLong | Self::HeadersTooLong | Self::TooManyHeaders => 431,
            Self::Version => 505,
            Self::NotServed => 405,
            Self::TransferCoding => 501,
            Self::Expectation => 417,
            Self::BareLineFeed
            | Self::BareCarriageReturn
            | Self::ControlByte
            | Self::RequestLine
            | Self::Http2Preface
            | Self::Folded
            | Self::HeaderName
            | Self::Target
            | Self::PathEscape
            | Self::PathUtf8
            | Self::PathControl
            | Self::DotSegment
            | Self::EncodedSlash
            | Self::QueryEscape
            | Self::QueryUtf8
            | Self::QueryControl
            | Self::HostMissing
            | Self::Host
            | Self::Repeated
            | Self::Value
            | Self::ContentLength
            | Self::TransferEncoding
            | Self::LengthAndEncoding
            | Self::EncodingInHttp10 => 400,
        }
    }

    /// The body of the response.
    #[must_use]
    pub fn status(self) -> Status {
        match self.status_code() {
            400 => Status::bad_request(self.to_string()),
            405 => Status::method_not_allowed(),
            code => Status::other(code, self.to_string()),
        }
    }

    /// The error and the remedy.
    const fn message(self) -> &'static str {
        match self {
            Self::RequestLineTooLong => "the request line is longer than 8 KiB: shorten the URL",
            Self::HeaderTooLong => "a header line is longer than 8 KiB: shorten it",
            Self::HeadersTooLong => "the headers are longer than 32 KiB together: send fewer",
            Self::TooManyHeaders => "more than 100 headers: send fewer",
            Self::BareLineFeed => "a line of the head ends in LF: end lines in CR LF",
            Self::BareCarriageReturn => "a CR in the head is not followed by LF: end lines in CR LF",
            Self::ControlByte => {
                "a control character in the head: send plain HTTP/1.1 (TLS is not spoken on this port)"
            }
            Self::RequestLine => "the request line is not METHOD SP target SP HTTP/1.1",
            Self::Http2Preface => {
                "this is not the whole preface of HTTP/2, or not the first of its connection: send all of it first"
            }
            Self::Version => "only HTTP/1.1 and HTTP/1.0 are spoken",
            Self::Folded => "a header is continued on the next line: send it on one line",
            Self::HeaderName => "a header line does not begin with a name and a colon",
            Self::Target => "the request target is neither a path nor an http URI",
            Self::NotServed => "CONNECT and OPTIONS * are not served",
            Self::PathEscape => {
                "a % in the path is not followed by two hex digits: send %25 for a percent sign"
            }
            Self::PathUtf8 => "the path does not decode to UTF-8",
            Self::PathControl => "the path decodes to a control character",
            Self::DotSegment => "the path has a segment . or ..: send the path that is meant",
            Self::EncodedSlash => "the path has an encoded slash: no name has one",
            Self::QueryEscape => {
                "a % in the query is not followed by two hex digits: send %25 for a percent sign"
            }
            Self::QueryUtf8 => "the query does not decode to UTF-8",
            Self::QueryControl => "the query decodes to a control character",
            Self::HostMissing => "no Host header: HTTP/1.1 requires one",
            Self::Host => "the host is not a name or address with an optional port",
            Self::Repeated => "a header that may be sent once is sent twice",
            Self::Value => "a header value is not printable ASCII",
            Self::ContentLength => "Content-Length is not one decimal number",
            Self::TransferEncoding => "Transfer-Encoding must be chunked, once",
            Self::TransferCoding => "the only transfer coding that is implemented is chunked",
            Self::LengthAndEncoding => "both Content-Length and Transfer-Encoding: send one of them",
            Self::EncodingInHttp10 => "HTTP/1.0 has no Transfer-Encoding: send Content-Length",
            Self::Expectation => "the only expectation that is met is 100-continue",
        }
    }
}

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for HeadError {}
