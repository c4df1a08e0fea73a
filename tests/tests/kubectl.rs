//! kubectl, unchanged, if there is one on the PATH.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use revcast_tests::server::{Scratch, Server};
use serde_json::Value;

struct Kubectl {
    server: Server,
    home: Scratch,
}

impl Kubectl {
    /// `None` without kubectl.
    fn new(name: &str) -> Option<Self> {
        let found = Command::new("kubectl").args(["version", "--client"]).output();
        if !found.is_ok_and(|output| output.status.success()) {
            eprintln!("SKIPPED: no kubectl on the PATH, so that {name} tests nothing");
            return None;
        }
        Some(Self { server: Server::start(&[]), home: Scratch::new(name) })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command
            .env("HOME", self.home.path())
            .env("KUBECONFIG", "/dev/null")
            .args(["--server", &format!("http://{}", self.server.address)])
            .args(["--cache-dir", &format!("{}/cache", self.home.path())])
            .args(arguments);
        command
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).stdin(Stdio::null()).output().unwrap()
    }

    /// Its output; it must succeed without warnings.
    fn run(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {arguments:?}: {complaint}");
        assert!(
            complaint.is_empty() || complaint.starts_with("No resources"),
            "kubectl {arguments:?}: {complaint}"
        );
        String::from_utf8(output.stdout).unwrap()
    }

    fn with_input(&self, arguments: &[&str], input: &str) -> String {
        let mut child = self.command(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "kubectl {arguments:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// One that keeps running.
    fn follow(&self, arguments: &[&str]) -> Following {
        let mut child = self.command(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let following = Following { child, lines };
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.server.metric("revcast_watchers") == 0 {
            assert!(Instant::now() < deadline, "kubectl {arguments:?} does not watch");
            std::thread::sleep(Duration::from_millis(10));
        }
        following
    }
}

/// A kubectl that runs until it is dropped.
struct Following {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Following {
    fn line(&mut self) -> String {
        self.lines.next().expect("another line").unwrap()
    }

    /// The first words of the next line.
    fn words(&mut self, count: usize) -> Vec<String> {
        self.line().split_whitespace().take(count).map(str::to_owned).collect()
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn objects_come_change_and_go() {
    let Some(kubectl) = Kubectl::new("kubectl-objects") else { return };
    assert_eq!(
        kubectl.run(&["create", "configmap", "hello", "--from-literal=a=b"]),
        "configmap/hello created\n"
    );
    let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: file\n  labels: {app: web}\ndata: {k: v}\n---\n\
                    apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 2\n  selector: {matchLabels: {app: web}}\n  \
                    template:\n    metadata: {labels: {app: web}}\n    spec: {containers: [{name: c, image: i}]}\n";
    let made = kubectl.with_input(&["create", "-f", "-"], manifest);
    assert_eq!(made, "configmap/file created\ndeployment.apps/web created\n");
    assert_eq!(kubectl.run(&["label", "configmap", "hello", "app=web"]), "configmap/hello labeled\n");
    assert_eq!(kubectl.run(&["annotate", "configmap", "hello", "note=x"]), "configmap/hello annotated\n");
    kubectl.run(&["patch", "configmap", "hello", "--type", "merge", "-p", r#"{"data":{"a":"c"}}"#]);
    let patch = r#"[{"op":"add","path":"/data/d","value":"e"}]"#;
    assert_eq!(
        kubectl.run(&["patch", "configmap", "hello", "--type", "json", "-p", patch]),
        "configmap/hello patched\n"
    );
    let hello: Value =
        serde_json::from_str(&kubectl.run(&["get", "configmap", "hello", "-o", "json"])).unwrap();
    assert_eq!(hello["data"], serde_json::json!({"a": "c", "d": "e"}));
    assert_eq!(hello["metadata"]["labels"]["app"], "web");
    assert_eq!(hello["metadata"]["annotations"]["note"], "x");
    let table = kubectl.run(&["get", "configmaps", "-A", "-l", "app=web"]);
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().take(3).collect()).collect();
    assert_eq!(rows, [["NAMESPACE", "NAME", "DATA"], ["default", "file", "1"], ["default", "hello", "2"]]);
    assert!(kubectl.run(&["get", "deploy"]).lines().nth(1).unwrap().starts_with("web "));
    assert_eq!(
        kubectl.run(&["get", "cm", "--field-selector", "metadata.name=file", "-o", "name"]),
        "configmap/file\n"
    );
    let described = kubectl.run(&["describe", "configmap", "hello"]);
    assert!(described.contains("Name:         hello") && described.contains("a:\n----\nc\n"), "{described}");
    let resources = kubectl.run(&["api-resources"]);
    assert!(
        resources.lines().any(|line| line.starts_with("configmaps ") && line.contains(" cm ")),
        "{resources}"
    );
    assert!(kubectl.run(&["api-versions"]).lines().any(|line| line == "apps/v1"));
    let version = kubectl.output(&["version"]);
    assert!(String::from_utf8_lossy(&version.stdout).contains("Server Version: v1."));
    // Replaces the existing object.
    let mut changed = hello.clone();
    changed["data"]["a"] = "f".into();
    assert_eq!(
        kubectl.with_input(&["replace", "-f", "-"], &changed.to_string()),
        "configmap/hello replaced\n"
    );
    let gone = kubectl.output(&["get", "configmap", "none"]);
    assert_eq!(
        String::from_utf8_lossy(&gone.stderr),
        "Error from server (NotFound): configmaps \"none\" not found\n"
    );
    // Waits for the deletion, by a watch.
    let mut waiting = kubectl.follow(&["wait", "--for=delete", "configmap/hello", "--timeout=20s"]);
    assert_eq!(kubectl.run(&["delete", "configmap", "hello"]), "configmap \"hello\" deleted\n");
    assert_eq!(waiting.line(), "configmap/hello condition met");
    assert!(waiting.child.wait().unwrap().success());
    assert!(kubectl.run(&["delete", "configmaps", "--all"]).contains("\"file\" deleted"));
}

const WEB: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 2\n  \
                   selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec:\n      \
                   containers:\n      - {name: c, image: 'i:1', env: [{name: A, value: a}, {name: B, value: b}]}\n      \
                   - {name: side, image: 's:1'}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\n\
                   spec: {ports: [{port: 80}, {port: 443, name: tls}]}\n";

impl Kubectl {
    fn json(&self, arguments: &[&str]) -> Value {
        let arguments: Vec<&str> = arguments.iter().copied().chain(["-o", "json"]).collect();
        serde_json::from_str(&self.run(&arguments)).unwrap()
    }

    /// The containers of the deployment `web`.
    /// Without the members that a container stored in protobuf has always.
    fn containers(&self) -> Value {
        let mut deployment = self.json(&["get", "deploy", "web"]);
        let containers = deployment["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap();
        for container in &mut *containers {
            container.as_object_mut().unwrap().retain(|name, _| name != "resources");
        }
        containers.clone().into()
    }

    /// The same.
    fn ports(&self) -> Value {
        let mut service = self.json(&["get", "service", "web"]);
        let ports = service["spec"]["ports"].as_array_mut().unwrap();
        for port in &mut *ports {
            port.as_object_mut().unwrap().retain(|name, _| name != "targetPort");
        }
        ports.clone().into()
    }
}

#[test]
fn manifests_are_applied_and_edited() {
    let Some(kubectl) = Kubectl::new("kubectl-apply") else { return };
    let apply = ["apply", "-f", "-"];
    assert_eq!(kubectl.with_input(&apply, WEB), "deployment.apps/web created\nservice/web created\n");
    assert_eq!(kubectl.with_input(&apply, WEB), "deployment.apps/web unchanged\nservice/web unchanged\n");
    // Fields of others stay; fields that the manifest no longer has are removed.
    kubectl.run(&["patch", "deploy", "web", "--type", "merge", "-p", r#"{"spec":{"paused":true}}"#]);
    let changed = WEB.replace("i:1", "i:2").replace(", {name: B, value: b}", "").replace("443", "444");
    assert_eq!(
        kubectl.with_input(&apply, &changed),
        "deployment.apps/web configured\nservice/web configured\n"
    );
    let expected = serde_json::json!([{"name": "c", "image": "i:2", "env": [{"name": "A", "value": "a"}]},
        {"name": "side", "image": "s:1"}]);
    assert_eq!(kubectl.containers(), expected);
    assert_eq!(kubectl.json(&["get", "deploy", "web"])["spec"]["paused"], true);
    let ports = serde_json::json!([{"port": 80}, {"port": 444, "name": "tls"}]);
    assert_eq!(kubectl.ports(), ports);

    assert_eq!(
        kubectl.run(&["set", "image", "deploy/web", "side=s:2"]),
        "deployment.apps/web image updated\n"
    );
    kubectl.run(&["set", "env", "deploy/web", "-c", "c", "X=x", "A-"]);
    let mut edit = kubectl.command(&["edit", "deploy", "web"]);
    let edited = edit.env("EDITOR", "sed -i s/s:2/s:3/").stdin(Stdio::null()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&edited.stdout), "deployment.apps/web edited\n");
    let patch = r#"{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"i:3"}]}}}}"#;
    kubectl.run(&["patch", "deploy", "web", "-p", patch]);
    let expected = serde_json::json!([{"name": "c", "image": "i:3", "env": [{"name": "X", "value": "x"}]},
        {"name": "side", "image": "s:3"}]);
    assert_eq!(kubectl.containers(), expected);
    kubectl.run(&["rollout", "resume", "deploy", "web"]);
    kubectl.run(&["rollout", "restart", "deploy", "web"]);
    let gone = kubectl.with_input(&["delete", "-f", "-"], WEB);
    assert_eq!(gone, "deployment.apps \"web\" deleted\nservice \"web\" deleted\n");
}

#[test]
fn manifests_are_applied_by_the_server() {
    let Some(kubectl) = Kubectl::new("kubectl-server-side") else { return };
    let apply = ["apply", "--server-side", "-f", "-"];
    let applied = "deployment.apps/web serverside-applied\nservice/web serverside-applied\n";
    assert_eq!(kubectl.with_input(&apply, WEB), applied);
    let version = |kind| kubectl.json(&["get", kind, "web"])["metadata"]["resourceVersion"].clone();
    let versions = [version("deploy"), version("service")];
    assert_eq!(kubectl.with_input(&apply, WEB), applied);
    assert_eq!([version("deploy"), version("service")], versions, "the same again is not written");
    let changed = WEB.replace("i:1", "i:2").replace(", {name: B, value: b}", "").replace("443", "444");
    assert_eq!(kubectl.with_input(&apply, &changed), applied);
    let expected = serde_json::json!([{"name": "c", "image": "i:2", "env": [{"name": "A", "value": "a"}]},
        {"name": "side", "image": "s:1"}]);
    assert_eq!(kubectl.containers(), expected);
    let ports = serde_json::json!([{"port": 80}, {"port": 444, "name": "tls"}]);
    assert_eq!(kubectl.ports(), ports);
    // Another manager with another image: a conflict, unless it forces.
    let other = [&apply[..], &["--field-manager=other"]].concat();
    let mut child = kubectl.command(&other);
    let mut child =
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(WEB.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    let conflict = "Apply failed with 1 conflict: conflict with \"kubectl\": .spec.template.spec.containers[name=\"c\"].image";
    assert!(!output.status.success() && complaint.contains(conflict), "{complaint}");
    assert_eq!(kubectl.containers(), expected);
    let forced = [&other[..], &["--force-conflicts"]].concat();
    assert_eq!(kubectl.with_input(&forced, WEB), applied);
    assert_eq!(kubectl.containers()[0]["image"], "i:1");
}

#[test]
fn nodes_are_tainted_and_cordoned() {
    let Some(kubectl) = Kubectl::new("kubectl-nodes") else { return };
    kubectl.with_input(&["create", "-f", "-"], "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n");
    assert_eq!(kubectl.run(&["taint", "node", "n1", "k=v:NoSchedule"]), "node/n1 tainted\n");
    assert_eq!(kubectl.run(&["taint", "node", "n1", "l=w:NoExecute"]), "node/n1 tainted\n");
    assert_eq!(kubectl.run(&["taint", "node", "n1", "k-"]), "node/n1 untainted\n");
    assert_eq!(kubectl.run(&["cordon", "n1"]), "node/n1 cordoned\n");
    let spec = kubectl.json(&["get", "node", "n1"])["spec"].clone();
    let taint = serde_json::json!({"key": "l", "value": "w", "effect": "NoExecute"});
    assert_eq!(spec, serde_json::json!({"taints": [taint], "unschedulable": true}));
    assert_eq!(kubectl.run(&["uncordon", "n1"]), "node/n1 uncordoned\n");
}

#[test]
fn watching() {
    let Some(kubectl) = Kubectl::new("kubectl-watching") else { return };
    let client = kubectl.server.client();
    let pods = "/api/v1/namespaces/default/pods";
    let pod = serde_json::json!({"metadata": {"name": "p1"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(client.send("POST", pods, &pod).status, 201);
    {
        let mut following = kubectl.follow(&["get", "pods", "-o", "wide", "-w"]);
        assert_eq!(following.words(4), ["NAME", "READY", "STATUS", "RESTARTS"]);
        assert_eq!(following.words(3), ["p1", "0/1", "Pending"]);
        let bound = serde_json::json!({"spec": {"nodeName": "node-7"}});
        assert_eq!(client.patch(&format!("{pods}/p1"), "merge-patch", &bound).status, 200);
        let line = following.line();
        assert!(line.starts_with("p1 ") && line.contains("Pending") && line.contains("node-7"), "{line}");
        let running = serde_json::json!({"status": {"phase": "Running"}});
        assert_eq!(client.patch(&format!("{pods}/p1/status"), "merge-patch", &running).status, 200);
        let line = following.line();
        assert!(line.starts_with("p1 ") && line.contains("Running") && line.contains("node-7"), "{line}");
        assert_eq!(client.request("DELETE", &format!("{pods}/p1"), &[], &[]).status, 200);
        assert_eq!(following.words(1), ["p1"]);
    }
    kubectl.server.wait_for_metric("revcast_watchers", 0);
    {
        let mut following = kubectl.follow(&["get", "configmaps", "-w", "--output-watch-events"]);
        kubectl.run(&["create", "configmap", "one", "--from-literal=a=b"]);
        assert_eq!(following.words(3), ["EVENT", "NAME", "DATA"]);
        assert_eq!(following.words(3), ["ADDED", "one", "1"]);
        kubectl.run(&["label", "configmap", "one", "x=y"]);
        assert_eq!(following.words(3), ["MODIFIED", "one", "1"]);
        kubectl.run(&["delete", "configmap", "one"]);
        assert_eq!(following.words(3), ["DELETED", "one", "1"]);
    }
    kubectl.server.wait_for_metric("revcast_watchers", 0);
    let raw = "/api/v1/configmaps?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    let mut following = kubectl.follow(&["get", "--raw", raw]);
    kubectl.run(&["create", "configmap", "two"]);
    let event: Value = serde_json::from_str(&following.line()).unwrap();
    assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&"ADDED".into(), &"two".into()));
}
