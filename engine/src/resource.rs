//! What the engine must know of a resource: how its objects are named, which fields are selectable, and how values are
//! stored.

pub use crate::attributes::FieldId;
use crate::key::ResourceId;
use crate::message_type::SharedType;
use crate::other_versions::SharedVersions;

/// One selectable field: its label on the wire and the place of its value in the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// As a client writes it: `spec.nodeName`.
    pub label: String,
    /// The members to follow from the top of the object. Empty: the field exists but always reads as `absent`.
    pub path: Vec<String>,
    /// Another place of the value when there is none at `path`, or it is ""; empty: no other place.
    pub otherwise: Vec<String>,
    /// What it reads as where the object has no value.
    pub absent: String,
}

impl Field {
    /// A field whose label, split at the dots, is its path in the object.
    #[must_use]
    pub fn at(label: &str) -> Self {
        Self::alias(label, label)
    }

    /// A field under another name: `alias` reads the value at `path`.
    #[must_use]
    pub fn alias(alias: &str, path: &str) -> Self {
        Self { path: members(path), ..Self::empty(alias) }
    }

    /// A field that always reads as "".
    #[must_use]
    pub fn empty(label: &str) -> Self {
        Self { label: label.to_owned(), path: Vec::new(), otherwise: Vec::new(), absent: String::new() }
    }

    /// The same, reading `path` when its own path has no value.
    #[must_use]
    pub fn or(self, path: &str) -> Self {
        Self { otherwise: members(path), ..self }
    }

    /// The same, reading as `value` when the object has none.
    #[must_use]
    pub fn or_value(self, value: &str) -> Self {
        Self { absent: value.to_owned(), ..self }
    }
}

/// The parts between dots.
fn members(path: &str) -> Vec<String> {
    path.split('.').map(str::to_owned).collect()
}

/// How the values of a resource are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Codec {
    /// A Kubernetes object in JSON, or in protobuf where the resource has a type of messages: it has labels and fields, and its
    /// revision is shown in it.
    #[default]
    Kubernetes,
    /// Any bytes. They have neither labels nor fields, are kept as they are, and are never unreadable.
    Opaque,
}

/// One kind of object, as the engine sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// `v1`, or `group/version`.
    pub api_version: String,
    /// `ConfigMap`.
    pub kind: String,
    /// `configmaps`, for messages.
    pub plural: String,
    /// Whether its keys have a namespace.
    pub namespaced: bool,
    /// How its values are stored.
    pub codec: Codec,
    /// What its values in protobuf are. `None`: it has none.
    pub message: Option<SharedType>,
    /// How values of other versions are brought to this one. `None`: they are unreadable.
    pub versions: Option<SharedVersions>,
    /// Whether values of all versions of its group are kept in the version that they are stored in.
    pub mixes_versions: bool,
    /// Whether the members of its objects in JSON are in the order of their names, those of bookmarks too, and `-0` is read as 0.
    pub sorts_members: bool,
    /// `metadata.name`, then `metadata.namespace` when namespaced, then the resource's own.
    fields: Vec<Field>,
    /// Whether the list of fields was declared, even if empty: [`Resource::listing_fields`].
    fields_listed: bool,
}

impl Resource {
    /// A resource with the fields that all resources have, and its `own` ones (at most 200).
    #[must_use]
    pub fn new(api_version: &str, kind: &str, namespaced: bool, own: Vec<Field>) -> Self {
        assert!(own.len() <= 200, "a resource has at most 200 selectable fields of its own");
        let mut fields = vec![Field::at("metadata.name")];
        if namespaced {
            fields.push(Field::at("metadata.namespace"));
        }
        fields.extend(own);
        let plural = format!("{}s", kind.to_ascii_lowercase());
        let fields_listed = fields.len() > 1 + usize::from(namespaced);
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            plural,
            namespaced,
            codec: Codec::Kubernetes,
            message: None,
            versions: None,
            mixes_versions: false,
            sorts_members: false,
            fields,
            fields_listed,
        }
    }

    /// The same with a plural other than the lower-case kind with an `s`.
    #[must_use]
    pub fn with_plural(self, plural: &str) -> Self {
        Self { plural: plural.to_owned(), ..self }
    }

    /// The same with values that are stored in another way than as Kubernetes' objects.
    #[must_use]
    pub fn with_codec(self, codec: Codec) -> Self {
        Self { codec, ..self }
    }

    /// The same with values that may be protobuf, and are shown as it.
    #[must_use]
    pub fn with_message(self, of: SharedType) -> Self {
        Self { message: Some(of), ..self }
    }

    /// The same with values that may be stored in other versions.
    #[must_use]
    pub fn with_versions(self, versions: SharedVersions) -> Self {
        Self { versions: Some(versions), ..self }
    }

    /// The same with values that are kept in the versions that they are stored in.
    #[must_use]
    pub fn mixing_versions(self) -> Self {
        Self { mixes_versions: true, ..self }
    }

    /// The same with objects whose members are in the order of their names: Kubernetes' custom resources, which are maps in Go.
    #[must_use]
    pub fn sorting_members(self) -> Self {
        Self { sorts_members: true, ..self }
    }

    /// The same, treated as a resource that lists its fields although it has none of its own: Kubernetes' custom
    /// resources.
    #[must_use]
    pub fn listing_fields(self) -> Self {
        Self { fields_listed: true, ..self }
    }

    /// Its name in messages, as in Kubernetes: `configmaps`, `deployments.apps`.
    #[must_use]
    pub fn qualified_plural(&self) -> String {
        match self.api_version.split_once('/') {
            Some((group, _)) => format!("{}.{group}", self.plural),
            None => self.plural.clone(),
        }
    }

    /// All selectable fields; a [`FieldId`] is an index into them.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The field that clients call `label`.
    #[must_use]
    pub fn field(&self, label: &str) -> Option<FieldId> {
        let index = self.fields.iter().position(|field| field.label == label)?;
        u8::try_from(index).ok().map(FieldId::new)
    }

    /// Whether its selectable fields are listed, which in Kubernetes changes the error for other fields.
    #[must_use]
    pub const fn lists_fields(&self) -> bool {
        self.fields_listed
    }
}

/// All served resources. Rows are added while a publisher and its shards live; none changes or goes away.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    resources: boxcar::Vec<Resource>,
}

impl Schema {
    /// No resource yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { resources: boxcar::Vec::new() }
    }

    /// Adds a resource and returns its id.
    ///
    /// # Panics
    /// Past 65,536 resources: whoever declares them limits their number.
    pub fn add(&mut self, resource: Resource) -> ResourceId {
        self.grow(resource)
    }

    /// Adds a resource to a schema that is in use and returns its id. Whatever has the id finds the resource.
    ///
    /// # Panics
    /// Past 65,536 resources: whoever declares them limits their number.
    pub fn grow(&self, resource: Resource) -> ResourceId {
        let row = self.resources.push(resource);
        ResourceId::new(u16::try_from(row).expect("at most 65,536 resources"))
    }

    /// The resource in row `id`.
    #[must_use]
    pub fn get(&self, id: ResourceId) -> &Resource {
        &self.resources[id.row()]
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.resources.count()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }
}
