//! The Huffman code of RFC 7541, section 5.2 and appendix B.
//!
//! The code is canonical: among codes of one length, and from one length to the next, codes count upwards in the order
//! of their symbols. Thus the lengths of appendix B are the whole table, and everything else is computed from them when
//! this is compiled.

use super::Fault;

/// The symbol that ends every string and is never sent.
const EOS: usize = 256;
const SHORTEST_BITS: usize = 5;
const LONGEST_BITS: usize = 30;
/// Codes of at most as many bits are found in one step: all of the characters that headers usually have.
const SHORT_BITS: usize = 8;

/// The length of each symbol's code in bits (appendix B).
const LENGTHS: [u8; EOS + 1] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, //
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, //
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, //
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, //
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, //
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, //
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, //
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, //
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, //
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, //
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, //
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, //
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, //
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, //
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, //
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, //
    30,
];

/// The codes of one length, as they begin a window of 32 bits.
#[derive(Clone, Copy, Debug)]
struct Codes {
    /// The window of the first code, followed by zeros.
    first: u32,
    /// The window of the last code, followed by ones. No code of this length or a shorter one is above it.
    last: u32,
    /// Where the first code's symbol is in [`Code::symbols`].
    at: usize,
}

#[derive(Debug)]
struct Code {
    /// By the first [`SHORT_BITS`] of a window: a symbol and the bits of its code; 0 bits: the code is longer.
    short: [(u8, u8); 1 << SHORT_BITS],
    /// By the bits of a code.
    codes: [Codes; LONGEST_BITS + 1],
    /// The symbols in the order of their codes. EOS is the last one and is not here.
    symbols: [u8; EOS],
}

static CODE: Code = Code::new();

impl Code {
    #[expect(clippy::cast_possible_truncation, reason = "symbols but EOS and lengths are below 256")]
    const fn new() -> Self {
        let mut code = Self {
            short: [(0, 0); 1 << SHORT_BITS],
            codes: [Codes { first: 0, last: 0, at: 0 }; LONGEST_BITS + 1],
            symbols: [0; EOS],
        };
        let (mut bits, mut next, mut at) = (SHORTEST_BITS, 0_u64, 0);
        while bits <= LONGEST_BITS {
            let unused = 32 - bits;
            let (first, first_at) = (next, at);
            let mut symbol = 0;
            while symbol <= EOS {
                if LENGTHS[symbol] as usize == bits {
                    if symbol < EOS {
                        code.symbols[at] = symbol as u8;
                    }
                    if bits <= SHORT_BITS {
                        let mut window = next >> (32 - SHORT_BITS);
                        while window < (next + (1 << unused)) >> (32 - SHORT_BITS) {
                            code.short[window as usize] = (symbol as u8, bits as u8);
                            window += 1;
                        }
                    }
                    at += 1;
                    next += 1 << unused;
                }
                symbol += 1;
            }
            // Without a code of this length `last` is below `first`, and is the last of the shorter codes.
            code.codes[bits] =
                Codes { first: first as u32, last: next.saturating_sub(1) as u32, at: first_at };
            bits += 1;
        }
        assert!(next == 1 << 32 && at == EOS + 1, "the code is complete");
        code
    }

    /// The symbol with which a window begins, none for EOS, and the bits of its code.
    fn symbol(&self, window: u32) -> (Option<u8>, usize) {
        let (symbol, bits) = self.short[(window >> (32 - SHORT_BITS)) as usize];
        if bits > 0 {
            return (Some(symbol), usize::from(bits));
        }
        let mut bits = SHORT_BITS + 1;
        while bits < LONGEST_BITS && window > self.codes[bits].last {
            bits += 1;
        }
        let Codes { first, at, .. } = self.codes[bits];
        let nth = (window - first) >> (32 - bits);
        (self.symbols.get(at + nth as usize).copied(), bits)
    }
}

/// Appends what `coded` stands for: at most 8/5 of its bytes.
///
/// # Errors
/// The string contains EOS, or it does not end as section 5.2 requires. What was appended is then of no use.
pub(super) fn decode(mut coded: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    out.reserve(coded.len() / SHORTEST_BITS * 8 + 8);
    // The first `held` bits are those that come next; the others are zeros.
    let (mut window, mut held) = (0_u64, 0_usize);
    loop {
        if held < 32 {
            if let Some((four, rest)) = coded.split_first_chunk() {
                window |= u64::from(u32::from_be_bytes(*four)) << (32 - held);
                held += 32;
                coded = rest;
            } else {
                for byte in std::mem::take(&mut coded) {
                    window |= u64::from(*byte) << (56 - held);
                    held += 8;
                }
            }
        }
        // Ones after the end: what is left is then padding, or begins a code that is longer than it.
        let [a, b, c, d, ..] = (window | u64::MAX >> held).to_be_bytes();
        let next = u32::from_be_bytes([a, b, c, d]);
        let (symbol, bits) = CODE.symbol(next);
        if bits > held {
            return match (held, next) {
                (0..8, u32::MAX) => Ok(()),
                (_, u32::MAX) => Err(Fault::PaddingTooLong),
                _ => Err(Fault::PaddingNotOnes),
            };
        }
        out.push(symbol.ok_or(Fault::EndInString)?);
        window <<= bits;
        held -= bits;
    }
}

/// Appends the code of `text`.
#[cfg(test)]
pub(super) fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut window, mut held) = (0_u64, 0_usize);
    for byte in text {
        let bits = usize::from(LENGTHS[usize::from(*byte)]);
        let Codes { first, at, .. } = CODE.codes[bits];
        let nth = CODE.symbols[at..].iter().position(|symbol| symbol == byte).expect("a symbol has a code");
        window |= (u64::from(first >> (32 - bits)) + nth as u64) << (64 - held - bits);
        held += bits;
        while held >= 8 {
            out.push(window.to_be_bytes()[0]);
            window <<= 8;
            held -= 8;
        }
    }
    if held > 0 {
        out.push((window | u64::MAX >> held).to_be_bytes()[0]);
    }
}

/// The bytes of the code of `text`.
#[cfg(test)]
pub(super) fn encoded_len(text: &[u8]) -> usize {
    text.iter().map(|byte| usize::from(LENGTHS[usize::from(*byte)])).sum::<usize>().div_ceil(8)
}
