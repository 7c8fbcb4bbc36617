//! The good resources that are mutated: those of the files in `good`, each of which Envoy takes.
//!
//! Not here: the mutations (`mutate`), and the subscriptions by which Envoy asks for them (`stage`).

use std::path::Path;

use chancery_core::TypeUrl;
use chancery_proto::Schema;
use chancery_proto::document::{Format, parse};
use prost_reflect::DynamicMessage;
use serde_json::Value;

use crate::support::tls::CertificateAuthority;

const FILES: [&str; 5] = [
    include_str!("good/clusters.yaml"),
    include_str!("good/listeners.yaml"),
    include_str!("good/filters.yaml"),
    include_str!("good/routes.yaml"),
    include_str!("good/others.yaml"),
];

/// A good resource.
#[derive(Clone, Debug)]
pub(super) struct Good {
    pub(super) type_url: TypeUrl,
    pub(super) name: String,
    pub(super) message: DynamicMessage,
}

impl Good {
    /// Returns true for types of which Envoy asks for some by their names, and not for all.
    pub(super) fn is_asked_for(type_url: &TypeUrl) -> bool {
        !["cds", "lds"].contains(&type_url.short())
    }
}

/// All good resources, with certificates that are made for this run.
pub(super) fn resources(schema: &Schema, dir: &Path) -> Vec<Good> {
    let authority = CertificateAuthority::new(dir);
    let identity = authority.identity("mutant");
    let ca = std::fs::read_to_string(authority.file("ca.pem")).expect("it was written");
    let texts = [("@CERT@", identity.certificate), ("@KEY@", identity.key), ("@CA@", ca)];
    let mut found = Vec::new();
    for file in FILES {
        let mut text = file.to_owned();
        for (place, value) in &texts {
            text = text.replace(place, &Value::from(value.as_str()).to_string());
        }
        let parsed = parse(schema, Format::Yaml, text.as_bytes());
        assert!(parsed.faults.is_empty(), "{:?}", parsed.faults);
        for parsed in parsed.resources {
            let body = parsed.resource.body().clone();
            let of = schema.message(parsed.type_url.as_str()).expect("a known type");
            let message = DynamicMessage::decode(of, body).expect("it was just encoded");
            let name = parsed.resource.name().to_string();
            found.push(Good { type_url: parsed.type_url, name, message });
        }
    }
    found
}
