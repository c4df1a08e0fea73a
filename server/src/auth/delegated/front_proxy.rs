//! The user that a front proxy names in headers.
//!
//! Whether the connection is a front proxy's is decided elsewhere: from any other client these headers are nothing.

use super::cluster::Proxy;
use super::headers::extra_of;
use crate::http::request::IdentityHeaders;
use crate::identity::Identity;

/// The user in the headers; `None`: they name none.
pub(crate) fn identity(proxy: &Proxy, headers: &IdentityHeaders) -> Option<Identity> {
    let first = |names: &[String]| {
        names.iter().find_map(|name| headers.all(name).find(|value| !value.is_empty())).map(str::to_owned)
    };
    let name = first(&proxy.users)?;
    let groups = proxy.groups.iter().flat_map(|name| headers.all(name)).filter(|group| !group.is_empty());
    let groups = groups.map(str::to_owned).collect();
    let extra = extra_of(proxy.extra_prefixes.iter().flat_map(|prefix| headers.beginning(prefix)));
    Some(Identity::reported(name, first(&proxy.uids).unwrap_or_default(), groups, extra, None))
}

#[cfg(test)]
mod tests {
    use super::super::cluster::tests::cluster;
    use super::super::headers::tests::headers;
    use super::*;

    fn read(lines: &[(&str, &str)]) -> Option<Identity> {
        identity(&cluster().proxy, &headers(lines))
    }

    #[test]
    fn what_was_recorded_is_read() {
        let who = read(&[
            ("X-Remote-User", "jane"),
            ("X-Remote-Group", "dev"),
            ("X-Remote-Group", "ops"),
            ("X-Remote-Extra-Scopes", "a"),
            ("X-Remote-Extra-Scopes", "b"),
            ("X-Remote-Extra-Example.com%2Fa", "1"),
            ("X-Remote-Uid", "u7"),
        ]);
        let who = who.expect("jane");
        assert_eq!((who.name.as_str(), who.uid.as_str()), ("jane", "u7"));
        assert_eq!(who.groups, ["dev", "ops", "system:authenticated"]);
        let extra = |key: &str, values: &[&str]| {
            (key.to_owned(), values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(who.extra, [extra("example.com/a", &["1"]), extra("scopes", &["a", "b"])]);
    }

    #[test]
    fn without_a_user_there_is_none() {
        assert_eq!(read(&[("X-Remote-Group", "system:masters")]), None);
        assert_eq!(read(&[("X-Remote-User", "")]), None);
        assert_eq!(read(&[("X-Remote-User-", "jane"), ("X-Remote-Users", "jane")]), None);
    }

    #[test]
    fn whom_the_api_server_calls_anonymous_is_not_authenticated() {
        let lines = [("X-Remote-User", "system:anonymous"), ("X-Remote-Group", "system:unauthenticated")];
        assert_eq!(read(&lines).expect("a user").groups, ["system:unauthenticated"]);
    }
}
