//! What a connection brings for one watch, or list, whatever its protocol.

/// Of a refusal, what is kept of the body.
pub(crate) const WORDS_BYTES_MAX: usize = 16 * 1024;

/// What came for one watch.
#[derive(Debug)]
pub(crate) enum Brought<'a> {
    /// The head of its response, with status 200.
    Head {
        gzip: bool,
    },
    Data(&'a [u8]),
    /// Nothing more comes.
    End(End),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The body is complete.
    Whole,
    /// The server answered with another status than 200, and in these words.
    Refused(u16, String),
    /// The stream broke off, and why.
    Cut(String),
    /// What came is no stream of events.
    Broken(String),
}
