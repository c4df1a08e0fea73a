//! Options of POST, PUT, PATCH and DELETE (apimachinery `meta/v1/validation`).

use revcast_engine::selector::is_printable;
use serde::Deserialize;

use super::{OptionsError, Query};
use crate::http::status::Cause;
use crate::http::{go_quote, shown};

/// Bytes of the longest field manager.
const FIELD_MANAGER_BYTES_MAX: usize = 128;
/// The most errors in a field manager that are listed. Kubernetes lists all, and quotes the whole value for each.
const FIELD_MANAGER_FAULTS_MAX: usize = 16;

/// Which options a write has; decides on `force`, and on the name in errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH other than server-side apply.
    Patch,
    /// PATCH with `application/apply-patch+yaml`.
    Apply,
}

/// How fields that the type does not have are treated. Objects that are stored in JSON are kept as they are, so no field is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Not given.
    #[default]
    Unset,
    /// `Ignore`.
    Ignore,
    /// `Warn`.
    Warn,
    /// `Strict`.
    Strict,
}

/// Options of a POST, PUT or PATCH.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// `dryRun=All`: answer as if written, but do not write.
    pub dry_run: bool,
    /// The field manager; "" when not given.
    pub field_manager: String,
    /// `fieldValidation`.
    pub field_validation: FieldValidation,
    /// `force`: take over fields of other owners. Only with [`WriteKind::Apply`].
    pub force: bool,
}

impl WriteOptions {
    /// Reads the options of a write.
    ///
    /// # Errors
    /// 422, with a cause for each invalid parameter.
    pub fn parse(query: &Query, write: WriteKind) -> Result<Self, OptionsError> {
        let force = query.flag("force");
        let field_manager = query.owned("fieldManager");
        let mut causes = Vec::new();
        match write {
            WriteKind::Apply if field_manager.is_empty() => {
                causes.push(Cause::required("fieldManager", "is required for apply patch"));
            }
            WriteKind::Patch if force.is_some() => {
                causes.push(Cause::forbidden("force", "may not be specified for non-apply patch"));
            }
            WriteKind::Create | WriteKind::Update | WriteKind::Patch | WriteKind::Apply => {}
        }
        if field_manager.len() > FIELD_MANAGER_BYTES_MAX {
            causes.push(Cause::too_long("fieldManager", FIELD_MANAGER_BYTES_MAX));
        } else {
            let wrong = field_manager.char_indices().filter(|(_, c)| !is_printable(*c));
            for (at, c) in wrong.take(FIELD_MANAGER_FAULTS_MAX) {
                let why = format!("invalid character U+{:04X} (at position {at})", u32::from(c));
                causes.push(Cause::invalid("fieldManager", &field_manager, &why));
            }
        }
        let dry_run: Vec<&str> = query.all("dryRun").collect();
        let dry_run = check_dry_run(&dry_run, &mut causes);
        let field_validation = match query.get("fieldValidation").unwrap_or_default() {
            "" => FieldValidation::Unset,
            "Ignore" => FieldValidation::Ignore,
            "Warn" => FieldValidation::Warn,
            "Strict" => FieldValidation::Strict,
            other => {
                causes.push(Cause::not_supported(
                    "fieldValidation",
                    other,
                    &["", "Ignore", "Strict", "Warn"],
                ));
                FieldValidation::Unset
            }
        };
        if !causes.is_empty() {
            let kind = match write {
                WriteKind::Create => "CreateOptions",
                WriteKind::Update => "UpdateOptions",
                WriteKind::Patch | WriteKind::Apply => "PatchOptions",
            };
            return Err(OptionsError::Invalid { kind, causes });
        }
        let force = write == WriteKind::Apply && force.unwrap_or(false);
        Ok(Self { dry_run, field_manager, field_validation, force })
    }
}

/// What happens to the dependents of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted first.
    Foreground,
    /// They are deleted afterwards.
    Background,
    /// They stay.
    Orphan,
}

/// Preconditions of a deletion; "" for no condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Preconditions {
    /// Its `metadata.uid`.
    pub uid: String,
    /// Its `metadata.resourceVersion`.
    pub resource_version: String,
}

/// Options of a DELETE, of one object or of a collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// `dryRun=All`: answer as if deleted, but do not delete.
    pub dry_run: bool,
    /// `gracePeriodSeconds`.
    pub grace_period_seconds: Option<i64>,
    /// `propagationPolicy`.
    pub propagation: Option<Propagation>,
    /// Only in a body.
    pub preconditions: Preconditions,
}

/// As in a body; unknown members are ignored.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Wire {
    kind: Option<String>,
    dry_run: Option<Vec<String>>,
    grace_period_seconds: Option<i64>,
    propagation_policy: Option<String>,
    orphan_dependents: Option<bool>,
    preconditions: Option<Preconditions>,
}

impl DeleteOptions {
    /// Reads the options of a DELETE: from its body when it has one, else from its query, never from both (apiserver
    /// `handlers/delete.go`).
    ///
    /// # Errors
    /// 400 for a body that is not JSON `DeleteOptions` or an invalid number, 422 for invalid values.
    pub fn parse(query: &Query, body: &[u8]) -> Result<Self, OptionsError> {
        let wire = if body.is_empty() { Wire::from_query(query)? } else { Wire::from_body(body)? };
        wire.check()
    }
}

impl Wire {
    fn from_query(query: &Query) -> Result<Self, OptionsError> {
        Ok(Self {
            kind: None,
            dry_run: Some(query.all("dryRun").map(str::to_owned).collect()),
            grace_period_seconds: query.integer("gracePeriodSeconds")?,
            propagation_policy: query.get("propagationPolicy").map(str::to_owned),
            orphan_dependents: query.flag("orphanDependents"),
            preconditions: None,
        })
    }

    fn from_body(body: &[u8]) -> Result<Self, OptionsError> {
        let wire: Self = serde_json::from_slice(body)
            .map_err(|error| OptionsError::DeleteBody(shown(&error.to_string()).into_owned()))?;
        match wire.kind.as_deref() {
            None | Some("" | "DeleteOptions") => Ok(wire),
            Some(other) => Err(OptionsError::DeleteBody(format!("its kind is {}", go_quote(other)))),
        }
    }

    fn check(self) -> Result<DeleteOptions, OptionsError> {
        const POLICY: &str = "propagationPolicy";
        let mut causes = Vec::new();
        if let (Some(policy), Some(_)) = (&self.propagation_policy, self.orphan_dependents) {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            causes.push(Cause::invalid(POLICY, policy, why));
        }
        let propagation = match self.propagation_policy.as_deref() {
            None => self
                .orphan_dependents
                .map(|orphan| if orphan { Propagation::Orphan } else { Propagation::Background }),
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Background") => Some(Propagation::Background),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                let supported = &["Foreground", "Background", "Orphan", "nil"];
                causes.push(Cause::not_supported(POLICY, other, supported));
                None
            }
        };
        let dry_run = self.dry_run.unwrap_or_default();
        let dry_run: Vec<&str> = dry_run.iter().map(String::as_str).collect();
        let dry_run = check_dry_run(&dry_run, &mut causes);
        if !causes.is_empty() {
            return Err(OptionsError::Invalid { kind: "DeleteOptions", causes });
        }
        let preconditions = self.preconditions.unwrap_or_default();
        Ok(DeleteOptions {
            dry_run,
            grace_period_seconds: self.grace_period_seconds,
            propagation,
            preconditions,
        })
    }
}

/// Whether it is a dry run. An unknown value must not be ignored: the request would write.
fn check_dry_run(values: &[&str], causes: &mut Vec<Cause>) -> bool {
    if values.iter().any(|value| *value != "All") {
        causes.push(Cause::none_supported("dryRun", values, &["All"]));
    }
    !values.is_empty()
}
