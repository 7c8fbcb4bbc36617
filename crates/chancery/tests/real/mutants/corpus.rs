//! Good configurations of others: the resources that Envoy Gateway makes in its own tests.
//!
//! Those that Envoy takes have no error here. Resources that Envoy asks for by a name get that of one for
//! which it asks. Not here: the download (`cargo xtask fetch`).

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use chancery_core::TypeUrl;
use chancery_proto::Schema;
use chancery_proto::document::{Format, parse};
use prost_reflect::prost::Message;
use prost_reflect::{DynamicMessage, Value};

use super::good::Good;
use super::stage::Expected;
use super::{classes, judge, runtime, stage};
use crate::support::clients::clients;

/// The types of the resources in a file, by the end of its name, and the name that they get.
const KINDS: [(&str, &str, Option<&str>); 5] = [
    (".clusters.yaml", "envoy.config.cluster.v3.Cluster", None),
    (".listeners.yaml", "envoy.config.listener.v3.Listener", None),
    (".routes.yaml", "envoy.config.route.v3.RouteConfiguration", Some("r1")),
    (".endpoints.yaml", "envoy.config.endpoint.v3.ClusterLoadAssignment", Some("e")),
    (".secrets.yaml", "envoy.extensions.transport_sockets.tls.v3.Secret", None),
];

/// The kinds of secrets, and the names by which Envoy asks for one.
const SECRETS: [(&str, &str); 4] = [
    ("tls_certificate", "s-cert"),
    ("validation_context", "s-ca"),
    ("session_ticket_keys", "s-tickets"),
    ("generic_secret", "s-generic"),
];

#[test]
fn what_envoy_takes_of_others_has_no_error() {
    let Some(clients) = clients() else { return };
    let Some(corpus) = clients.corpus() else { return };
    let (schema, dir) = (Schema::bundled(), tempfile::tempdir().expect("there is a directory"));
    let good = super::good::resources(&schema, dir.path());
    let mut counts = BTreeMap::<&str, usize>::new();
    let (mut wrong, mut seen) = (Vec::new(), HashSet::new());
    runtime().block_on(async {
        let mut stage = stage(&clients, &schema, dir.path(), &good).await;
        for file in files(&corpus) {
            let (resources, faults) = resources(&schema, &file);
            wrong.extend(faults);
            for (at, resource) in resources.iter().enumerate() {
                let judged = judge(&schema, &resource.type_url, &resource.message);
                if !seen.insert((resource.type_url.clone(), resource.message.encode_to_vec())) {
                    continue;
                }
                let Some(body) = judged.resource else {
                    wrong.push(format!("{}: {:?}", file.display(), judged.errors));
                    continue;
                };
                let expected = Expected::of(&judged.errors);
                let answer = stage.ask_expecting(expected, &resource.type_url, &body).await;
                let (refused, errors) = (answer.is_refusal(), &judged.errors);
                let what = match (refused, errors.first(), classes::of(&answer)) {
                    (false, None, _) => "both take it",
                    (true, Some(_), _) => "both refuse it",
                    (true, None, Some(class)) => class,
                    _ => {
                        let (file, said) = (file.display(), answer.said());
                        wrong.push(format!("{file} {at}: {errors:?} | {said}"));
                        "we differ"
                    }
                };
                *counts.entry(what).or_default() += 1;
            }
        }
    });
    println!("{counts:#?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("the corpus is there");
    let mut files: Vec<_> = entries.map(|it| it.expect("it can be read").path()).collect();
    files.sort();
    files
}

/// The resources of a file, which does not say of which type they are.
fn resources(schema: &Schema, file: &Path) -> (Vec<Good>, Vec<String>) {
    let name = file.to_string_lossy();
    let Some((_, kind, named)) = KINDS.iter().find(|(end, ..)| name.ends_with(end)) else {
        return (Vec::new(), Vec::new());
    };
    let text = fs::read_to_string(file).expect("it can be read");
    let begin = format!("- '@type': type.googleapis.com/{kind}\n  ");
    // One file may have several states, in which a name is there again.
    let (mut found, mut faults) = (Vec::new(), Vec::new());
    for item in format!("\n{text}").split("\n- ").skip(1) {
        let parsed = parse(schema, Format::Yaml, format!("{begin}{item}\n").as_bytes());
        faults.extend(parsed.faults.iter().map(|fault| format!("{name}: {fault}")));
        found.extend(parsed.resources);
    }
    let of = schema.message(kind).expect("it is built in");
    let resources = found.into_iter().map(|parsed| {
        let body = parsed.resource.body().clone();
        let mut message = DynamicMessage::decode(of.clone(), body).expect("it was just encoded");
        let name = parsed.resource.name().to_string();
        let secret = SECRETS.iter().find(|(field, _)| message.has_field_by_name(field));
        if let Some(name) = named.or(secret.map(|(_, name)| *name)) {
            let field = if kind.ends_with("Assignment") { "cluster_name" } else { "name" };
            message.set_field_by_name(field, Value::String(name.to_owned()));
        }
        Good { type_url: TypeUrl::new(kind), name, message }
    });
    (resources.collect(), faults)
}
