//! Quantities as Kubernetes stores them (`k8s.io/apimachinery/pkg/api/resource`).

/// The suffixes of powers of 1000 from 10^-9 on.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// Those of powers of 1024.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// The smallest power of ten that is kept.
const LEAST: i32 = -9;

/// How a quantity is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Decimal,
    Binary,
    Exponent,
}

/// The text that is stored of a quantity; `None`: it is none. A whole number whose suffix cannot be a larger one is kept as it
/// is; so is one with too many digits to compute with.
pub(in crate::api) fn canonical(text: &str) -> Option<String> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = unsigned.len() - unsigned.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (whole, rest) = unsigned.split_at(digits);
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => {
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            rest.split_at(digits)
        }
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let (format, power) = suffix_of(suffix)?;
    let Some(value) = Value::new(text.starts_with('-'), whole, fraction, format, power) else {
        return Some(text.to_owned());
    };
    let made = value.text(format);
    // A suffix of the same power as before: what was written is kept, with its sign and its spelling.
    let kept = fraction.is_empty() && {
        let bare = format!("{}{whole}{suffix}", if text.starts_with('-') { "-" } else { "" });
        bare.eq_ignore_ascii_case(&made) && (format == Format::Exponent || bare == made)
    };
    Some(if kept { text.to_owned() } else { made })
}

/// The format of a suffix, and its power of ten or of two.
fn suffix_of(suffix: &str) -> Option<(Format, i32)> {
    if let Some(at) = DECIMAL.iter().position(|known| *known == suffix) {
        return Some((Format::Decimal, i32::try_from(at).ok()? * 3 + LEAST));
    }
    if let Some(at) = BINARY.iter().position(|known| *known == suffix) {
        return Some((Format::Binary, i32::try_from(at).ok()? * 10));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    let power: i32 = exponent.parse().ok()?;
    (power.abs() <= 60).then_some((Format::Exponent, power))
}

/// A number times a power of ten.
#[derive(Clone, Copy, Debug)]
struct Value {
    mantissa: i128,
    power: i32,
}

impl Value {
    /// `None`: it has too many digits.
    fn new(negative: bool, whole: &str, fraction: &str, format: Format, power: i32) -> Option<Self> {
        let fraction = fraction.trim_end_matches('0');
        let mut mantissa: i128 = format!("0{whole}{fraction}").parse().ok()?;
        let mut scale = -i32::try_from(fraction.len()).ok()?;
        match format {
            Format::Binary => mantissa = mantissa.checked_mul(1_i128.checked_shl(power.unsigned_abs())?)?,
            Format::Decimal | Format::Exponent => scale += power,
        }
        while scale < LEAST {
            // What is smaller is rounded away from zero.
            let up = i128::from(mantissa % 10 != 0);
            mantissa = mantissa / 10 + up;
            scale += 1;
        }
        Some(Self { mantissa: if negative { -mantissa } else { mantissa }, power: scale })
    }

    fn text(self, format: Format) -> String {
        if self.mantissa == 0 {
            return "0".to_owned();
        }
        let whole = (self.power >= 0)
            .then(|| 10_i128.checked_pow(self.power.unsigned_abs())?.checked_mul(self.mantissa))
            .flatten()
            .or_else(|| {
                let part = 10_i128.checked_pow(self.power.unsigned_abs())?;
                (self.power < 0 && self.mantissa % part == 0).then(|| self.mantissa / part)
            });
        if let (Format::Binary, Some(mut whole)) = (format, whole)
            && whole.abs() >= 1024
        {
            let mut at = 0;
            while whole % 1024 == 0 && at + 1 < BINARY.len() {
                whole /= 1024;
                at += 1;
            }
            return format!("{whole}{}", BINARY[at]);
        }
        let Self { mut mantissa, mut power } = self;
        while mantissa % 10 == 0 {
            mantissa /= 10;
            power += 1;
        }
        let highest = if format == Format::Exponent { i32::MAX } else { 18 };
        while power.rem_euclid(3) != 0 || power > highest {
            let Some(more) = mantissa.checked_mul(10) else { break };
            mantissa = more;
            power -= 1;
        }
        if format == Format::Exponent {
            return if power == 0 { mantissa.to_string() } else { format!("{mantissa}e{power}") };
        }
        let at = usize::try_from((power - LEAST) / 3).unwrap_or_default();
        format!("{mantissa}{}", DECIMAL.get(at).copied().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::canonical;

    /// Recorded: what a kube-apiserver accepted, and what it stored.
    #[test]
    fn quantities_are_stored_as_recorded() {
        for kept in [
            "1Ki",
            "1000Ki",
            "1024",
            "128974848",
            "129e6",
            "1e3",
            "1E3",
            "1e-3",
            "12E",
            "100m",
            "1500m",
            "1500u",
            "1025Mi",
            "+5",
            "5.",
            "0",
            "-3Gi",
        ] {
            assert_eq!(canonical(kept).as_deref(), Some(kept));
        }
        for (given, stored) in [
            ("1.0", "1"),
            ("0.0", "0"),
            ("0Gi", "0"),
            ("0.1", "100m"),
            (".5", "500m"),
            ("1.5", "1500m"),
            ("1000m", "1"),
            ("1000k", "1M"),
            ("1024Ki", "1Mi"),
            ("0.5Ki", "512"),
            ("1.5Gi", "1536Mi"),
            ("1.1Gi", "1181116006400m"),
            ("1.5k", "1500"),
            ("1.0e2", "100"),
            ("100.5", "100500m"),
            ("0.0001", "100u"),
            ("0.1n", "1n"),
            ("9223372036854775808", "9223372036854775808"),
            ("1234567890123456789012", "1234567890123456789012"),
        ] {
            assert_eq!(canonical(given).as_deref(), Some(stored), "{given}");
        }
        for none in ["", "1kk", "1 Gi", "1gi", ".", "+", "e3", "1e", "1ki"] {
            assert_eq!(canonical(none), None, "{none}");
        }
    }
}
