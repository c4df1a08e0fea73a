//! Which content codings a client accepts.

/// Entries of an `Accept-Encoding` that are read; of more entries the first ones count.
const ENTRIES_MAX: usize = 32;

/// Whether an `Accept-Encoding` (all of its headers, joined with commas) asks for gzip (RFC 9110, section 12.5.3).
///
/// `gzip` and `x-gzip` are one coding (section 8.4.1.3); an entry with its name wins over `*`. An invalid weight counts
/// as 0: every client can read plain bytes.
pub(super) fn takes_gzip(accept_encoding: &str) -> bool {
    let (mut named, mut any) = (None, None);
    for entry in accept_encoding.split(',').take(ENTRIES_MAX) {
        let (coding, params) = entry.split_once(';').unwrap_or((entry, ""));
        let coding = coding.trim();
        let slot = if coding.eq_ignore_ascii_case("gzip") || coding.eq_ignore_ascii_case("x-gzip") {
            &mut named
        } else if coding == "*" {
            &mut any
        } else {
            continue;
        };
        // If it is named twice, one positive weight is enough.
        *slot = Some(slot.unwrap_or(false) | is_wanted(params));
    }
    named.or(any).unwrap_or(false)
}

/// Whether the weight among `params` is above 0 (RFC 9110, section 12.4.2); no weight is 1.
fn is_wanted(params: &str) -> bool {
    let params = params.trim();
    if params.is_empty() {
        return true;
    }
    let Some(weight) = params.strip_prefix(['q', 'Q']).map(str::trim_start).and_then(|p| p.strip_prefix('='))
    else {
        return false;
    };
    let weight = weight.trim();
    let (whole, fraction) = weight.split_once('.').unwrap_or((weight, ""));
    let digits = fraction.bytes().all(|b| b.is_ascii_digit()) && fraction.len() <= 3;
    match whole {
        "0" => digits && fraction.bytes().any(|b| b != b'0'),
        "1" => digits && fraction.bytes().all(|b| b == b'0'),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_asks_for_gzip() {
        for text in [
            "gzip",
            "GZIP",
            "x-gzip",
            "deflate, gzip",
            "gzip, deflate, br, zstd",
            "gzip;q=1",
            "gzip;q=1.000",
            "gzip ; q=0.001",
            "gzip;Q=0.5, *;q=0",
            "identity;q=0.1, gzip;q=0.05",
            "*",
            "*;q=0.3",
            "identity, *;q=1.0",
            "gzip;q=0, x-gzip",
        ] {
            assert!(takes_gzip(text), "{text}");
        }
    }

    #[test]
    fn what_does_not() {
        for text in [
            "",
            " ",
            ",",
            "identity",
            "deflate, br",
            "gzip;q=0",
            "gzip;q=0.000",
            "gzip;q=0, *",
            "*;q=0",
            "gzipped",
            "gzip deflate",
            "gzip;q=",
            "gzip;q=2",
            "gzip;q=1.001",
            "gzip;q=0.1234",
            "gzip;q=-1",
            "gzip;q=.5",
            "gzip;level=9",
            "\"gzip\"",
        ] {
            assert!(!takes_gzip(text), "{text}");
        }
        let late = format!("{}gzip", "br,".repeat(ENTRIES_MAX));
        assert!(!takes_gzip(&late), "only so many entries are read");
    }
}
