//! The order of keys: natural order, `a9` before `a10`, and letters after everything else.
//!
//! The order is go-yaml's, which is not transitive for every set of keys (numbers of twenty digits wrap there).
//! Therefore keys are sorted by merging: this ends, and does not panic, for any comparison.

use serde_json::Value;

type Member<'a> = (&'a String, &'a Value);

/// Sorts members by their keys; equal ones do not exist.
pub(super) fn sort(members: &mut Vec<Member<'_>>) {
    let mut width = 1;
    while width < members.len() {
        let mut merged = Vec::with_capacity(members.len());
        for pair in members.chunks(width * 2) {
            let (mut left, mut right) = pair.split_at(width.min(pair.len()));
            while let ([first, ..], [second, ..]) = (left, right) {
                if is_less(second.0, first.0) {
                    merged.push(*second);
                    right = &right[1..];
                } else {
                    merged.push(*first);
                    left = &left[1..];
                }
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        *members = merged;
        width *= 2;
    }
}

/// Whether `left` comes before `right`.
fn is_less(left: &str, right: &str) -> bool {
    let (mut lefts, mut rights) = (left.chars(), right.chars());
    // Whether the digits directly before the first difference are a number that is not 0.
    let mut inside_number = false;
    loop {
        let (left_rest, right_rest) = (lefts.as_str(), rights.as_str());
        let (a, b) = match (lefts.next(), rights.next()) {
            (Some(a), Some(b)) => (a, b),
            (None, Some(_)) => return true,
            (_, None) => return false,
        };
        if a == b {
            inside_number = a.is_ascii_digit() && (inside_number || a != '0');
            continue;
        }
        match (a.is_alphabetic(), b.is_alphabetic()) {
            (true, true) => return a < b,
            (false, true) => return true,
            (true, false) => return false,
            (false, false) => {}
        }
        let ahead = i64::from(inside_number && (a == '0' || b == '0'));
        let ((left_number, left_digits), (right_number, right_digits)) =
            (leading_number(left_rest, ahead), leading_number(right_rest, ahead));
        if left_number != right_number {
            return left_number < right_number;
        }
        return if left_digits == right_digits { a < b } else { left_digits < right_digits };
    }
}

/// The number at the start of a text, after the digits `ahead`, and its number of digits.
fn leading_number(text: &str, ahead: i64) -> (i64, usize) {
    let digits = text.bytes().take_while(u8::is_ascii_digit);
    let number = digits
        .clone()
        .fold(ahead, |number, digit| number.wrapping_mul(10).wrapping_add(i64::from(digit - b'0')));
    (number, digits.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(keys: &[&str]) -> Vec<String> {
        let owned: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        let mut members: Vec<Member<'_>> = owned.iter().map(|key| (key, &Value::Null)).collect();
        sort(&mut members);
        members.into_iter().map(|(key, _)| key.clone()).collect()
    }

    #[test]
    fn keys_stand_as_people_count() {
        let wanted = [
            "", ".", "0", "00", "1", "01", "2", "10", "A", "B", "a", "a-1", "a.b", "a1", "a01", "a2", "a2b0",
            "a9", "a10", "a100", "ab", "b", "f:a", "f:b", "kind", "é",
        ];
        for turn in 0..wanted.len() {
            let mut keys = wanted.to_vec();
            keys.rotate_left(turn);
            assert_eq!(sorted(&keys), wanted, "turned by {turn}");
            keys.reverse();
            assert_eq!(sorted(&keys), wanted, "reversed and turned by {turn}");
        }
    }

    #[test]
    fn no_keys_are_lost_whatever_they_are() {
        let keys: Vec<String> = (0_u64..500)
            .map(|n| format!("{}{}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15), "9".repeat((n % 40) as usize)))
            .collect();
        let borrowed: Vec<&str> = keys.iter().map(String::as_str).collect();
        let mut found = sorted(&borrowed);
        found.sort();
        let mut wanted = keys;
        wanted.sort();
        assert_eq!(found, wanted);
    }
}
