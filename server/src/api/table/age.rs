//! Ages as kubectl shows them.

/// The cell when there is no time.
pub(super) const UNKNOWN: &str = "<unknown>";

/// A duration in the one or two largest units, as `k8s.io/apimachinery/pkg/util/duration.HumanDuration` rounds.
pub(super) fn human(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    // A clock that is one second off is not reported as "invalid".
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    let seconds = seconds.max(0);
    let two = |large: i64, large_unit: char, small: i64, small_unit: char| {
        if small == 0 {
            format!("{large}{large_unit}")
        } else {
            format!("{large}{large_unit}{small}{small_unit}")
        }
    };
    if seconds < 2 * MINUTE {
        format!("{seconds}s")
    } else if seconds < 10 * MINUTE {
        two(seconds / MINUTE, 'm', seconds % MINUTE, 's')
    } else if seconds < 3 * HOUR {
        format!("{}m", seconds / MINUTE)
    } else if seconds < 8 * HOUR {
        two(seconds / HOUR, 'h', seconds / MINUTE % 60, 'm')
    } else if seconds < 2 * DAY {
        format!("{}h", seconds / HOUR)
    } else if seconds < 8 * DAY {
        two(seconds / DAY, 'd', seconds / HOUR % 24, 'h')
    } else if seconds < 2 * YEAR {
        format!("{}d", seconds / DAY)
    } else if seconds < 8 * YEAR {
        two(seconds / YEAR, 'y', seconds / DAY % 365, 'd')
    } else {
        format!("{}y", seconds / YEAR)
    }
}

/// Unix seconds of an RFC 3339 time; `None` if it is invalid.
pub(super) fn parse(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_second)
}

/// Unix seconds of Go's zero time, which stands for no time: the beginning of the year 1.
const ZERO: i64 = -62_135_596_800;

/// How long ago `text` was.
pub(super) fn since(text: &str, now: i64) -> String {
    let then = parse(text).filter(|then| *then != ZERO);
    then.map_or_else(|| UNKNOWN.to_owned(), |then| human(now.saturating_sub(then)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_kubectl() {
        const D: i64 = 86_400;
        let cases = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (9 * 60 + 59, "9m59s"),
            (10 * 60, "10m"),
            (3 * 3600 - 1, "179m"),
            (3 * 3600, "3h"),
            (7 * 3600 + 59 * 60, "7h59m"),
            (8 * 3600, "8h"),
            (2 * D - 1, "47h"),
            (2 * D, "2d"),
            (7 * D + 23 * 3600, "7d23h"),
            (8 * D, "8d"),
            (2 * 365 * D - 1, "729d"),
            (2 * 365 * D, "2y"),
            (2 * 365 * D + D, "2y1d"),
            (8 * 365 * D, "8y"),
            (i64::MAX, "292471208677y"),
        ];
        for (seconds, text) in cases {
            assert_eq!(human(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn ages_come_from_rfc_3339() {
        assert_eq!(parse("1970-01-01T00:01:00Z"), Some(60));
        assert_eq!(parse("1970-01-01T00:01:00.500000Z"), Some(60));
        assert_eq!(since("2026-11-21T05:37:13Z", parse("2026-11-21T05:38:13Z").expect("a time")), "60s");
        for bad in ["", "yesterday", "2026-13-01T00:00:00Z", "0001-01-01T00:00:00Z"] {
            assert_eq!(since(bad, 0), UNKNOWN, "{bad}");
        }
    }
}
