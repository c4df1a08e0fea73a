//! The objects of a run as JSON, made once; the stamp is patched in place before each write. Those of a custom resource, ConfigMaps
//! and Secrets have stamp and padding in `data`; a Pod has what Pods have.

use crate::endpoint::Resource;
use crate::media::Encoding;
use crate::stamp::{STAMP_BYTES, Stamp};
use fastrand::Rng;
use serde::{Deserialize, Serialize};

/// How the objects of a run are named and what they contain. Objects are numbered over all namespaces:
/// `namespace * per_namespace + place`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Recipe {
    pub(crate) resource: Resource,
    /// What watches of them ask for.
    pub(crate) encoding: Encoding,
    pub(crate) namespaces: Vec<String>,
    pub(crate) per_namespace: u32,
    pub(crate) run: u64,
    pub(crate) seed: u64,
    pub(crate) pad_bytes: usize,
}

pub(crate) fn name_of(place: u32) -> String {
    format!("object-{place}")
}

/// The node of pod number `object`: each has its own.
pub(crate) fn node_of(object: u32) -> String {
    format!("node-{object}")
}

/// The place that a name stands for, if it is one of ours.
pub(crate) fn place_of(name: &str, per_namespace: u32) -> Option<u32> {
    let place = name.strip_prefix("object-")?.parse().ok()?;
    (place < per_namespace && name == name_of(place)).then_some(place)
}

impl Recipe {
    pub(crate) fn objects(&self) -> u32 {
        u32::try_from(self.namespaces.len()).unwrap_or(u32::MAX).saturating_mul(self.per_namespace)
    }

    pub(crate) fn namespace_of(&self, object: u32) -> &str {
        &self.namespaces[(object / self.per_namespace) as usize]
    }

    pub(crate) fn path_of(&self, object: u32) -> String {
        let collection = self.resource.collection(self.namespace_of(object));
        format!("{collection}/{}", name_of(object % self.per_namespace))
    }

    pub(crate) fn stamp_pointer(&self) -> &'static str {
        if self.resource.kind == "Pod" { "/metadata/annotations/stamp" } else { "/data/stamp" }
    }

    /// The body of object number `object`, stamped as its creation.
    pub(crate) fn body_of(&self, object: u32) -> Body {
        let place = object % self.per_namespace;
        let half = if place.is_multiple_of(2) { "even" } else { "odd" };
        let (name, namespace) = (name_of(place), self.namespace_of(object));
        let mut text = format!(
            r#"{{"apiVersion":"{}","kind":"{}","metadata":{{"name":"{name}","namespace":"{namespace}","labels":{{"app":"revcast-perf","half":"{half}","object":"{name}"}}"#,
            self.resource.api_version, self.resource.kind
        );
        let mut random = Rng::with_seed(self.seed ^ u64::from(object));
        let mut pad = |bytes: usize| (0..bytes).map(|_| random.alphanumeric()).collect::<String>();
        let (stamped, end) = if self.resource.kind == "Pod" {
            let settings: String =
                (0..self.pad_bytes / SETTING_BYTES).map(|at| setting(at, &mut pad)).collect();
            (r#","annotations":{"#, format!("}}}},{}}}", pod_spec(&node_of(object), &settings)))
        } else {
            (r#"},"data":{"#, "}}".to_owned())
        };
        let rest = if self.resource.kind == "Pod" { self.pad_bytes % SETTING_BYTES } else { self.pad_bytes };
        text.push_str(&format!(r#"{stamped}"pad":"{}","stamp":""#, pad(rest)));
        let stamp_at = text.len();
        let mut bytes = text.into_bytes();
        bytes.resize(stamp_at + STAMP_BYTES, b'0');
        bytes.push(b'"');
        bytes.extend_from_slice(end.as_bytes());
        let mut body = Body { bytes, stamp_at };
        body.stamp(Stamp { run: self.run, object, seq: 0, intended_ns: 0 });
        body
    }
}

/// Bytes of one setting in the environment of a Pod's container, with its comma.
const SETTING_BYTES: usize = 100;

/// A variable of the environment, which pads a Pod.
fn setting(at: usize, pad: &mut impl FnMut(usize) -> String) -> String {
    let mut text = format!(r#",{{"name":"SETTING_{at:05}","value":""#);
    let value = pad(SETTING_BYTES - text.len() - 2);
    text.push_str(&value);
    text.push_str("\"}");
    text
}

fn pod_spec(node: &str, settings: &str) -> String {
    [
        r#""spec":{"volumes":[{"name":"config","configMap":{"name":"app"}}],"containers":[{"name":"app","image":"example/app:1","#,
        r#""ports":[{"name":"http","containerPort":8080,"protocol":"TCP"}],"env":[{"name":"MODE","value":"serve"}"#,
        settings,
        r#"],"resources":{"limits":{"memory":"256Mi"},"requests":{"cpu":"100m"}},"#,
        r#""volumeMounts":[{"name":"config","mountPath":"/etc/app"}]}],"nodeName":""#,
        node,
        r#""}"#,
    ]
    .concat()
}

pub(crate) struct Body {
    bytes: Vec<u8>,
    stamp_at: usize,
}

impl Body {
    pub(crate) fn stamp(&mut self, stamp: Stamp) {
        stamp.write(&mut self.bytes[self.stamp_at..self.stamp_at + STAMP_BYTES]);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
impl Recipe {
    pub(crate) fn of_test(resource: &str, objects: u32) -> Self {
        let resource = Resource::parse(resource).expect("a resource");
        let namespaces = vec!["a".to_owned()];
        Self {
            resource,
            encoding: Encoding::Json,
            namespaces,
            per_namespace: objects,
            run: 7,
            seed: 1,
            pad_bytes: 100,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn a_body_is_json_and_keeps_its_size() {
        let namespaces = vec!["a".to_owned(), "b".to_owned()];
        let recipe = Recipe { namespaces, ..Recipe::of_test("configmaps", 3) };
        assert_eq!(recipe.path_of(4), "/api/v1/namespaces/b/configmaps/object-1");
        let mut body = recipe.body_of(4);
        let bytes = body.bytes().len();
        let stamp = Stamp { run: 7, object: 4, seq: 9, intended_ns: u64::MAX };
        body.stamp(stamp);
        assert_eq!(body.bytes().len(), bytes);
        let json: Value = serde_json::from_slice(body.bytes()).expect("JSON");
        let text = |pointer| json.pointer(pointer).and_then(Value::as_str).expect("text");
        assert_eq!(Stamp::parse(text("/data/stamp").as_bytes()), Some(stamp));
        assert_eq!((text("/data/pad").len(), text("/metadata/labels/half")), (100, "odd"));
        let padded = |pad_bytes| Recipe { pad_bytes, ..Recipe::of_test("v1/pods/Pod", 5) }.body_of(4);
        let mut pod = padded(1234);
        pod.stamp(stamp);
        assert_eq!(pod.bytes().len(), padded(0).bytes().len() + 1234);
        let json: Value = serde_json::from_slice(pod.bytes()).expect("JSON");
        assert_eq!(json["spec"]["nodeName"], "node-4");
        assert_eq!(json["spec"]["containers"][0]["env"].as_array().map(Vec::len), Some(13));
        let text = json.pointer("/metadata/annotations/stamp").and_then(Value::as_str).expect("text");
        assert_eq!(Stamp::parse(text.as_bytes()), Some(stamp));
        assert_eq!(recipe.body_of(4).bytes(), recipe.body_of(4).bytes(), "the seed decides");
    }

    #[test]
    fn names_and_places() {
        assert_eq!(place_of("object-2", 3), Some(2));
        for other in ["object-3", "object-02", "object-", "kube-root-ca.crt"] {
            assert_eq!(place_of(other, 3), None, "{other}");
        }
    }
}
