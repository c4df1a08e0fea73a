//! Real clients: curl and kubectl, if they are installed.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use super::*;

/// Ends a client process with the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn curl_in_both_versions() {
    if !is_there("curl", &["--version"]) {
        return;
    }
    let stand = Stand::new("tls-curl", true, &[]);
    write(&stand.client(), 300, 2000);
    let ca = stand.authority.certificate();
    let curl = |more: &[&str]| {
        let mut command = Command::new("curl");
        command.args(["-sS", "--max-time", "20", "--cacert"]).arg(&ca).args(more);
        command
    };
    let identity = stand.authority.client("anna");
    for version in [&["--tlsv1.2", "--tls-max", "1.2"], &["--tlsv1.3", "--tls-max", "1.3"]] {
        // Two requests on one connection, by ALPN.
        let url = format!("{}{PATH}", stand.url());
        let output = curl(version).args(["-v", &url, &url]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("server accepted h2"), "{said}");
        assert!(said.contains("Re-using existing connection"), "{said}");
        assert_eq!(String::from_utf8_lossy(&output.stdout).matches(r#""name": "n"#).count(), 600);
        let output = curl(version)
            .args(["--cert".as_ref(), identity.cert.as_os_str(), "--key".as_ref(), identity.key.as_os_str()])
            .arg(&url)
            .output()
            .unwrap();
        assert!(output.status.success(), "with a certificate: {}", String::from_utf8_lossy(&output.stderr));
        // A watch that ends cleanly: curl reports one that is cut off.
        let output = curl(version).args(["-N", &format!("{url}?watch=1&timeoutSeconds=1")]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 300);
    }
    let plain = Command::new("curl").args(["-sS", &format!("{}/version", stand.url())]).output().unwrap();
    assert!(!plain.status.success(), "no CA vouches for it");
}

#[test]
fn kubectl_with_a_kubeconfig() {
    if !is_there("kubectl", &["version", "--client"]) {
        return;
    }
    let stand = Stand::new("tls-kubectl", true, &[]);
    let identity = stand.authority.client("anna");
    let config = Path::new(stand.scratch.path()).join("kubeconfig");
    let text = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {
            "server": stand.url(), "certificate-authority": stand.authority.certificate()}}],
        "users": [{"name": "u", "user": {
            "client-certificate": identity.cert, "client-key": identity.key}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "s"}}],
        "current-context": "x",
    });
    std::fs::write(&config, text.to_string()).unwrap();
    let kubectl = |arguments: &[&str]| {
        let mut command = Command::new("kubectl");
        command.env("HOME", stand.scratch.path()).env("KUBECONFIG", &config).args(arguments);
        command
    };
    let mut watch = kubectl(&["get", "configmaps", "-w", "-o", "name"]);
    let mut watch = Ends(watch.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(watch.0.stdout.take().unwrap()).lines();
    stand.server.wait_for_metric("revcast_watchers", 1);
    let output = kubectl(&["create", "configmap", "hello", "--from-literal=a=b"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(lines.next().unwrap().unwrap(), "configmap/hello");
    let output = kubectl(&["get", "configmap", "hello", "-o", "jsonpath={.data.a}"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "b");
}
