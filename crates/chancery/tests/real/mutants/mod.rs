//! Mutations of good resources, which a real Envoy and our checks look at: what Envoy takes has no error
//! here, and what it refuses has one, or is of a kind that only Envoy can know.
//!
//! One Envoy gets all mutants, one after the other, on one stream. A seed makes one mutant:
//!
//! | variable | meaning |
//! |---|---|
//! | `CHANCERY_MUTANTS` | the number of mutants, 2500 by default |
//! | `CHANCERY_MUTANT_SEED` | the first seed, 0 by default |
//! | `CHANCERY_MUTANT_FILE` | a file to which a line about each disagreement is written |

mod classes;
mod corpus;
mod good;
mod mutate;
mod stage;
mod values;

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use chancery_core::{Resource, Snapshot, TypeUrl};
use chancery_proto::Schema;
use chancery_proto::document::{Checks, Format, RuleCheck, parse_checked};
use chancery_proto::show::{Notation, Viewer};
use chancery_testkit::sim::Rng;
use prost_reflect::prost::Message;
use prost_reflect::{DynamicMessage, Value};

use self::good::Good;
use self::stage::{Expected, Stage};
use self::values::Values;
use crate::support::clients::{RealClients, clients};

/// The findings of our checks about a resource.
struct Judged {
    /// The resource, unless it cannot be served at all.
    resource: Option<Arc<Resource>>,
    errors: Vec<String>,
    /// True if a rule is broken that is no error, because only gRPC can use the resource.
    is_excused: bool,
}

/// Looks at a resource as `check` does at one of a file.
fn judge(schema: &Schema, type_url: &TypeUrl, message: &DynamicMessage) -> Judged {
    let response = schema.message(RESPONSE).expect("it is built in");
    let mut response = DynamicMessage::new(response);
    let of = schema.message(mutate::ANY).expect("it is built in");
    let mut any = DynamicMessage::new(of);
    any.set_field_by_number(1, Value::String(type_url.as_str().to_owned()));
    any.set_field_by_number(2, Value::Bytes(message.encode_to_vec().into()));
    response.set_field_by_name("resources", Value::List(vec![Value::Message(any)]));
    let checks = Checks { rules: RuleCheck::Fault, ..Checks::default() };
    let parsed = parse_checked(schema, Format::Binary, &response.encode_to_vec(), checks);
    let faults = parsed.faults.iter().map(|fault| format!("{}: {fault}", fault.code));
    let broken = parsed.violations.iter().map(|it| format!("{}: {}", it.rule.code(), it.fault));
    let errors = faults.chain(broken).collect();
    let first = parsed.resources.into_iter().next();
    let is_rule = |code: &str| code.starts_with("rule/") || code.starts_with("envoy/");
    let is_excused = first.as_ref().is_some_and(|it| {
        it.warnings.iter().any(|it| is_rule(it.code) && !it.code.ends_with("-deprecated"))
    });
    Judged { resource: first.map(|it| it.resource), errors, is_excused }
}

const RESPONSE: &str = "envoy.service.discovery.v3.DiscoveryResponse";

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// A runtime for the server, whose tasks go on while the test waits for Envoy.
fn runtime() -> tokio::runtime::Runtime {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(1).enable_all().build().expect("threads can be started")
}

/// Starts an Envoy that has all good resources for which it asks by name.
async fn stage<'a>(
    clients: &'a RealClients,
    schema: &Schema,
    dir: &Path,
    good: &'a [Good],
) -> Stage<'a> {
    let mut rest = Snapshot::new();
    for good in good.iter().filter(|good| Good::is_asked_for(&good.type_url)) {
        let judged = judge(schema, &good.type_url, &good.message);
        rest.insert(&good.type_url, judged.resource.expect("it can be served"));
    }
    Stage::open(clients, dir, good, rest).await
}

#[test]
fn envoy_takes_what_has_no_error_and_refuses_what_has_one() {
    let Some(clients) = clients() else { return };
    let (schema, dir) = (Schema::bundled(), tempfile::tempdir().expect("there is a directory"));
    let good = good::resources(&schema, dir.path());
    let values = Values::of(&good);
    runtime().block_on(async {
        let mut stage = stage(&clients, &schema, dir.path(), &good).await;
        let mut wrong = String::new();
        for good in &good {
            let judged = judge(&schema, &good.type_url, &good.message);
            let resource = judged.resource.expect("it can be served");
            // Those that have to be there from the beginning were taken then.
            let is_there = Good::is_asked_for(&good.type_url);
            let refused = match is_there {
                true => String::new(),
                false => stage.ask(&good.type_url, &resource).await.said().to_owned(),
            };
            if !refused.is_empty() || !judged.errors.is_empty() {
                let (of, name) = (good.type_url.short(), &good.name);
                writeln!(wrong, "{of} {name}: {refused} {:?}", judged.errors).expect("a text");
            }
        }
        assert!(wrong.is_empty(), "{wrong}");
        let (first, count) = (number("CHANCERY_MUTANT_SEED", 0), number("CHANCERY_MUTANTS", 2500));
        let mut record = Record { tells_all: count == 1, ..Record::default() };
        // A change back to what Envoy has is none.
        for good in good.iter().filter(|good| Good::is_asked_for(&good.type_url)) {
            let judged = judge(&schema, &good.type_url, &good.message);
            let body = judged.resource.expect("it can be served").body().clone();
            record.seen.insert((good.type_url.clone(), body));
        }
        for seed in first..first + count {
            let mutant = Mutant::of_seed(&values, &good, seed);
            mutant.compare(&schema, &mut stage, &mut record).await;
        }
        record.say();
        assert!(record.lines.is_empty(), "{}", record.lines.join("\n"));
    });
}

/// A resource that was changed.
struct Mutant<'a> {
    seed: u64,
    good: &'a Good,
    how: Vec<String>,
    message: DynamicMessage,
}

impl<'a> Mutant<'a> {
    fn of_seed(values: &Values, good: &'a [Good], seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let good = rng.one_of(good);
        let mut message = good.message.clone();
        let depth = 1 + rng.below(10).saturating_sub(6).min(2);
        let how = (0..depth).map(|_| mutate::mutate(values, &mut rng, &mut message)).collect();
        // Each has a name of its own where Envoy does not ask for it by its name.
        let name = ["name", "cluster_name"].into_iter().find(|it| message.has_field_by_name(it));
        match good.type_url.short() {
            "cds" | "lds" if name.is_some() => {
                let name = format!("{}-{seed}", good.name);
                message.set_field_by_name("name", Value::String(name));
            }
            "cds" | "lds" => {}
            "eds" => message.set_field_by_name("cluster_name", Value::String(good.name.clone())),
            _ => message.set_field_by_name("name", Value::String(good.name.clone())),
        }
        Self { seed, good, how, message }
    }

    async fn compare(&self, schema: &Schema, stage: &mut Stage<'_>, record: &mut Record) {
        let judged = judge(schema, &self.good.type_url, &self.message);
        let Some(resource) = judged.resource else {
            record.count("not served, as it has a fault");
            return;
        };
        if self.good.type_url.short() == "sds"
            && kind_of(&self.message) != kind_of(&self.good.message)
        {
            record.count("a secret of another kind, which nobody asks for");
            return;
        }
        let body = (self.good.type_url.clone(), resource.body().clone());
        if !record.seen.insert(body.clone()) {
            record.count("made before");
            return;
        }
        let expected = Expected::of(&judged.errors);
        let answer = stage.ask_expecting(expected, &self.good.type_url, &resource).await;
        if record.tells_all {
            let shown = Viewer::new(schema).show(Notation::Yaml, &body.0, &body.1);
            println!("{shown}\n{}\n{answer:?}\n{:?}", self.how.join("\n"), judged.errors);
        }
        match (judged.errors.first(), answer.is_refusal()) {
            (None, false) => record.count("both take it"),
            (Some(_), true) => record.count("both refuse it"),
            (Some(error), false) => record.differs("ONLY WE", self, error),
            (None, true) if judged.is_excused => record.count("for gRPC alone"),
            (None, true) => match classes::of(&answer) {
                Some(class) => record.count(&format!("only Envoy: {class}")),
                None => record.differs("ONLY ENVOY", self, answer.said()),
            },
        }
    }
}

/// The fields of a secret that are set: of which kind it is.
fn kind_of(secret: &DynamicMessage) -> Vec<u32> {
    let fields = secret.fields().map(|(field, _)| field.number());
    fields.filter(|number| *number > 1).collect()
}

/// The record of a run.
#[derive(Default)]
struct Record {
    tells_all: bool,
    counts: BTreeMap<String, usize>,
    seen: HashSet<(TypeUrl, Bytes)>,
    lines: Vec<String>,
}

impl Record {
    fn count(&mut self, what: &str) {
        *self.counts.entry(what.to_owned()).or_default() += 1;
    }

    fn differs(&mut self, what: &str, mutant: &Mutant<'_>, said: &str) {
        self.count(what);
        let (of, name) = (mutant.good.type_url.short(), &mutant.good.name);
        let said: String = said.replace('\n', " ").chars().take(600).collect();
        let how = mutant.how.join("; ");
        self.lines.push(format!("{what} | {} | {of} {name} | {how} | {said}", mutant.seed));
    }

    fn say(&self) {
        let text = self.lines.join("\n");
        if let Some(file) = std::env::var_os("CHANCERY_MUTANT_FILE") {
            std::fs::write(file, &text).expect("the file can be written");
        }
        println!("{:#?}", self.counts);
    }
}
