//! Resources of which it is known what each gRPC says: what all reject is rejected here, and what all take
//! is taken.
//!
//! They are those that the tests of `chancery` show to real clients, with what `chancery check` says of each;
//! those tests prove that both agree. Not here: the reasons.

use std::collections::BTreeMap;

use bytes::Bytes;
use chancery_calls::{Dice, SeededDice};
use chancery_client::ResourceType;
use serde_json::{Value, json};

use super::clusters::{self, Cluster};
use super::endpoints::Endpoints;
use super::listeners::Listener;
use super::routes::Routes;
use super::support::{Rejecters, any, parsed, router};
use super::surroundings::Surroundings;

const CASES: &str = include_str!("../../../chancery/tests/real/grpc/judged.json");

/// The resources that the cases change, as the tests of `chancery` have them.
fn good() -> BTreeMap<&'static str, Value> {
    const MANAGER: &str =
        "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    let rds = json!({"route_config_name": "r", "config_source": {"ads": {}}});
    let manager = any(MANAGER, json!({"rds": rds, "http_filters": [router()]}));
    let route = |prefix: &str| json!({"match": {"prefix": prefix}, "route": {"cluster": "c"}});
    let routes = [route("/one"), route("")];
    let locality = |zone: &str, port: u16| {
        let address = json!({"socket_address": {"address": "127.0.0.1", "port_value": port}});
        json!({"locality": {"zone": zone}, "load_balancing_weight": 1,
            "lb_endpoints": [{"endpoint": {"address": address}}]})
    };
    BTreeMap::from([
        ("lds", json!({"name": "l", "api_listener": {"api_listener": manager}})),
        (
            "rds",
            json!({"name": "r", "virtual_hosts":
                [{"name": "v", "domains": ["*"], "routes": routes}]}),
        ),
        (
            "cds",
            json!({"name": "c", "type": "EDS",
                "eds_cluster_config": {"eds_config": {"ads": {}}}}),
        ),
        ("eds", json!({"cluster_name": "c", "endpoints": [locality("a", 1), locality("b", 2)]})),
    ])
}

/// A resource of which it is known what each gRPC says.
struct Case {
    name: String,
    /// The type, as in `cds`.
    kind: String,
    resource: Value,
}

fn cases() -> Vec<Case> {
    let cases: Vec<Value> = serde_json::from_str(CASES).expect("JSON");
    let changed = cases.iter().map(|case| {
        let text = |field: &str| case[field].as_str().expect("a text").to_owned();
        let kind = text("kind");
        let mut resource = good()[&*kind].clone();
        change(&mut resource, &case["set"]);
        Case { name: text("name"), kind, resource }
    });
    changed.collect()
}

/// Sets the fields of a resource at these paths. `null` removes one, and a list has one more.
fn change(resource: &mut Value, fields: &Value) {
    for (path, value) in fields.as_object().expect("fields") {
        let (parent, field) = path.rsplit_once('/').expect("a path");
        match (resource.pointer_mut(parent).expect("a parent"), value) {
            (Value::Object(parent), Value::Null) => drop(parent.remove(field)),
            (Value::Array(parent), value) => parent.push(value.clone()),
            (parent, value) => parent[field] = value.clone(),
        }
    }
}

fn read_as<T: ResourceType>(resource: &Value) -> (Rejecters, Option<String>) {
    let (parsed, rejecters) = parsed(T::TYPE_URL, resource);
    (rejecters, T::decode(parsed.name().as_str(), parsed.body()).err())
}

/// Reads a cluster without a look at what can be connected to so far.
fn read_cluster(resource: &Value) -> (Rejecters, Option<String>) {
    let (parsed, rejecters) = parsed(Cluster::TYPE_URL, resource);
    let cluster = prost::Message::decode(parsed.body().clone()).expect("a cluster");
    let read = clusters::read(parsed.name().as_str(), &cluster, &Surroundings::default());
    (rejecters, read.err().map(|fault| fault.to_string()))
}

fn read(kind: &str, resource: &Value) -> (Rejecters, Option<String>) {
    match kind {
        "lds" => read_as::<Listener>(resource),
        "rds" => read_as::<Routes>(resource),
        "cds" => read_cluster(resource),
        "eds" => read_as::<Endpoints>(resource),
        other => panic!("{other}"),
    }
}

#[test]
fn the_resources_that_are_changed_are_good() {
    for (kind, resource) in good() {
        assert_eq!(read(kind, &resource), (Rejecters::None, None), "{kind}");
    }
}

#[test]
fn what_every_grpc_rejects_is_rejected_and_what_every_grpc_takes_is_taken() {
    // C-092 to C-098, C-107, C-108, C-112, gRFC A29, gRFC A44, C-149
    let cases = cases();
    assert!(cases.len() > 60);
    let mut taken_although_some_reject = Vec::new();
    for Case { name, kind, resource } in cases {
        let (rejecters, fault) = read(&kind, &resource);
        match rejecters {
            Rejecters::None => assert_eq!(fault, None, "{kind} {name}"),
            Rejecters::All => assert!(fault.is_some(), "{kind} {name} is taken"),
            Rejecters::Some if fault.is_none() => {
                taken_although_some_reject.push(name);
            }
            Rejecters::Some => {}
        }
    }
    assert_eq!(taken_although_some_reject, TAKEN_ALTHOUGH_SOME_REJECT);
}

/// The cases that are taken although some reject them, with the reasons.
const TAKEN_ALTHOUGH_SOME_REJECT: [&str; 27] = [
    // Go and C-core fail the calls of such routes, and take the resource (C-098).
    "redirect",
    "direct response",
    // Go and Java have the policy.
    "least request",
    // A filter that is optional and not known is left out, wherever it stands (C-093).
    "optional filter from elsewhere",
    "optional filter without a type",
    "optional unknown filter after the router",
    "optional filter of servers after the router",
    "optional filter without a type after the router",
    // Only C-core looks whether there are domains.
    "no domains",
    "optional configuration without a type",
    // RBAC is a filter of servers, and its configurations stand in routes of both sides.
    "configuration of RBAC",
    "configuration of RBAC with a filter",
    "configuration of RBAC with rules",
    // The default of the field is `XX_HASH`, and a size of 0 counts as unset in Go (C-114).
    "ring by the default hash",
    "ring with size 0",
    "ring by lb_policy with size 0",
    // Go and Java alone ask for the name.
    "aggregate of another name",
    // Node does not have these policies, nor C-core the last one.
    "weights by clients",
    "pick first",
    "least request by its message",
    // Node cannot read sizes here.
    "ring with the default minimum as maximum",
    // As with both sizes 0.
    "ring with maximum 0",
    "ring with minimum 0",
    "ring by lb_policy with maximum 0",
    "ring by lb_policy with minimum 0",
    // Node cannot read sizes here.
    "ring with sizes",
    // It has no weight, so it is left out before anybody looks at it.
    "no locality and no weight",
];

/// Changes some bytes, or cuts the end off.
fn mutated(body: &[u8], dice: &mut SeededDice) -> Vec<u8> {
    let mut body = body.to_vec();
    for _ in 0..=dice.below(4) {
        if body.is_empty() {
            break;
        }
        let at = usize::try_from(dice.below(body.len() as u64)).expect("an index");
        match dice.below(8) {
            0 => body.truncate(at),
            1 => drop(body.remove(at)),
            2 => body.insert(at, body[at]),
            3 => body[at] ^= 1 << dice.below(8),
            _ => body[at] = dice.roll().to_le_bytes()[0],
        }
    }
    body
}

type Decode = fn(&Bytes) -> Result<(), String>;

#[test]
fn no_bytes_make_a_reader_panic() {
    // C-064
    let mut dice = SeededDice(7);
    for Case { kind, resource, .. } in cases() {
        let (type_name, decode): (_, Decode) = match &*kind {
            "lds" => (Listener::TYPE_URL, |body| Listener::decode("l", body).map(drop)),
            "rds" => (Routes::TYPE_URL, |body| Routes::decode("r", body).map(drop)),
            "cds" => (Cluster::TYPE_URL, |body| Cluster::decode("c", body).map(drop)),
            _ => (Endpoints::TYPE_URL, |body| Endpoints::decode("c", body).map(drop)),
        };
        let (parsed, _) = parsed(type_name, &resource);
        for _ in 0..200 {
            let body = Bytes::from(mutated(parsed.body(), &mut dice));
            if let Err(fault) = decode(&body) {
                assert!(fault.len() < 2_000 && !fault.contains('\n'), "{fault}");
            }
        }
    }
}
