//! The Helm chart, judged: Helm lints and renders it with several sets of values, revcast reads the arguments of each, and a
//! server decodes each object strictly as its kind. The manifest beside the chart is made of it.
//!
//! Helm and kubectl come out of one package of PyPI. Nothing is installed into a cluster: there is none.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::kubectl_packages as packages;
use crate::packages::files;
use crate::place;
use crate::server::Server;

/// The minor version of the kubectl, and of the package with this helm.
const MINOR: u32 = 37;

/// The set of values that the manifest is made with.
const PLAIN: &str = "default";

/// What ends the name of a file with values, as chart-testing has it.
const VALUES: &str = "-values.yaml";

/// Lines of a rendered object that only Helm needs.
const OF_HELM: [&str; 3] = ["# Source: ", "app.kubernetes.io/managed-by: ", "helm.sh/chart: "];

/// A text that a set of values must be rendered to, or must not.
const RENDERED: [(&str, &str, bool); 17] = [
    ("default", "kind: NetworkPolicy\n", true),
    ("default", "kind: PodDisruptionBudget\n", true),
    ("default", "name: system:auth-delegator\n", true),
    ("default", "name: extension-apiserver-authentication-reader\n", true),
    // Rights by names of roles alone.
    ("default", "rules:\n", false),
    ("default", "0.0.0.0:8081", false),
    ("impersonate", "resources: [users, groups, serviceaccounts]\n", true),
    ("impersonate", "userextras/*\"", false),
    ("front-proxy", "secretName: my-front-proxy,", true),
    ("front-proxy", "rules:\n", false),
    ("local", "kind: ClusterRoleBinding\n", false),
    ("local", "--upstream", false),
    ("local", "port: 22379", true),
    ("own-names", "secretName: revcast", false),
    ("own-names", "localhostProfile", false),
    ("no-network-policy", "kind: NetworkPolicy\n", false),
    ("no-network-policy", "kind: PodDisruptionBudget\n", false),
];

/// Values that are refused, beside those of [`PLAIN`], and what must be said about them.
const REFUSED: [(&str, &str); 11] = [
    ("etcd.endpoints=null", "etcd.endpoints is empty: give"),
    ("etcd.endpoints={etcd:2379}", "is no URL of a host and a port"),
    ("etcd.secretName=", "etcd.secretName is empty"),
    ("tls.secretName=", "tls.secretName is empty"),
    ("upstream.url=", "upstream.url is empty"),
    (
        "upstream.identity=front-proxy,upstream.frontProxySecretName=",
        "upstream.frontProxySecretName is empty",
    ),
    ("upstream.identity=nobody", "'client', 'impersonate', 'front-proxy'"),
    (
        "authentication.mode=local,authentication.tokensSecretName=",
        "authentication.tokensSecretName is empty",
    ),
    (
        "authorization.mode=local,authorization.rulesConfigMapName=",
        "authorization.rulesConfigMapName is empty",
    ),
    ("metrics.enabled=true", "metrics.from"),
    ("replica=3", "additional properties 'replica' not allowed"),
];

/// Judges the chart and the manifest, or makes the manifest again. Says whether all is well.
pub(crate) fn check(keep: bool) -> bool {
    let done = Chart::find().and_then(|chart| if keep { chart.keep() } else { chart.judge() });
    if let Err(problem) = &done {
        println!("{problem}\nrepeat: cargo xtask helm");
    }
    done.is_ok()
}

/// The chart, and what judges it.
#[derive(Debug)]
struct Chart {
    helm: PathBuf,
    kubectl: PathBuf,
    revcast: PathBuf,
    folder: PathBuf,
    /// The rendered objects, for a look afterwards.
    rendered: PathBuf,
}

impl Chart {
    fn find() -> Result<Self, String> {
        let rendered = place::target().join("helm");
        fs::create_dir_all(&rendered).map_err(|error| format!("{}: {error}", rendered.display()))?;
        Ok(Self {
            helm: packages::helm(MINOR)?,
            kubectl: packages::kubectl(MINOR)?,
            revcast: place::binary("release", "revcast", "REVCAST_BIN"),
            folder: place::root().join("server/ops/helm/revcast"),
            rendered,
        })
    }

    fn judge(&self) -> Result<(), String> {
        if !self.revcast.is_file() {
            let revcast = self.revcast.display();
            return Err(format!("there is no {revcast}; run cargo xtask ci --only release"));
        }
        // It decodes into the types of protobuf: what a type does not have is refused.
        let server = Server::start(None, "protobuf", &[])?;
        let sets = self.sets()?;
        for (name, values) in &sets {
            self.lint(values).map_err(|problem| format!("{name}: {problem}"))?;
            let text = self.render(&["--values", &values.to_string_lossy()])?;
            expected(name, &text)?;
            self.read_arguments(&text).map_err(|problem| format!("{name}: {problem}"))?;
            let objects = self.decode(&server, name, &text)?;
            println!("{name}: {objects} objects");
        }
        for (name, text, _) in RENDERED {
            if !sets.iter().any(|(set, _)| set == name) {
                return Err(format!("{name}: no such set of values, which should say `{}`", text.trim()));
            }
        }
        self.refuse()?;
        self.notice_a_mistake(&server)?;
        self.compare()
    }

    /// The files with values, by their names.
    fn sets(&self) -> Result<Vec<(String, PathBuf)>, String> {
        let mut sets: Vec<(String, PathBuf)> = files(&self.folder.join("ci"))?
            .into_iter()
            .filter_map(|path| Some((path.file_name()?.to_str()?.strip_suffix(VALUES)?.to_owned(), path)))
            .collect();
        sets.sort();
        Ok(sets)
    }

    fn helm(&self, command: &str, arguments: &[&str]) -> Result<Output, String> {
        let mut helm = Command::new(&self.helm);
        // Nothing of the user's: no plugins, no repositories.
        for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            helm.env(variable, self.rendered.join("home"));
        }
        output(helm.arg(command).args(arguments))
    }

    fn lint(&self, values: &Path) -> Result<(), String> {
        let (folder, values) = (self.folder.to_string_lossy(), values.to_string_lossy());
        said(&self.helm("lint", &["--strict", &folder, "--values", &values])?).map(drop)
    }

    fn render(&self, arguments: &[&str]) -> Result<String, String> {
        let folder = self.folder.to_string_lossy();
        let release = ["revcast", &folder, "--namespace", "revcast"];
        said(&self.helm("template", &[&release, arguments].concat())?)
    }

    fn plain_values(&self) -> String {
        self.folder.join("ci").join(format!("{PLAIN}{VALUES}")).to_string_lossy().into_owned()
    }

    /// revcast knows each option of the container, and takes its value.
    fn read_arguments(&self, text: &str) -> Result<(), String> {
        let arguments = arguments(text);
        if arguments.is_empty() {
            return Err("no argument of the container was found".to_owned());
        }
        // Variables with its prefix are options of it.
        said(&output(Command::new(&self.revcast).env_clear().arg("config").args(&arguments))?).map(drop)
    }

    /// How many objects there are; the server decodes each as its kind, or says what is wrong.
    fn decode(&self, server: &Server, name: &str, text: &str) -> Result<usize, String> {
        let path = self.rendered.join(format!("{name}.yaml"));
        fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        let create = ["create", "--dry-run=server", "--validate=strict", "--output=name", "--filename"];
        let mut kubectl = Command::new(&self.kubectl);
        kubectl.env("KUBECONFIG", "/dev/null").args(["--server", &server.url(), "--cache-dir"]);
        kubectl.arg(self.rendered.join("cache")).args(create).arg(&path);
        let named = said(&output(&mut kubectl)?).map_err(|problem| format!("{name}: {problem}"))?;
        let (objects, written) = (named.lines().count(), kinds(text));
        if objects == written {
            Ok(objects)
        } else {
            Err(format!("{name}: {written} objects are rendered, and {objects} were decoded"))
        }
    }

    fn refuse(&self) -> Result<(), String> {
        for (values, expected) in REFUSED {
            let Err(said) = self.render(&["--values", &self.plain_values(), "--set", values]) else {
                return Err(format!("{values}: it is rendered, and should be refused"));
            };
            if !said.contains(expected) {
                return Err(format!("{values}: it should say `{expected}`, and says: {said}"));
            }
        }
        println!("{} values are refused as they should be", REFUSED.len());
        Ok(())
    }

    /// The server that judges refuses a member that is misspelt.
    fn notice_a_mistake(&self, server: &Server) -> Result<(), String> {
        let (right, wrong) = ("readOnlyRootFilesystem", "readOnlyRootFileSystem");
        let text = self.render(&["--values", &self.plain_values()])?.replace(right, wrong);
        match self.decode(server, "misspelt", &text) {
            Err(said) if said.contains(&format!("{wrong}\"")) => Ok(()),
            Err(said) => Err(format!("{wrong} should be named, but: {said}")),
            Ok(_) => Err(format!("a pod with {wrong} is taken: nothing was judged")),
        }
    }

    /// The manifest, whose comment at its begin is kept.
    fn manifest(&self) -> Result<(PathBuf, String, String), String> {
        let path = place::root().join("server/ops/kubernetes.yaml");
        let is = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let objects = without_helm(&self.render(&["--values", &self.plain_values()])?);
        let should = format!("{}\n{objects}", head(&is));
        Ok((path, is, should))
    }

    fn compare(&self) -> Result<(), String> {
        let (path, is, should) = self.manifest()?;
        if is == should {
            return Ok(());
        }
        let line = is.lines().zip(should.lines()).take_while(|(is, should)| is == should).count() + 1;
        let path = path.display();
        Err(format!("{path}:{line}: not what the chart renders; run cargo xtask helm --keep"))
    }

    fn keep(&self) -> Result<(), String> {
        let (path, _, should) = self.manifest()?;
        println!("{}", path.display());
        fs::write(&path, should).map_err(|error| format!("cannot write {}: {error}", path.display()))
    }
}

fn output(command: &mut Command) -> Result<Output, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).output().map_err(|error| format!("{program} does not start: {error}"))
}

/// What it printed, or what it complained about.
fn said(output: &Output) -> Result<String, String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    Err(format!("{}{}", text(&output.stdout), text(&output.stderr)))
}

/// Whether a set of values is rendered to what it should be.
fn expected(name: &str, text: &str) -> Result<(), String> {
    let of_set = RENDERED.iter().filter(|(set, ..)| *set == name);
    for (_, part, should) in of_set {
        if text.contains(part) != *should {
            let is = if *should { "is not" } else { "is" };
            return Err(format!("{name}: `{}` {is} rendered", part.trim()));
        }
    }
    Ok(())
}

/// The options that the container is started with.
fn arguments(text: &str) -> Vec<&str> {
    let items = text.lines().filter_map(|line| line.trim_start().strip_prefix("- "));
    items.map(|item| item.trim_matches('"')).filter(|item| item.starts_with("--")).collect()
}

/// How many objects there are.
fn kinds(text: &str) -> usize {
    text.lines().filter(|line| line.starts_with("kind: ")).count()
}

/// The comment that a file begins with.
fn head(text: &str) -> String {
    text.lines().take_while(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect()
}

/// Rendered objects without what is Helm's own.
fn without_helm(text: &str) -> String {
    let of_helm = |line: &str| OF_HELM.iter().any(|start| line.trim_start().starts_with(start));
    let object = |part: &str| {
        let lines: Vec<&str> = part.lines().filter(|line| !of_helm(line)).collect();
        format!("{}\n", lines.join("\n").trim())
    };
    let objects = text.split("---\n").filter(|part| !part.trim().is_empty()).map(object);
    objects.collect::<Vec<_>>().join("---\n")
}

#[cfg(test)]
mod tests {
    use super::{arguments, expected, head, kinds, without_helm};

    const RENDERED: &str = "---\n# Source: revcast/templates/a.yaml\n# Why.\nkind: A\nmetadata:\n  labels:\n    \
                            app.kubernetes.io/managed-by: Helm\n    helm.sh/chart: revcast-1\n    b: c\n\n---\n\
                            # Source: revcast/templates/d.yaml\nkind: D\nargs:\n  - serve\n  - --e=f\n  - \"--g=/h#i\"\n";

    #[test]
    fn objects_are_counted_and_their_arguments_found() {
        assert_eq!((kinds(RENDERED), arguments(RENDERED)), (2, vec!["--e=f", "--g=/h#i"]));
    }

    #[test]
    fn what_only_helm_needs_is_left_out() {
        let wanted = "# Why.\nkind: A\nmetadata:\n  labels:\n    b: c\n---\nkind: D\nargs:\n  - serve\n  - --e=f\n  - \"--g=/h#i\"\n";
        assert_eq!(without_helm(RENDERED), wanted);
        assert_eq!(head("# a\n# b\n\n# c\nkind: A\n"), "# a\n# b\n");
    }

    #[test]
    fn what_is_not_rendered_is_noticed() {
        assert!(expected("no-network-policy", "kind: Deployment\n").is_ok());
        let said = expected("no-network-policy", "kind: NetworkPolicy\n").expect_err("it is left out there");
        assert!(said.contains("kind: NetworkPolicy") && said.contains("is rendered"), "{said}");
        assert!(expected("default", "").is_err());
    }
}
