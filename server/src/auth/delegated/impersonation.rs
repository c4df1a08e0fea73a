//! Impersonation: as whom a client asks to act, and which rights it needs for that (apiserver `endpoints/filters/impersonation`).
//!
//! It reads headers and makes questions. A client that sends such headers either acts as that user or is refused; it is never
//! served as itself.

use std::sync::Arc;

use super::access_review::{AccessQuestion, ResourceAttributes};
use super::headers::extra_of;
use crate::auth::access::html_safe;
use crate::http::go_quote;
use crate::http::request::IdentityHeaders;
use crate::http::status::{GroupResource, Status};
use crate::identity::{ANONYMOUS, AUTHENTICATED, Identity, UNAUTHENTICATED};

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// Whom a client asks to act as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Impersonation {
    user: String,
    uid: String,
    groups: Vec<String>,
    extra: Vec<(String, Vec<String>)>,
}

/// One right that is needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Right {
    group: &'static str,
    resource: &'static str,
    subresource: String,
    namespace: String,
    name: String,
}

impl Right {
    /// Whether `who` has it.
    pub(crate) fn question(&self, who: &Identity) -> AccessQuestion {
        let Self { group, resource, subresource, namespace, name } = self;
        let version = if group.is_empty() { "" } else { "v1" };
        let asked = ResourceAttributes {
            namespace,
            verb: "impersonate",
            group,
            version,
            resource,
            subresource,
            name,
            ..Default::default()
        };
        AccessQuestion::of_resource(who, asked)
    }

    /// The 403 for `who`.
    pub(crate) fn forbidden(&self, who: &str, reason: &str) -> Status {
        let Self { group, resource, subresource, namespace, name } = self;
        let slash = if subresource.is_empty() { "" } else { "/" };
        let scope = if namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {}", go_quote(namespace))
        };
        let what = go_quote(&format!("{resource}{slash}{subresource}"));
        let colon = if reason.is_empty() { "" } else { ": " };
        let why = format!(
            "User {} cannot impersonate resource {what} in API group {} {scope}{colon}{reason}",
            go_quote(who),
            go_quote(group)
        );
        Status::forbidden(GroupResource { group, resource }, name, &html_safe(&why))
    }
}

impl Impersonation {
    /// Whom the headers name; `None`: there are none.
    ///
    /// # Errors
    /// 400: they do not say who, or what else they say is not understood.
    pub(crate) fn of(headers: &IdentityHeaders) -> Result<Option<Self>, Status> {
        let mut extra = Vec::new();
        let mut any = false;
        for (rest, value) in headers.beginning("impersonate-") {
            any = true;
            match rest {
                "user" | "group" | "uid" => {}
                _ if rest.starts_with("extra-") => extra.push((&rest["extra-".len()..], value)),
                // Its meaning could be that the client asks for less.
                _ => return Err(refused(&format!("the header Impersonate-{rest} is not known"))),
            }
        }
        if !any {
            return Ok(None);
        }
        let once = |name: &'static str| {
            let mut values = headers.all(name);
            let value = values.next().unwrap_or_default().to_owned();
            if values.next().is_some() {
                Err(refused(&format!("the header {name} is repeated")))
            } else {
                Ok(value)
            }
        };
        let (user, uid) = (once("impersonate-user")?, once("impersonate-uid")?);
        let groups: Vec<String> = headers.all("impersonate-group").map(str::to_owned).collect();
        let extra = extra_of(extra.into_iter());
        let asked = Self { user, uid, groups, extra };
        if asked.user.is_empty() {
            return Err(Status::bad_request(format!(
                "requested {} without impersonating a user name",
                asked.as_go()
            )));
        }
        Ok(Some(asked))
    }

    /// The rights that are needed, in the order in which they are checked.
    pub(crate) fn rights(&self) -> Vec<Right> {
        let mut rights = Vec::with_capacity(1 + self.groups.len());
        rights.push(match service_account(&self.user) {
            Some((namespace, name)) => Right {
                resource: "serviceaccounts",
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                ..Right::default()
            },
            None => Right { resource: "users", name: self.user.clone(), ..Right::default() },
        });
        rights.extend(self.groups.iter().map(|group| Right {
            resource: "groups",
            name: group.clone(),
            ..Right::default()
        }));
        for (key, values) in &self.extra {
            rights.extend(values.iter().map(|value| Right {
                group: AUTHENTICATION,
                resource: "userextras",
                subresource: key.clone(),
                name: value.clone(),
                ..Right::default()
            }));
        }
        if !self.uid.is_empty() {
            rights.push(Right {
                group: AUTHENTICATION,
                resource: "uids",
                name: self.uid.clone(),
                ..Right::default()
            });
        }
        rights
    }

    /// The user that `real` acts as from now on.
    pub(crate) fn identity(self, real: &Arc<Identity>) -> Identity {
        let Self { user, uid, mut groups, extra } = self;
        if let Some((namespace, _)) = service_account(&user)
            && groups.is_empty()
        {
            groups.push("system:serviceaccounts".to_owned());
            groups.push(format!("system:serviceaccounts:{namespace}"));
        }
        // A member of one of the two is named by the client, which needed the right for that.
        if !groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED) {
            groups.push(if user == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED }.to_owned());
        }
        Identity { name: user, uid, groups, expires: real.expires, extra, real: Some(Arc::clone(real)) }
    }

    /// As Go prints it with `%#v`.
    fn as_go(&self) -> String {
        let list = |items: &[String]| {
            let items: Vec<String> = items.iter().map(|item| go_quote(item)).collect();
            format!("[]string{{{}}}", items.join(", "))
        };
        let groups = if self.groups.is_empty() { "[]string(nil)".to_owned() } else { list(&self.groups) };
        let extra: Vec<String> =
            self.extra.iter().map(|(key, values)| format!("{}:{}", go_quote(key), list(values))).collect();
        let extra = if extra.is_empty() { "(nil)".to_owned() } else { format!("{{{}}}", extra.join(", ")) };
        format!(
            "&user.DefaultInfo{{Name:\"\", UID:{}, Groups:{groups}, Extra:map[string][]string{extra}}}",
            go_quote(&self.uid)
        )
    }
}

fn refused(why: &str) -> Status {
    Status::bad_request(format!("impersonation: {why}"))
}

/// Namespace and name of a service account's user name.
fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
    let is_name = |text: &str, dots: bool| {
        let good = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || (dots && byte == b'.')
        };
        let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let bytes = text.as_bytes();
        bytes.iter().all(|byte| good(*byte)) && edge(bytes.first()) && edge(bytes.last())
    };
    (is_name(namespace, false) && is_name(name, true)).then_some((namespace, name))
}

#[cfg(test)]
mod tests {
    use super::super::headers::tests::headers;
    use super::*;

    fn asked(lines: &[(&str, &str)]) -> Result<Option<Impersonation>, (u16, String)> {
        Impersonation::of(&headers(lines)).map_err(|status| (status.code(), status.message().to_owned()))
    }

    fn root() -> Arc<Identity> {
        Arc::new(Identity::proven("root".into(), String::new(), vec!["system:masters".into()], None))
    }

    fn acts_as(lines: &[(&str, &str)]) -> Identity {
        asked(lines).expect("headers").expect("a user").identity(&root())
    }

    /// `group resource/subresource namespace name`.
    fn rights(lines: &[(&str, &str)]) -> Vec<String> {
        let rights = asked(lines).expect("headers").expect("a user").rights();
        let show =
            |r: &Right| format!("{} {}/{} {} {}", r.group, r.resource, r.subresource, r.namespace, r.name);
        rights.iter().map(show).collect()
    }

    #[test]
    fn each_part_needs_its_right() {
        assert_eq!(asked(&[("X-Remote-User", "jane")]), Ok(None));
        let lines = [
            ("Impersonate-Uid", "u7"),
            ("Impersonate-Extra-Example.com%2Fa", "1"),
            ("Impersonate-Group", "dev"),
            ("Impersonate-Group", "ops"),
            ("Impersonate-Extra-Scopes", "a"),
            ("Impersonate-Extra-Scopes", "b"),
            ("Impersonate-User", "jane"),
        ];
        assert_eq!(
            rights(&lines),
            [
                " users/  jane",
                " groups/  dev",
                " groups/  ops",
                "authentication.k8s.io userextras/example.com/a  1",
                "authentication.k8s.io userextras/scopes  a",
                "authentication.k8s.io userextras/scopes  b",
                "authentication.k8s.io uids/  u7",
            ]
        );
        let who = acts_as(&lines);
        assert_eq!((who.name.as_str(), who.uid.as_str()), ("jane", "u7"));
        assert_eq!(who.groups, ["dev", "ops", "system:authenticated"]);
        assert_eq!(who.real.map(|real| real.name.clone()).as_deref(), Some("root"));
        assert_eq!(who.extra.len(), 2);
    }

    #[test]
    fn groups_of_service_accounts_are_filled_in() {
        let reader = [("Impersonate-User", "system:serviceaccount:agg:reader")];
        assert_eq!(rights(&reader), [" serviceaccounts/ agg reader"]);
        assert_eq!(
            acts_as(&reader).groups,
            ["system:serviceaccounts", "system:serviceaccounts:agg", "system:authenticated"]
        );
        let with_group = [reader[0], ("Impersonate-Group", "dev")];
        assert_eq!(acts_as(&with_group).groups, ["dev", "system:authenticated"]);
        for user in [
            "system:serviceaccount:agg",
            "system:serviceaccount::reader",
            "system:serviceaccount:a:b:c",
            "system:serviceaccount:a.b:c",
            "system:serviceaccount:A:b",
            "system:serviceaccount:agg:",
        ] {
            assert_eq!(rights(&[("Impersonate-User", user)]), [format!(" users/  {user}")]);
        }
        assert_eq!(acts_as(&[("Impersonate-User", "system:anonymous")]).groups, ["system:unauthenticated"]);
        let masters = [("Impersonate-User", "x"), ("Impersonate-Group", "system:masters")];
        assert_eq!(rights(&masters)[1], " groups/  system:masters", "the right to it is asked for");
    }

    #[test]
    fn headers_that_do_not_say_who_are_refused() {
        let said = |lines: &[(&str, &str)]| asked(lines).expect_err("refused");
        assert_eq!(
            said(&[("Impersonate-Group", "dev")]),
            (400, "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"dev\"}, Extra:map[string][]string(nil)} \
                   without impersonating a user name".to_owned())
        );
        let (_, text) =
            said(&[("Impersonate-Uid", "u"), ("Impersonate-Extra-A", "1"), ("Impersonate-User", "")]);
        assert!(
            text.contains(
                "UID:\"u\", Groups:[]string(nil), Extra:map[string][]string{\"a\":[]string{\"1\"}}}"
            ),
            "{text}"
        );
        for lines in [
            [("Impersonate-User", "a"), ("Impersonate-User", "b")],
            [("Impersonate-User", "a"), ("impersonate-user", "")],
            [("Impersonate-User", "a"), ("Impersonate-Nobody", "b")],
            [("Impersonate-User", "a"), ("Impersonate-", "b")],
        ] {
            assert_eq!(said(&lines).0, 400, "{lines:?}");
        }
    }

    #[test]
    fn refusals_are_in_the_words_of_kubernetes() {
        let lines = [
            ("Impersonate-User", "system:serviceaccount:agg:x"),
            ("Impersonate-Group", "ops"),
            ("Impersonate-Uid", "u"),
            ("Impersonate-Extra-Scopes", "a"),
        ];
        let rights = asked(&lines).expect("headers").expect("a user").rights();
        let said: Vec<String> =
            rights.iter().map(|right| right.forbidden("r", "").message().to_owned()).collect();
        assert_eq!(
            said,
            [
                "serviceaccounts \"x\" is forbidden: User \"r\" cannot impersonate resource \"serviceaccounts\" in API group \"\" \
                 in the namespace \"agg\"",
                "groups \"ops\" is forbidden: User \"r\" cannot impersonate resource \"groups\" in API group \"\" at the cluster scope",
                "userextras.authentication.k8s.io \"a\" is forbidden: User \"r\" cannot impersonate resource \"userextras/scopes\" in \
                 API group \"authentication.k8s.io\" at the cluster scope",
                "uids.authentication.k8s.io \"u\" is forbidden: User \"r\" cannot impersonate resource \"uids\" in API group \
                 \"authentication.k8s.io\" at the cluster scope",
            ]
        );
    }
}
