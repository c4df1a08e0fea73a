//! In which styles a text can be written in YAML, and what it would be read as without quotes.
//!
//! The rules are those of YAML 1.1 as in go-yaml v2: `yes`, `0777`, `1:20` and `2026-11-21` are not text there.

use serde_json::Number;

/// In which styles a text can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) plain_allowed: bool,
    pub(super) single_allowed: bool,
    pub(super) literal_allowed: bool,
}

impl Look {
    /// Examines a text.
    pub(super) fn at(text: &str) -> Self {
        let mut indicator = text.starts_with("---") || text.starts_with("...");
        let mut special = false;
        let mut broken = false;
        let (mut space_behind_break, mut break_behind_space) = (false, false);
        let mut before = None;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let white_follows = chars.peek().is_none_or(|next| is_blank(*next));
            indicator |= match (before, c) {
                (None, '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"') => true,
                (None, '%' | '@' | '`') => true,
                (None, '?' | '-') | (_, ':') => white_follows,
                (Some(before), '#') => is_blank(before) || is_break(before) || before == '\0',
                _ => false,
            };
            special |= !is_printable(c);
            broken |= is_break(c);
            space_behind_break |= c == ' ' && before.is_some_and(is_break);
            break_behind_space |= is_break(c) && before == Some(' ');
            before = Some(c);
        }
        let at_edge = |c: char| c == ' ' || is_break(c);
        let edged = text.starts_with(at_edge) || text.ends_with(at_edge);
        let spoiled = break_behind_space || special;
        Self {
            plain_allowed: !(indicator || broken || edged || spoiled),
            single_allowed: !(space_behind_break || spoiled),
            literal_allowed: !(text.ends_with(' ') || spoiled),
        }
    }
}

/// A space or a tab.
const fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

/// What ends a line in YAML 1.1.
pub(super) const fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// What needs no escape; characters above U+FFFF do.
pub(super) const fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
}

/// An escaped character between double quotes.
pub(super) fn escape(c: char) -> String {
    let short = match c {
        '\0' => '0',
        '\u{7}' => 'a',
        '\u{8}' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\u{b}' => 'v',
        '\u{c}' => 'f',
        '\r' => 'r',
        '\u{1b}' => 'e',
        '"' | '\\' => c,
        '\u{85}' => 'N',
        '\u{a0}' => '_',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        _ => {
            return match u32::from(c) {
                code @ 0..=0xff => format!("\\x{code:02X}"),
                code @ 0x100..=0xffff => format!("\\u{code:04X}"),
                code => format!("\\U{code:08X}"),
            };
        }
    };
    format!("\\{short}")
}

/// A number as Go's `strconv` writes it: integers unchanged, others in the shortest form that reads back the same.
pub(super) fn number(number: &Number) -> String {
    let Some(float) = number.as_f64().filter(|_| number.is_f64()) else { return number.to_string() };
    let shortest = format!("{float:e}");
    let Some((digits, Ok(exponent))) = shortest.split_once('e').map(|(d, e)| (d, e.parse::<i32>())) else {
        return shortest;
    };
    if (-4..6).contains(&exponent) {
        return format!("{float}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// Whether a text without quotes is read as that text.
pub(super) fn reads_as_text(text: &str) -> bool {
    let Some(first) = text.bytes().next() else { return false };
    match first {
        b'~' | b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' => !is_word(text),
        b'.' => !(is_word(text) || is_finite_float(text)),
        b'+' | b'-' | b'0'..=b'9' => {
            let bare = text.replace('_', "");
            !(is_word(text)
                || is_timestamp(text)
                || is_integer(&bare)
                || is_finite_float(&bare)
                || is_base_60(text))
        }
        // go-yaml writes this plain, and reads it as a merge when it is a key: it is quoted here.
        b'<' => text != "<<",
        _ => true,
    }
}

/// Booleans, nulls and the special floats.
fn is_word(text: &str) -> bool {
    const WORDS: [&str; 36] = [
        "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON", "n", "N", "no", "No", "NO",
        "false", "False", "FALSE", "off", "Off", "OFF", "~", "null", "Null", "NULL", ".nan", ".NaN", ".NAN",
        ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf",
    ];
    WORDS.contains(&text) || matches!(text, "-.Inf" | "-.INF")
}

/// `strconv.ParseInt(text, 0, 64)`, or `ParseUint`, or an integer that is larger still.
fn is_integer(text: &str) -> bool {
    let (signed, digits) = match text.strip_prefix(['+', '-']) {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    let valid = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    // Large integers with a sign are only floats, which these are in radix 10.
    valid && (!signed || u64::from_str_radix(digits, radix).is_ok_and(|size| i64::try_from(size).is_ok()))
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`, without overflow.
fn is_finite_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let shaped = digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|exponent| !exponent.is_empty() && digits(exponent));
    shaped && text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// `[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?`: what other readers of YAML 1.1 take as a number.
fn is_base_60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (parts, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let loose = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    let mut parts = parts.split(':');
    let first = parts.next().unwrap_or_default();
    let mut sixtieths = 0;
    for part in parts {
        sixtieths += 1;
        match part.as_bytes() {
            [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9'] => {}
            _ => return false,
        }
    }
    sixtieths > 0 && first.starts_with(|c: char| c.is_ascii_digit()) && loose(first) && loose(fraction)
}

/// `2026-11-21`, `2026-11-21T05:37:13Z`, `2026-11-21 5:37:13.5` and similar, if the time exists.
fn is_timestamp(text: &str) -> bool {
    let Some((date, time)) = date(text) else { return false };
    let rest = match time.as_bytes() {
        [] => return date,
        [b' ' | b'T' | b't', ..] => &time[1..],
        _ => return false,
    };
    // With a space there is no zone, otherwise there must be one.
    let zoned = !time.starts_with(' ');
    let clock = || {
        let (hour, rest) = short_number(rest)?;
        let (minute, rest) = short_number(rest.strip_prefix(':')?)?;
        let (second, rest) = short_number(rest.strip_prefix(':')?)?;
        Some((hour <= 23 && minute <= 59 && second <= 59, rest))
    };
    let Some((time, mut rest)) = clock() else { return false };
    if let Some(fraction) = rest.strip_prefix(['.', ','])
        && fraction.starts_with(|c: char| c.is_ascii_digit())
    {
        rest = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    date && time
        && match rest.as_bytes() {
            [] => !zoned,
            [b'Z'] => zoned,
            [b'+' | b'-', h1, h2, b':', m1, m2] if zoned => {
                let two = |tens: &u8, ones: &u8| match (tens, ones) {
                    (b'0'..=b'9', b'0'..=b'9') => Some((tens - b'0') * 10 + ones - b'0'),
                    _ => None,
                };
                two(h1, h2).is_some_and(|h| h <= 24) && two(m1, m2).is_some_and(|m| m <= 60)
            }
            _ => false,
        }
}

/// Whether the day exists, and the text after it; `None`: it is not a date.
fn date(text: &str) -> Option<(bool, &str)> {
    let year = text.get(..4).filter(|year| year.bytes().all(|b| b.is_ascii_digit()))?;
    let (month, rest) = short_number(text.get(4..)?.strip_prefix('-')?)?;
    let (day, rest) = short_number(rest.strip_prefix('-')?)?;
    let year: u32 = year.parse().ok()?;
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    Some(((1..=days).contains(&day), rest))
}

/// A number of one or two digits, and the text after it.
fn short_number(text: &str) -> Option<(u8, &str)> {
    let digits = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    Some((text.get(..digits)?.parse().ok()?, &text[digits..]))
}
