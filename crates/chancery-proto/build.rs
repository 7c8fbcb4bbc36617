//! Assembles the descriptor set: every message that an xDS resource may contain, in one file.
//!
//! ```text
//!   envoy-types      types.bin (v3)  --- clients/table.txt -------+
//!                        |               (what is newer)          v
//!                        v imports                        $OUT_DIR/descriptors.bin
//!   data-plane-api   *.proto (v2, contrib, xds, udpa) -- protox --^
//! ```
//!
//! Both packages come from the registry and are read as data, never compiled: their condition in
//! `Cargo.toml` is never true, so cargo locks and fetches them and does no more. Comments and
//! source positions are left out of the result. Options, and with them all annotations, stay.
//!
//! `CHANCERY_DESCRIPTOR_SET=/path` names a `FileDescriptorSet` made elsewhere, for builds that
//! cannot run `cargo metadata` or have neither a network nor vendored packages.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

use prost::Message;
use prost::encoding::{DecodeContext, decode_key, skip_field};
use prost_reflect::DescriptorPool;
use protox::file::{
    ChainFileResolver, File, FileResolver, GoogleFileResolver, IncludeFileResolver,
};

#[path = "build/newer.rs"]
mod newer;

type Result<T> = std::result::Result<T, String>;

/// The table that also has what the descriptors of `envoy-types` lack.
const TABLE: &str = "src/clients/table.txt";

const OVERRIDE: &str = "CHANCERY_DESCRIPTOR_SET";

/// The import roots of `data-plane-api`.
const IMPORT_ROOTS: [&str; 7] = [
    "data-plane-api",
    "xds",
    "googleapis",
    "client_model",
    "opencensus-proto/src",
    "opentelemetry-proto",
    "protoc-gen-validate",
];

/// The folders of its files that are compiled, each below an import root.
const WANTED: [(&str, &str); 4] =
    [("data-plane-api", "envoy"), ("data-plane-api", "contrib"), ("xds", "udpa"), ("xds", "xds")];

fn main() -> ExitCode {
    // The packages are pinned in Cargo.toml, so nothing else can change what they hold.
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=build/newer.rs");
    println!("cargo:rerun-if-changed={TABLE}");
    println!("cargo:rerun-if-changed=Cargo.toml");
    println!("cargo:rerun-if-env-changed={OVERRIDE}");
    match descriptors().and_then(|bytes| write(&bytes)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            for line in why.lines() {
                println!("cargo::error={line}");
            }
            ExitCode::FAILURE
        }
    }
}

fn descriptors() -> Result<Vec<u8>> {
    if let Some(path) = env::var_os(OVERRIDE) {
        let path = PathBuf::from(path);
        println!("cargo:rerun-if-changed={}", path.display());
        let bytes = read(&path)?;
        return match DescriptorPool::decode(&bytes[..]) {
            Ok(_) => Ok(bytes),
            Err(why) => {
                Err(format!("{OVERRIDE}: `{}` is no descriptor set: {why}", path.display()))
            }
        };
    }
    let [modern, old] = package_folders(["envoy-types", "data-plane-api"])?;
    let mut set = modern_files(&modern)?;
    add_old_files(&mut set, &old)?;
    Ok(set.encode_to_vec())
}

fn write(bytes: &[u8]) -> Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets no OUT_DIR")?);
    let path = out.join("descriptors.bin");
    fs::write(&path, bytes).map_err(|why| format!("cannot write `{}`: {why}", path.display()))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|why| format!("cannot read `{}`: {why}", path.display()))
}

// --- the packages ---

/// The folders cargo unpacked these packages into.
fn package_folders<const N: usize>(names: [&str; N]) -> Result<[PathBuf; N]> {
    let metadata = metadata()?;
    let packages = metadata["packages"].as_array().ok_or("`cargo metadata` lists no packages")?;
    let mut folders = Vec::new();
    for name in names {
        let package = packages.iter().find(|package| package["name"] == name);
        let manifest = package.and_then(|package| package["manifest_path"].as_str());
        let folder = manifest.and_then(|path| Path::new(path).parent());
        folders.push(
            folder.ok_or_else(|| format!("`cargo metadata` knows no package `{name}`"))?.into(),
        );
    }
    folders.try_into().map_err(|_| "a folder for each name".to_owned())
}

/// Runs `cargo metadata`, without the network if possible. An ordinary build has all packages; only
/// an empty cargo home lacks those that are never compiled.
fn metadata() -> Result<serde_json::Value> {
    let offline = run_metadata(&["--offline"]);
    let text = match offline {
        Ok(text) => text,
        Err(offline) => run_metadata(&[]).map_err(|online| {
            format!(
                "the packages `envoy-types` and `data-plane-api`, which hold the descriptors of \
                 xDS, cannot be found\noffline: {offline}\nonline: {online}\n\
                 hint: run `cargo fetch` with a network, or set {OVERRIDE} to a descriptor set"
            )
        })?,
    };
    serde_json::from_slice(&text).map_err(|why| format!("`cargo metadata` wrote no JSON: {why}"))
}

fn run_metadata(options: &[&str]) -> Result<Vec<u8>> {
    let cargo = env::var_os("CARGO").ok_or("cargo sets no CARGO")?;
    let folder = env::var_os("CARGO_MANIFEST_DIR").ok_or("cargo sets no CARGO_MANIFEST_DIR")?;
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--manifest-path"])
        .arg(Path::new(&folder).join("Cargo.toml"))
        .args(options)
        .output()
        .map_err(|why| format!("cannot run `cargo metadata`: {why}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; "))
}

// --- v3 ---

/// The v3 files, as protoc compiled them, with what is newer.
fn modern_files(package: &Path) -> Result<FileSet> {
    let path = package.join("src/generated/types.bin");
    let fault = |why| format!("`{}` is no descriptor set: {why}", path.display());
    let mut set = FileSet::decode(&read(&path)?[..]).map_err(fault)?;
    for file in &mut set.files {
        *file = without_source_info(file).map_err(fault)?;
    }
    let table = fs::read_to_string(TABLE).map_err(|why| format!("cannot read `{TABLE}`: {why}"))?;
    newer::add(&mut set.files, &table).map_err(|why| format!("`{TABLE}`: {why}"))?;
    Ok(set)
}

/// Removes comments and positions from a `FileDescriptorProto`. It is cut rather than decoded,
/// because decoding would drop the options that are extensions.
fn without_source_info(file: &[u8]) -> std::result::Result<Vec<u8>, prost::DecodeError> {
    const SOURCE_CODE_INFO: u32 = 9;
    let mut kept = Vec::with_capacity(file.len());
    let mut rest = file;
    while !rest.is_empty() {
        let field = rest;
        let (number, wire_type) = decode_key(&mut rest)?;
        skip_field(wire_type, number, &mut rest, DecodeContext::default())?;
        if number != SOURCE_CODE_INFO {
            kept.extend_from_slice(&field[..field.len() - rest.len()]);
        }
    }
    Ok(kept)
}

// --- v2, contrib, and what else v3 lacks ---

/// Compiles the wanted files that the set lacks, and adds them and their imports.
///
/// Each file has a compiler of its own. In a shared one, a package that an unrelated file declares
/// would shadow relative names, which protoc does not do.
fn add_old_files(set: &mut FileSet, package: &Path) -> Result<()> {
    let mut merged = DescriptorPool::decode(&set.encode_to_vec()[..])
        .map_err(|why| format!("the descriptors of v3 do not fit together: {why}"))?;
    let modern = merged.clone();
    let mut known: BTreeSet<String> = modern.files().map(|file| file.name().to_owned()).collect();
    for name in wanted_files(package)? {
        if known.contains(&name) {
            continue;
        }
        for file in compile(&name, &modern, package)? {
            let fault = |why| format!("`{name}` was compiled to no file: {why}");
            let imported = FileName::decode(&file[..]).map_err(fault)?.name;
            // A definition that moved into another file since 2022 exists already: the newer one is
            // kept.
            if known.insert(imported) && merged.decode_file_descriptor_proto(&file[..]).is_ok() {
                set.files.push(file);
            }
        }
    }
    Ok(())
}

/// Compiles one file with all its imports: encoded, imports first.
fn compile(name: &str, modern: &DescriptorPool, package: &Path) -> Result<Vec<Vec<u8>>> {
    let mut resolver = ChainFileResolver::new();
    resolver.add(KnownFiles(modern.clone()));
    for root in IMPORT_ROOTS {
        resolver.add(IncludeFileResolver::new(package.join(root)));
    }
    resolver.add(GoogleFileResolver::new());
    let mut compiler = protox::Compiler::with_file_resolver(resolver);
    compiler.include_imports(true).include_source_info(false);
    let fault = |why: String| format!("cannot compile `{name}`: {why}");
    compiler.open_file(name).map_err(|why| fault(why.to_string()))?;
    let set = FileSet::decode(&compiler.encode_file_descriptor_set()[..]);
    Ok(set.map_err(|why| fault(why.to_string()))?.files)
}

/// The wanted files of `data-plane-api`, by the names under which they are imported.
fn wanted_files(package: &Path) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for (root, folder) in WANTED {
        let root = package.join(root);
        let mut folders = vec![root.join(folder)];
        while let Some(folder) = folders.pop() {
            let fault = |why| format!("cannot list `{}`: {why}", folder.display());
            for entry in fs::read_dir(&folder).map_err(fault)? {
                let path = entry.map_err(fault)?.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|is| is == "proto") {
                    let name = path.strip_prefix(&root).unwrap_or(&path);
                    names.insert(name.to_string_lossy().replace('\\', "/"));
                }
            }
        }
    }
    Ok(names)
}

/// The resolver that finds imports among the v3 files, before all others.
struct KnownFiles(DescriptorPool);

impl FileResolver for KnownFiles {
    fn open_file(&self, name: &str) -> std::result::Result<File, protox::Error> {
        let Some(file) = self.0.get_file_by_name(name) else {
            return Err(protox::Error::file_not_found(name));
        };
        File::decode_file_descriptor_proto(&file.encode_to_vec()[..]).map_err(protox::Error::new)
    }
}

/// A `FileDescriptorSet` with encoded files, so that every option is kept.
#[derive(Clone, PartialEq, Message)]
struct FileSet {
    #[prost(bytes = "vec", repeated, tag = "1")]
    files: Vec<Vec<u8>>,
}

/// The name of a `FileDescriptorProto`.
#[derive(Clone, PartialEq, Message)]
struct FileName {
    #[prost(string, tag = "1")]
    name: String,
}
