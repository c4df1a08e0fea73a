//! The deletion of pods: when a pod is deleted at once and when it stays marked (Kubernetes
//! `pkg/registry/core/pod/strategy.go`).

use revcast_tests::server::Server;
use serde_json::{Value, json};

use crate::{newest, post, revision, told};

const PODS: &str = "/api/v1/namespaces/t/pods";

/// A pod, the query of its DELETE, and the grace with which it stays; `None`: it is deleted.
fn rows() -> Vec<(&'static str, Value, Value, &'static str, Option<i64>)> {
    let spec = |node: &str, grace: Value| json!({"nodeName": node, "terminationGracePeriodSeconds": grace});
    vec![
        ("unbound", spec("", json!(30)), json!({}), "", None),
        ("unbound-asked", spec("", json!(30)), json!({}), "gracePeriodSeconds=30", None),
        ("no-grace", json!({"nodeName": "n"}), json!({}), "", None),
        ("runs", spec("n", json!(30)), json!({}), "", Some(30)),
        ("zero", spec("n", json!(0)), json!({}), "", None),
        ("forced", spec("n", json!(30)), json!({}), "gracePeriodSeconds=0", None),
        ("asked", spec("n", json!(30)), json!({}), "gracePeriodSeconds=7", Some(7)),
        ("negative", spec("n", json!(30)), json!({}), "gracePeriodSeconds=-5", Some(1)),
        ("failed", spec("n", json!(30)), json!({"phase": "Failed"}), "", None),
        ("succeeded", spec("n", json!(30)), json!({"phase": "Succeeded"}), "gracePeriodSeconds=9", None),
        ("running", spec("n", json!(2)), json!({"phase": "Running"}), "", Some(2)),
    ]
}

#[test]
fn some_go_at_once_and_some_are_waited_for() {
    let server = Server::start(&[]);
    let client = server.client();
    for (name, spec, status, query, stays) in rows() {
        let mut made = post(&client, PODS, &json!({"metadata": {"name": name}, "spec": spec}));
        if status != json!({}) {
            let status = json!({"status": status});
            made = client.patch(&format!("{PODS}/{name}/status"), "merge-patch", &status).json();
        }
        let start = revision(&made);
        let one = format!("{PODS}/{name}");
        let dry = client.request("DELETE", &format!("{one}?dryRun=All&{query}"), &[], &[]);
        assert_eq!((dry.status, &dry.json()["metadata"]["name"]), (200, &json!(name)), "{name}");
        assert_eq!(newest(&client), start, "{name}: a dry run writes nothing");
        let gone = client.request("DELETE", &format!("{one}?{query}"), &[], &[]);
        let shown = gone.json();
        assert_eq!((gone.status, &shown["kind"]), (200, &json!("Pod")), "{name}: {shown}");
        assert_eq!(shown["metadata"]["deletionGracePeriodSeconds"], stays.unwrap_or(0), "{name}");
        assert!(shown["metadata"]["deletionTimestamp"].is_string(), "{name}");
        assert_eq!(shown["metadata"]["generation"], 2, "{name}: to go is another wish");
        let mut watch = client.watch(&format!("{PODS}?watch=1&resourceVersion={start}")).unwrap();
        let mut expected = vec![format!("MODIFIED {name}")];
        if let Some(grace) = stays {
            assert_eq!(client.get(&one).json(), shown, "{name}");
            // Again: no change. A longer grace: no change. A shorter one counts; then the component that runs it ends
            // it.
            assert_eq!(
                client.request("DELETE", &format!("{one}?gracePeriodSeconds={grace}"), &[], &[]).json(),
                shown
            );
            assert_eq!(
                client.request("DELETE", &format!("{one}?gracePeriodSeconds=100"), &[], &[]).json(),
                shown
            );
            // Another write of that component does not end it.
            let label = json!({"metadata": {"labels": {"still": "here"}}});
            let labelled = client.patch(&one, "merge-patch", &label);
            assert_eq!((labelled.status, client.get(&one).json()), (200, labelled.json()), "{name}");
            expected.push(format!("MODIFIED {name}"));
            if grace > 1 {
                let sooner =
                    client.request("DELETE", &format!("{one}?gracePeriodSeconds=1"), &[], &[]).json();
                assert_eq!(sooner["metadata"]["deletionGracePeriodSeconds"], 1);
                assert_eq!(sooner["metadata"]["generation"], 2);
                expected.push(format!("MODIFIED {name}"));
            }
            assert_eq!(
                client.request("DELETE", &format!("{one}?gracePeriodSeconds=0"), &[], &[]).status,
                200
            );
            expected.push(format!("MODIFIED {name}"));
        }
        expected.push(format!("DELETED {name}"));
        assert_eq!(client.get(&one).status, 404, "{name}");
        let events = watch.events(expected.len());
        assert_eq!(events.iter().map(told).collect::<Vec<_>>(), expected, "{name}");
        assert_eq!(revision(&events.last().unwrap().1), newest(&client));
    }
}

#[test]
fn conditions_hold_to_the_end() {
    let server = Server::start(&[]);
    let client = server.client();
    let made = post(&client, PODS, &json!({"metadata": {"name": "p"}, "spec": {}}));
    let one = format!("{PODS}/p");
    let when = |version: &str| json!({"preconditions": {"uid": made["metadata"]["uid"], "resourceVersion": version}});
    assert_eq!(client.send("DELETE", &one, &when("1")).status, 409);
    let right = made["metadata"]["resourceVersion"].as_str().unwrap();
    assert_eq!(client.send("DELETE", &one, &when(right)).status, 200, "its own mark is no other's change");
    assert_eq!(client.get(&one).status, 404);
    // With finalizers it stays, however short the grace.
    let held =
        json!({"metadata": {"name": "held", "finalizers": ["example.com/a"]}, "spec": {"nodeName": "n"}});
    post(&client, PODS, &held);
    let gone = client.request("DELETE", &format!("{PODS}/held?gracePeriodSeconds=0"), &[], &[]);
    assert_eq!(gone.json()["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(client.get(&format!("{PODS}/held")).json(), gone.json());
    let free =
        client.patch(&format!("{PODS}/held"), "merge-patch", &json!({"metadata": {"finalizers": null}}));
    assert_eq!((free.status, client.get(&format!("{PODS}/held")).status), (200, 404));
    // A collection follows the same rules.
    for (name, node) in [("one", ""), ("two", "n")] {
        let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": node, "terminationGracePeriodSeconds": 30}});
        post(&client, PODS, &pod);
    }
    assert_eq!(client.request("DELETE", PODS, &[], &[]).status, 200);
    assert_eq!(crate::names(&client.get(PODS).json()), "two");
    assert_eq!(client.request("DELETE", &format!("{PODS}?gracePeriodSeconds=0"), &[], &[]).status, 200);
    assert_eq!(crate::names(&client.get(PODS).json()), "");
}
