//! What a server and its upstream have in common: the etcd, and the options of both.

use crate::etcd::Release;

/// The etcd of both servers.
pub(crate) const RELEASE: Release = Release::V3_5;

/// Options of the front that say what is served, or how it is stored: the upstream gets them, too.
const SHARED: [&str; 5] =
    ["--resource", "--storage-media-type", "--kubernetes-version", "--event-ttl", "--ring-events"];

/// Those of the options that both servers have.
pub(crate) fn shared<'o>(options: &[&'o str]) -> Vec<&'o str> {
    let mut found = Vec::new();
    let mut words = options.iter().copied();
    while let Some(word) = words.next() {
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        // Each option of the server has a value.
        let more = if value.is_none() { words.next() } else { None };
        if SHARED.contains(&name) {
            found.push(word);
            found.extend(more);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::shared;

    #[test]
    fn what_both_servers_are_told() {
        let options =
            ["--shards", "2", "--resource", "a", "--ring-events=1024", "--bookmark-interval", "--resource"];
        assert_eq!(shared(&options), ["--resource", "a", "--ring-events=1024"]);
    }
}
