//! Server-side printing: objects as rows of a `Table`, and as `PartialObjectMetadata`.
//!
//! It owns the columns of each resource and their content, following kube-apiserver's `pkg/printers/internalversion`;
//! the object around the rows (`kind: Table`, `metadata`) belongs to the reply. `meta.k8s.io/v1` and `v1beta1` differ
//! in their names only. Objects are untrusted: one without the structure of its kind gives empty cells, never an error.

mod admission;
mod age;
mod apiserver;
mod cells;
mod cluster;
mod columns;
mod custom;
mod devices;
mod pods;
mod printers;
mod workloads;

use std::fmt;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use self::cells::Cells;
use self::columns::Column;
use super::printer::Printer;
use super::protobuf::{self, Release};
use super::resources::ApiResource;
use crate::http::negotiation::MetaVersion;
use crate::http::options::IncludeObject;

impl Printer {
    const fn columns(self) -> &'static [Column] {
        match self {
            Self::Default => columns::DEFAULT,
            Self::Custom => columns::CUSTOM,
            Self::ConfigMaps => columns::CONFIG_MAPS,
            Self::CronJobs => columns::CRON_JOBS,
            Self::DaemonSets => columns::DAEMON_SETS,
            Self::Deployments => columns::DEPLOYMENTS,
            Self::EndpointSlices => columns::ENDPOINT_SLICES,
            Self::Endpoints => columns::ENDPOINTS,
            Self::Events => columns::EVENTS,
            Self::HorizontalPodAutoscalers => columns::AUTOSCALERS,
            Self::Ingresses => columns::INGRESSES,
            Self::Jobs => columns::JOBS,
            Self::Leases => columns::LEASES,
            Self::Namespaces => columns::NAMESPACES,
            Self::Nodes => columns::NODES,
            Self::PersistentVolumeClaims => columns::PERSISTENT_VOLUME_CLAIMS,
            Self::PersistentVolumes => columns::PERSISTENT_VOLUMES,
            Self::Pods => columns::PODS,
            Self::ReplicaSets => columns::REPLICA_SETS,
            Self::Secrets => columns::SECRETS,
            Self::Services => columns::SERVICES,
            Self::StatefulSets => columns::STATEFUL_SETS,
            Self::ApiServices => columns::API_SERVICES,
            Self::ControllerRevisions => columns::CONTROLLER_REVISIONS,
            Self::CsiNodes => columns::CSI_NODES,
            Self::IngressClasses => columns::INGRESS_CLASSES,
            Self::NetworkPolicies => columns::NETWORK_POLICIES,
            Self::PodDisruptionBudgets => columns::DISRUPTION_BUDGETS,
            Self::PodTemplates => columns::POD_TEMPLATES,
            Self::PriorityClasses => columns::PRIORITY_CLASSES,
            Self::ResourceQuotas => columns::RESOURCE_QUOTAS,
            Self::RoleBindings => columns::ROLE_BINDINGS,
            Self::RuntimeClasses => columns::RUNTIME_CLASSES,
            Self::SigningRequests => columns::SIGNING_REQUESTS,
            Self::StorageClasses => columns::STORAGE_CLASSES,
            Self::VolumeAttachments => columns::VOLUME_ATTACHMENTS,
            Self::VolumeAttributesClasses => columns::VOLUME_ATTRIBUTES_CLASSES,
            Self::Webhooks => columns::WEBHOOKS,
            Self::NameAndAge => columns::NAME_AND_AGE,
            Self::CsiDrivers => columns::CSI_DRIVERS,
            Self::DeviceTaintRules => columns::DEVICE_TAINT_RULES,
            Self::FlowSchemas => columns::FLOW_SCHEMAS,
            Self::IpAddresses => columns::IP_ADDRESSES,
            Self::LeaseCandidates => columns::LEASE_CANDIDATES,
            Self::MutatingPolicies => columns::MUTATING_POLICIES,
            Self::PolicyBindings => columns::POLICY_BINDINGS,
            Self::PriorityLevels => columns::PRIORITY_LEVELS,
            Self::ResourceClaims => columns::RESOURCE_CLAIMS,
            Self::ResourcePoolStatusRequests => columns::RESOURCE_POOL_STATUS_REQUESTS,
            Self::ResourceSlices => columns::RESOURCE_SLICES,
            Self::ServiceCidrs => columns::SERVICE_CIDRS,
            Self::StorageVersions => columns::STORAGE_VERSIONS,
            Self::ValidatingPolicies => columns::VALIDATING_POLICIES,
        }
    }

    fn print(self, object: &Value, cells: &mut Cells<'_>, now: i64) {
        match self {
            Self::Default => printers::default(object, cells),
            Self::Custom => custom::undeclared(object, cells, now),
            Self::ConfigMaps => printers::config_map(object, cells, now),
            Self::CronJobs => workloads::cron_job(object, cells, now),
            Self::DaemonSets => workloads::daemon_set(object, cells, now),
            Self::Deployments => workloads::deployment(object, cells, now),
            Self::EndpointSlices => printers::endpoint_slice(object, cells, now),
            Self::Endpoints => printers::endpoints(object, cells, now),
            Self::Events => printers::event(object, cells, now),
            Self::HorizontalPodAutoscalers => workloads::autoscaler(object, cells, now),
            Self::Ingresses => printers::ingress(object, cells, now),
            Self::Jobs => workloads::job(object, cells, now),
            Self::Leases => printers::lease(object, cells, now),
            Self::Namespaces => printers::namespace(object, cells, now),
            Self::Nodes => printers::node(object, cells, now),
            Self::PersistentVolumeClaims => printers::persistent_volume_claim(object, cells, now),
            Self::PersistentVolumes => printers::persistent_volume(object, cells, now),
            Self::Pods => pods::pod(object, cells, now),
            Self::ReplicaSets => workloads::replica_set(object, cells, now),
            Self::Secrets => printers::secret(object, cells, now),
            Self::Services => printers::service(object, cells, now),
            Self::StatefulSets => workloads::stateful_set(object, cells, now),
            Self::ApiServices => apiserver::api_service(object, cells, now),
            Self::ControllerRevisions => cluster::controller_revision(object, cells, now),
            Self::CsiNodes => cluster::csi_node(object, cells, now),
            Self::IngressClasses => cluster::ingress_class(object, cells, now),
            Self::NetworkPolicies => cluster::network_policy(object, cells, now),
            Self::PodDisruptionBudgets => cluster::disruption_budget(object, cells, now),
            Self::PodTemplates => cluster::pod_template(object, cells),
            Self::PriorityClasses => cluster::priority_class(object, cells, now),
            Self::ResourceQuotas => cluster::resource_quota(object, cells, now),
            Self::RoleBindings => cluster::role_binding(object, cells, now),
            Self::RuntimeClasses => cluster::runtime_class(object, cells, now),
            Self::SigningRequests => cluster::signing_request(object, cells, now),
            Self::StorageClasses => cluster::storage_class(object, cells, now),
            Self::VolumeAttachments => cluster::volume_attachment(object, cells, now),
            Self::VolumeAttributesClasses => cluster::volume_attributes_class(object, cells, now),
            Self::Webhooks => admission::webhooks(object, cells, now),
            Self::NameAndAge => printers::name_and_age(object, cells, now),
            Self::CsiDrivers => cluster::csi_driver(object, cells, now),
            Self::DeviceTaintRules => devices::taint_rule(object, cells, now),
            Self::FlowSchemas => apiserver::flow_schema(object, cells, now),
            Self::IpAddresses => cluster::ip_address(object, cells, now),
            Self::LeaseCandidates => printers::lease_candidate(object, cells, now),
            Self::MutatingPolicies => admission::mutating_policy(object, cells, now),
            Self::PolicyBindings => admission::policy_binding(object, cells, now),
            Self::PriorityLevels => apiserver::priority_level(object, cells, now),
            Self::ResourceClaims => devices::claim(object, cells, now),
            Self::ResourcePoolStatusRequests => devices::pool_status_request(object, cells, now),
            Self::ResourceSlices => devices::slice(object, cells, now),
            Self::ServiceCidrs => cluster::service_cidr(object, cells, now),
            Self::StorageVersions => apiserver::storage_version(object, cells, now),
            Self::ValidatingPolicies => admission::validating_policy(object, cells, now),
        }
    }
}

/// The bytes are not a JSON object with `metadata`. Objects of the engine always are.
#[derive(Debug)]
pub struct NotAnObject(serde_json::Error);

impl fmt::Display for NotAnObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a stored value is not a Kubernetes object: {}", self.0)
    }
}

impl std::error::Error for NotAnObject {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

/// The bytes of `metadata`, untouched.
#[derive(Deserialize)]
struct Top<'a> {
    #[serde(borrow)]
    metadata: &'a RawValue,
}

/// Appends the value of `columnDefinitions`: `[{"name":"Name",...},...]`.
pub fn append_column_definitions(out: &mut Vec<u8>, resource: &ApiResource) {
    match &resource.columns {
        Some(own) => own.append_definitions(out),
        None => {
            serde_json::to_writer(out, resource.printer.columns()).expect("writing to a Vec does not fail");
        }
    }
}

/// Appends one element of `rows`: `{"cells":[...],"object":...}`.
///
/// `object` is the object's JSON, `now` the Unix time in seconds for ages. Costs one parse of the object: once per
/// event and kind, never per watcher.
///
/// # Errors
/// When `object` is not a JSON object with `metadata`; nothing is appended then.
pub fn append_row(
    out: &mut Vec<u8>,
    resource: &ApiResource,
    object: &[u8],
    include: IncludeObject,
    version: MetaVersion,
    now: i64,
) -> Result<(), NotAnObject> {
    append_row_of(out, resource, object, object, include, version, now)
}

/// The same with the cells of `printed`, which may be another object.
///
/// # Errors
/// When one of them is not a JSON object with `metadata`; nothing is appended then.
pub fn append_row_of(
    out: &mut Vec<u8>,
    resource: &ApiResource,
    printed: &[u8],
    object: &[u8],
    include: IncludeObject,
    version: MetaVersion,
    now: i64,
) -> Result<(), NotAnObject> {
    let top: Top<'_> = serde_json::from_slice(object).map_err(NotAnObject)?;
    let value: Value = serde_json::from_slice(printed).map_err(NotAnObject)?;
    out.extend_from_slice(b"{\"cells\":[");
    let mut cells = Cells::new(out);
    match &resource.columns {
        Some(own) => own.print(&value, &mut cells, now),
        None => resource.printer.print(&value, &mut cells, now),
    }
    out.push(b']');
    if resource.printer == Printer::Pods {
        out.extend_from_slice(pods::conditions(&value).as_bytes());
    }
    out.extend_from_slice(b",\"object\":");
    match include {
        IncludeObject::None => out.extend_from_slice(b"null"),
        IncludeObject::Metadata => partial_metadata(out, object, &top, version),
        IncludeObject::Object => out.extend_from_slice(object.trim_ascii()),
    }
    out.push(b'}');
    Ok(())
}

/// Appends the object as a `PartialObjectMetadata`.
///
/// # Errors
/// When `object` is not a JSON object with `metadata`; nothing is appended then.
pub fn append_partial_metadata(
    out: &mut Vec<u8>,
    object: &[u8],
    version: MetaVersion,
) -> Result<(), NotAnObject> {
    let top: Top<'_> = serde_json::from_slice(object).map_err(NotAnObject)?;
    partial_metadata(out, object, &top, version);
    Ok(())
}

/// The same, whatever the order of the members is.
///
/// # Errors
/// When `object` is not a JSON object with `metadata`; nothing is appended then.
pub fn append_unordered_metadata(
    out: &mut Vec<u8>,
    object: &[u8],
    version: MetaVersion,
) -> Result<(), NotAnObject> {
    let top: Top<'_> = serde_json::from_slice(object).map_err(NotAnObject)?;
    metadata_as_kept(out, &top, version);
    Ok(())
}

/// Metadata has a Go type, also that of custom resources, whose members are sorted: it is put into the type's order. What does
/// not fit the type stays as it is.
fn partial_metadata(out: &mut Vec<u8>, object: &[u8], top: &Top<'_>, version: MetaVersion) {
    let start = out.len();
    metadata_as_kept(out, top, version);
    if object.starts_with(b"{\"apiVersion\"")
        && let Ok(ordered) = protobuf::canonical(Release::DEFAULT, &out[start..])
    {
        out.truncate(start);
        out.extend_from_slice(&ordered);
    }
}

fn metadata_as_kept(out: &mut Vec<u8>, top: &Top<'_>, version: MetaVersion) {
    out.extend_from_slice(br#"{"kind":"PartialObjectMetadata","apiVersion":""#);
    out.extend_from_slice(version.api_version().as_bytes());
    out.extend_from_slice(br#"","metadata":"#);
    out.extend_from_slice(top.metadata.get().as_bytes());
    out.push(b'}');
}

#[cfg(test)]
mod recorded;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod unrecorded;
