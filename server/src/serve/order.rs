//! The order of the items of a merged list.
//!
//! Owns one rule, for strategic merge patches and server-side apply alike: items that the client names are in the client's
//! order, the others in the order of the old list, and both are interleaved as they were before. It never reads an item: an
//! item is its key, as text.

use std::collections::HashMap;

/// Orders `items` (key, item): first by `named`, then by `before`. Keys that are in none of them go to the end.
///
/// Of the two items that could be next, the unnamed one is first if it was before the named one.
pub(super) fn interleave<T>(items: Vec<(String, T)>, named: &[String], before: &[String]) -> Vec<T> {
    let places = |keys: &[String]| {
        let mut places: HashMap<String, usize> = HashMap::with_capacity(keys.len());
        for (place, key) in keys.iter().enumerate() {
            places.entry(key.clone()).or_insert(place);
        }
        places
    };
    let (named, before) = (places(named), places(before));
    let (mut ours, mut others): (Vec<_>, Vec<_>) =
        items.into_iter().partition(|(key, _)| named.contains_key(key));
    // Stable: items of one key keep their order.
    ours.sort_by_key(|(key, _)| named.get(key).copied());
    others.sort_by_key(|(key, _)| before.get(key).copied().unwrap_or(usize::MAX));
    let mut ordered = Vec::with_capacity(ours.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (key, item) in ours {
        if let Some(place) = before.get(&key) {
            while let Some((_, other)) =
                others.next_if(|(other, _)| before.get(other).is_some_and(|at| at < place))
            {
                ordered.push(other);
            }
        }
        ordered.push(item);
    }
    ordered.extend(others.map(|(_, item)| item));
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_first_then_as_it_was() {
        for (items, named, before, expected) in [
            ("abc", "", "abc", "abc"),
            ("abc", "cba", "abc", "cba"),
            ("abcd", "ca", "abcd", "bcad"),
            ("abx", "x", "ab", "xab"),
            ("abx", "ax", "ab", "axb"),
            ("abx", "bx", "ab", "abx"),
            ("xyab", "yx", "ab", "yxab"),
            ("", "ab", "ab", ""),
        ] {
            let keys = |text: &str| text.chars().map(String::from).collect::<Vec<_>>();
            let items = keys(items).into_iter().map(|key| (key.clone(), key)).collect();
            let ordered = interleave(items, &keys(named), &keys(before));
            assert_eq!(ordered.concat(), expected, "{named} {before}");
        }
    }
}
