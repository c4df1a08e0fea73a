//! What the cluster says about authentication: ConfigMap `kube-system/extension-apiserver-authentication`.
//!
//! Owns the reading of its content (recording 34). Who asks for it, and when, is decided elsewhere.

use serde::Deserialize;
use serde_json::Value;

use super::review_error::ReviewError;
use crate::http::request::Method;
use crate::upstream::{Question, UpstreamReply};

const PATH: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";

/// The content of the ConfigMap. Empty: it was not read yet, and no certificate of the cluster counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// PEM: the authorities of clients; "": none.
    pub client_ca: String,
    /// What counts as a front proxy.
    pub proxy: Proxy,
}

/// What counts as a front proxy, and in which headers it names users. All names are in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxy {
    /// PEM: the authorities of front proxies; "": there are none.
    pub ca: String,
    /// Common names that a front proxy's certificate may have; empty: any.
    pub allowed: Vec<String>,
    pub(super) users: Vec<String>,
    pub(super) uids: Vec<String>,
    pub(super) groups: Vec<String>,
    pub(super) extra_prefixes: Vec<String>,
}

impl Proxy {
    /// Whether a certificate of this common name may speak for users.
    #[must_use]
    pub fn allows(&self, name: &str) -> bool {
        !self.ca.is_empty() && (self.allowed.is_empty() || self.allowed.iter().any(|one| one == name))
    }
}

#[derive(Deserialize)]
struct Reply {
    kind: String,
    data: std::collections::BTreeMap<String, String>,
}

/// The question for it.
pub(super) fn question() -> Question {
    Question { method: Method::Get, path: PATH.to_owned(), body: bytes::Bytes::new() }
}

/// The content in a reply.
///
/// # Errors
/// It is not the ConfigMap, or a part of it cannot be read: nothing of it counts.
pub(super) fn read(reply: &UpstreamReply) -> Result<Cluster, ReviewError> {
    const WHAT: &str = "GET of the ConfigMap extension-apiserver-authentication";
    if reply.code == 403 {
        let mend = "bind its account to the Role extension-apiserver-authentication-reader in kube-system";
        return Err(ReviewError::garbage(WHAT, &format_args!("the server may not read it; {mend}")));
    }
    if reply.code != 200 {
        return Err(ReviewError::of_reply(WHAT, reply));
    }
    let Reply { kind, data } =
        serde_json::from_slice(&reply.body).map_err(|error| ReviewError::garbage(WHAT, &error))?;
    if kind != "ConfigMap" {
        return Err(ReviewError::garbage(WHAT, &"its kind is another one"));
    }
    let text = |key: &str| data.get(key).cloned().unwrap_or_default();
    // A list that cannot be read must not become an empty one: an empty list of names allows any.
    let list = |key: &str| match data.get(key).map(|text| serde_json::from_str::<Value>(text)) {
        None | Some(Ok(Value::Null)) => Ok(Vec::new()),
        Some(Ok(Value::Array(items))) => items
            .into_iter()
            .map(|item| item.as_str().map(str::to_owned))
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| ReviewError::garbage(WHAT, &format_args!("{key} is no list of text"))),
        Some(_) => Err(ReviewError::garbage(WHAT, &format_args!("{key} is no JSON list"))),
    };
    let names =
        |key: &str| list(key).map(|names| names.iter().map(|name| name.to_ascii_lowercase()).collect());
    let proxy = Proxy {
        ca: text("requestheader-client-ca-file"),
        allowed: list("requestheader-allowed-names")?,
        users: names("requestheader-username-headers")?,
        uids: names("requestheader-uid-headers")?,
        groups: names("requestheader-group-headers")?,
        extra_prefixes: names("requestheader-extra-headers-prefix")?,
    };
    Ok(Cluster { client_ca: text("client-ca-file"), proxy })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn reply(code: u16, body: &Value) -> UpstreamReply {
        UpstreamReply { code, body: body.to_string().into() }
    }

    /// As recorded, with short texts in place of certificates.
    fn recorded() -> Value {
        serde_json::json!({"kind": "ConfigMap", "apiVersion": "v1",
            "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
            "data": {
                "client-ca-file": "CLIENTS",
                "requestheader-allowed-names": "[\"front-proxy-client\"]",
                "requestheader-client-ca-file": "PROXIES",
                "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
                "requestheader-group-headers": "[\"X-Remote-Group\"]",
                "requestheader-uid-headers": "[\"X-Remote-Uid\"]",
                "requestheader-username-headers": "[\"X-Remote-User\"]"}})
    }

    pub(in super::super) fn cluster() -> Cluster {
        read(&reply(200, &recorded())).expect("as recorded")
    }

    #[test]
    fn what_was_recorded_is_read() {
        let Cluster { client_ca, proxy } = cluster();
        assert_eq!((client_ca.as_str(), proxy.ca.as_str()), ("CLIENTS", "PROXIES"));
        assert_eq!(proxy.users, ["x-remote-user"]);
        assert_eq!(proxy.extra_prefixes, ["x-remote-extra-"]);
        assert!(
            proxy.allows("front-proxy-client") && !proxy.allows("Front-Proxy-Client") && !proxy.allows("")
        );
    }

    #[test]
    fn no_list_of_names_allows_any_and_no_authority_none() {
        let with = |change: &dyn Fn(&mut Value)| {
            let mut body = recorded();
            change(&mut body["data"]);
            read(&reply(200, &body))
        };
        let any = with(&|data| data["requestheader-allowed-names"] = "[]".into()).expect("read");
        assert!(any.proxy.allows("anyone"));
        let none =
            with(&|data| drop(data.as_object_mut().map(|data| data.remove("requestheader-client-ca-file"))));
        assert!(!none.expect("read").proxy.allows("front-proxy-client"));
        assert!(!Proxy::default().allows("anyone"));
        for broken in ["", "front-proxy-client", "{}", "\"a\"", "[1]", "[\"a\"", "true"] {
            assert!(with(&|data| data["requestheader-allowed-names"] = broken.into()).is_err(), "{broken}");
        }
    }

    #[test]
    fn anything_else_is_not_it() {
        for code in [401, 403, 404, 500, 201] {
            assert!(read(&reply(code, &recorded())).is_err(), "{code}");
        }
        let mut secret = recorded();
        secret["kind"] = "Secret".into();
        assert!(read(&reply(200, &secret)).is_err());
    }
}
