//! `fieldSelector` (apimachinery `pkg/fields`): its grammar, and the fields of each type.

use revcast_tests::server::Server;
use serde_json::{Value, json};

use crate::{MAPS, assert_failure, escaped, initial_names, map, names, newest, post};

const SELECTED: &[(&str, &str)] = &[
    ("", "a b c"),
    (",", "a b c"),
    (",,metadata.name=a,", "a"),
    ("metadata.name=a", "a"),
    ("metadata.name==a", "a"),
    ("metadata.name!=a", "b c"),
    ("metadata.name=a,metadata.name=a", "a"),
    ("metadata.name=a,metadata.name=b", ""),
    ("metadata.name=a,metadata.name!=a", ""),
    ("metadata.name!=a,metadata.name!=b", "c"),
    ("metadata.name=", ""),
    ("metadata.name!=", "a b c"),
    ("metadata.name= a", ""),
    ("metadata.name=A", ""),
    ("metadata.namespace=t", "a b c"),
    ("metadata.namespace=u", ""),
    ("metadata.namespace!=u", "a b c"),
    ("metadata.name=a,metadata.namespace=t", "a"),
    ("metadata.name=a,metadata.namespace=u", ""),
    (r"metadata.name=a\,b", ""),
    (r"metadata.name=a\=b", ""),
    (r"metadata.name!=a\\b", "a b c"),
];

const REFUSED: &[(&str, &str)] = &[
    ("nonsense", "invalid selector: 'nonsense'; can't understand 'nonsense'"),
    ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
    ("metadata.name>a", "invalid selector: 'metadata.name>a'; can't understand 'metadata.name>a'"),
    (
        "metadata.name in (a)",
        "invalid selector: 'metadata.name in (a)'; can't understand 'metadata.name in (a)'",
    ),
    ("metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
    ("metadata.name===a", "invalid field selector: unescaped character in value: 61"),
    (r"metadata.name=a\", r"invalid field selector: invalid escape sequence: \"),
    (r"metadata.name=\a", r"invalid field selector: invalid escape sequence: \a"),
    ("data.k=v", "\"data.k\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""),
    ("data.k!=v", "\"data.k\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""),
    ("=v", "\"\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""),
    (
        " metadata.name=a",
        "\" metadata.name\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
    ),
    (
        "metadata.uid=x",
        "\"metadata.uid\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
    ),
];

#[test]
fn grammar() {
    let server = Server::start(&[]);
    let client = server.client();
    let start = newest(&client);
    for name in ["a", "b", "c"] {
        post(&client, MAPS, &map(name, &json!({})));
    }
    let query = format!("watch=1&resourceVersion={start}&timeoutSeconds=1");
    let replayed: Vec<_> = SELECTED
        .iter()
        .map(|(selector, _)| {
            client.watch(&format!("{MAPS}?{query}&fieldSelector={}", escaped(selector))).unwrap()
        })
        .collect();
    for (selector, expected) in SELECTED {
        let path = format!("{MAPS}?fieldSelector={}", escaped(selector));
        assert_eq!(names(&client.get(&path).json()), *expected, "LIST {selector:?}");
        assert_eq!(initial_names(&client, &path), *expected, "WATCH {selector:?}");
        let gone = client.request("DELETE", &format!("{path}&dryRun=All"), &[], &[]).json();
        assert_eq!(names(&gone), *expected, "DELETE {selector:?}");
    }
    for ((selector, expected), mut watch) in SELECTED.iter().zip(replayed) {
        let events = watch.rest();
        let seen: Vec<&str> =
            events.iter().map(|(_, object)| object["metadata"]["name"].as_str().unwrap()).collect();
        assert_eq!(seen.join(" "), *expected, "replayed {selector:?}");
    }
    for (selector, message) in REFUSED {
        let path = format!("{MAPS}?fieldSelector={}", escaped(selector));
        for (method, path) in
            [("GET", path.clone()), ("GET", format!("{path}&watch=1")), ("DELETE", path.clone())]
        {
            let reply = client.request(method, &path, &[], &[]);
            assert_failure(&reply, (400, "BadRequest", message), "", selector);
        }
    }
    let seen: Vec<String> = ["a", "b"]
        .iter()
        .map(|name| names(&client.get(&format!("{MAPS}?fieldSelector=metadata.name={name}")).json()))
        .collect();
    assert_eq!(seen, ["a", "b"], "the first = ends the parameter's name, others stand for themselves");
}

/// A type: the path of its objects, an object with all fields and one without, and for each field a selector that
/// matches the first only and one that matches the second only.
/// means the first only and one that means the second only.
struct Type {
    path: &'static str,
    full: Value,
    bare: Value,
    fields: &'static [(&'static str, &'static str)],
}

fn types() -> Vec<Type> {
    let object = |name: &str, mut rest: Value| {
        rest["metadata"] = json!({"name": name});
        rest
    };
    let of = |path, full, bare, fields| Type {
        path,
        full: object("full", full),
        bare: object("bare", bare),
        fields,
    };
    vec![
        of(
            "/api/v1/namespaces/t/pods",
            json!({"spec": {"nodeName": "n1", "restartPolicy": "Never", "schedulerName": "mine", "serviceAccountName": "sa", "hostNetwork": true},
                "status": {"phase": "Running", "podIP": "10.0.0.1", "nominatedNodeName": "n2"}}),
            json!({"spec": {}}),
            &[
                ("spec.nodeName=n1", "spec.nodeName="),
                ("spec.host=n1", "spec.host!=n1"),
                ("spec.host=n1,spec.nodeName=n1", "spec.host=,spec.nodeName="),
                ("spec.restartPolicy=Never", "spec.restartPolicy=Always"),
                ("spec.schedulerName=mine", "spec.schedulerName=default-scheduler"),
                ("spec.serviceAccountName=sa", "spec.serviceAccountName="),
                ("spec.hostNetwork=true", "spec.hostNetwork=false"),
                ("status.phase=Running", "status.phase=Pending"),
                ("status.podIP=10.0.0.1", "status.podIP="),
                ("status.podIPs=,spec.nodeName=n1", "status.podIPs!=x,status.podIP="),
                ("status.nominatedNodeName=n2", "status.nominatedNodeName="),
                ("metadata.name=full,metadata.namespace=t", "metadata.namespace=t,metadata.name!=full"),
            ],
        ),
        of(
            "/api/v1/nodes",
            json!({"spec": {"unschedulable": true}}),
            json!({}),
            &[
                ("spec.unschedulable=true", "spec.unschedulable=false"),
                ("spec.unschedulable!=false", "spec.unschedulable!=true"),
                ("metadata.name=full", "metadata.name=bare"),
            ],
        ),
        of(
            "/api/v1/namespaces/t/secrets",
            json!({"type": "example.com/x"}),
            json!({}),
            &[("type=example.com/x", "type=Opaque")],
        ),
        of(
            "/api/v1/namespaces",
            json!({"status": {"phase": "Terminating"}}),
            json!({}),
            &[("status.phase=Terminating", "status.phase=Active")],
        ),
        of(
            "/api/v1/namespaces/t/services",
            json!({"spec": {"clusterIP": "None", "type": "NodePort"}}),
            json!({}),
            &[("spec.clusterIP=None", "spec.clusterIP="), ("spec.type=NodePort", "spec.type=ClusterIP")],
        ),
        of(
            "/api/v1/namespaces/t/events",
            json!({"involvedObject": {"kind": "Pod", "namespace": "t", "name": "p", "uid": "u", "apiVersion": "v1", "resourceVersion": "7", "fieldPath": "spec"},
                "reason": "Started", "reportingComponent": "kubelet", "type": "Normal"}),
            json!({"source": {"component": "other"}}),
            &[
                ("involvedObject.kind=Pod", "involvedObject.kind="),
                ("involvedObject.namespace=t", "involvedObject.namespace!=t"),
                ("involvedObject.name=p", "involvedObject.name="),
                ("involvedObject.uid=u", "involvedObject.uid="),
                ("involvedObject.apiVersion=v1", "involvedObject.apiVersion="),
                ("involvedObject.resourceVersion=7", "involvedObject.resourceVersion="),
                ("involvedObject.fieldPath=spec", "involvedObject.fieldPath="),
                ("reason=Started", "reason="),
                ("reportingComponent=kubelet", "reportingComponent="),
                ("source=kubelet", "source=other"),
                ("type=Normal", "type!=Normal"),
                (
                    "involvedObject.name=p,involvedObject.namespace=t,involvedObject.kind=Pod,involvedObject.uid=u",
                    "source=other,type=",
                ),
            ],
        ),
        of(
            "/api/v1/namespaces/t/replicationcontrollers",
            json!({"status": {"replicas": 3}}),
            json!({}),
            &[("status.replicas=3", "status.replicas=0")],
        ),
        of(
            "/apis/batch/v1/namespaces/t/jobs",
            json!({"status": {"succeeded": 2}}),
            json!({}),
            &[("status.successful=2", "status.successful=0")],
        ),
        of(
            "/apis/certificates.k8s.io/v1/certificatesigningrequests",
            json!({"spec": {"signerName": "example.com/signer"}}),
            json!({}),
            &[("spec.signerName=example.com/signer", "spec.signerName=")],
        ),
        of(
            "/apis/resource.k8s.io/v1/resourceslices",
            json!({"spec": {"nodeName": "n1", "driver": "d"}}),
            json!({}),
            &[("spec.nodeName=n1", "spec.nodeName="), ("spec.driver=d", "spec.driver!=d")],
        ),
        of(
            "/apis/example.com/v1/namespaces/t/widgets",
            json!({"spec": {"color": "red"}}),
            json!({}),
            &[("metadata.name=full", "metadata.name!=full")],
        ),
    ]
}

#[test]
fn fields_of_each_type() {
    let server = Server::start(&["--resource", "example.com/v1/widgets/Widget/namespaced"]);
    let client = server.client();
    for kind in types() {
        let (full, bare) = (&kind.full, &kind.bare);
        let start = newest(&client);
        post(&client, kind.path, bare);
        post(&client, kind.path, full);
        if full["status"].is_object() {
            let status = format!("{}/full/status", kind.path);
            assert_eq!(client.send("PUT", &status, full).status, 200, "{status}");
        }
        for (of_full, of_bare) in kind.fields {
            for (selector, expected) in [(of_full, "full"), (of_bare, "bare")] {
                let path = format!("{}?fieldSelector={}", kind.path, escaped(selector));
                let list = client.get(&path);
                assert_eq!((list.status, names(&list.json()).as_str()), (200, expected), "{path}");
                assert_eq!(initial_names(&client, &path), expected, "{path}");
                let mut watch = client.watch(&format!("{path}&watch=1&resourceVersion={start}")).unwrap();
                let (_, object) = watch.next_event();
                assert_eq!(object["metadata"]["name"], expected, "replayed {path}");
            }
        }
        // Fields that the type does not have, in its error text.
        let listed = kind.path.contains("widgets")
            || kind.fields.iter().any(|(field, _)| !field.starts_with("metadata"));
        assert!(listed, "{}", kind.path);
        for watch in ["", "&watch=true"] {
            let reply = client.get(&format!("{}?fieldSelector=spec.foo%3Dbar{watch}", kind.path));
            let failure = (400, "BadRequest", "field label not supported: spec.foo");
            assert_failure(&reply, failure, "", kind.path);
        }
    }
    // Resources without namespaces and own fields accept metadata.namespace, those with a list of fields do not.
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    post(&client, roles, &json!({"metadata": {"name": "system:x"}}));
    assert_eq!(
        names(&client.get(&format!("{roles}?fieldSelector=metadata.namespace%3D")).json()),
        "system:x"
    );
    assert_eq!(names(&client.get(&format!("{roles}?fieldSelector=metadata.namespace%3Dt")).json()), "");
    let nodes = client.get("/api/v1/nodes?fieldSelector=metadata.namespace%3D");
    assert_failure(&nodes, (400, "BadRequest", "field label not supported: metadata.namespace"), "", "nodes");
    let sets = "/apis/apps/v1/namespaces/t/statefulsets";
    post(&client, sets, &json!({"metadata": {"name": "s"}}));
    assert_eq!(names(&client.get(&format!("{sets}?fieldSelector=status.successful%3D")).json()), "s");
}
