//! All variants served for one client are views of one data set.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::server::Machine;
use chancery_core::server::rest;
use chancery_core::server::rest::Answer;
use chancery_core::server::{Input, Settings};
use chancery_core::{Node, Resource, Scope, Snapshot, SotwRequest, Time, TypeUrl, Variant};
use chancery_testkit::client::{Client, Interest, Quirks, Verdict};
use chancery_testkit::script::type_url;

/// Names to versions.
type State = BTreeMap<String, String>;

/// One stream and its client, on a network that delivers at once.
struct Pair {
    server: Machine,
    client: Client,
    now: Time,
}

impl Pair {
    fn new(variant: Variant, scope: Scope, types: &[TypeUrl]) -> Self {
        let node = Arc::new(Node { id: "envoy-1".to_owned(), ..Node::default() });
        let quirks = Quirks { star: true, ..Quirks::default() };
        let mut client = Client::new(variant, node, quirks, |_, _| Verdict::Good);
        types.iter().for_each(|type_url| client.want(type_url, Interest::all()));
        client.open();
        let server = Machine::new(variant, scope, Arc::new(Settings::default()));
        Self { server, client, now: Time::default() }
    }

    fn see(&mut self, snapshot: &Arc<Snapshot>) {
        let see = Input::Snapshot(Arc::clone(snapshot));
        self.server.handle(self.now, see).expect("a snapshot breaks no rule");
    }

    /// Delivers until both sides are silent; time passes, for removals that wait.
    fn settle(&mut self) {
        for _ in 0..4 {
            loop {
                while let Some(request) = self.client.poll() {
                    let request = Input::Request(request);
                    self.server.handle(self.now, request).expect("the client keeps the rules");
                }
                let Some(response) = self.server.poll(self.now) else { break };
                self.client.receive(self.now, &response).expect("the server keeps the rules");
            }
            self.now = self.now + Duration::from_secs(60);
        }
    }

    fn state(&self, type_url: &TypeUrl) -> State {
        let held = self.client.held(type_url);
        held.map(|(name, holding)| (name.to_string(), holding.resource.version().to_string()))
            .collect()
    }
}

fn polled(snapshot: &Snapshot, type_url: &TypeUrl) -> State {
    let request = SotwRequest { names: ["*"].iter().collect(), ..SotwRequest::default() };
    match rest::answer(snapshot, type_url, &request, &Settings::default()) {
        Answer::Data { resources, .. } => resources
            .iter()
            .filter_map(|entry| entry.resource)
            .map(|found| (found.name().to_string(), found.version().to_string()))
            .collect(),
        other => panic!("a first poll has data, and not {other:?}"),
    }
}

/// A number that looks random and is not.
fn draw(state: &mut u64, end: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % end
}

fn edit(snapshot: &mut Snapshot, types: &[TypeUrl], random: &mut u64) {
    for _ in 0..=draw(random, 3) {
        let type_url = &types[draw(random, types.len() as u64) as usize];
        let name = format!("r{}", draw(random, 6)).parse().expect("an opaque name");
        if draw(random, 3) == 0 {
            snapshot.remove(type_url, &name);
        } else {
            let body = draw(random, 1000).to_le_bytes().to_vec();
            snapshot.insert(type_url, Resource::new(name, body.into()));
        }
    }
}

#[test]
fn every_variant_ends_with_the_same_state() {
    // S-005: SotW and delta, aggregated and per type, and REST, after each of 50 random edits
    let types = ["cds", "eds", "lds", "rds"].map(type_url);
    for seed in 0..20 {
        let mut random = seed;
        let ads = [Variant::Sotw, Variant::Delta]
            .map(|variant| Pair::new(variant, Scope::Aggregated, &types));
        let single = types.iter().flat_map(|one| {
            let of = move |variant| {
                Pair::new(variant, Scope::Only(one.clone()), std::slice::from_ref(one))
            };
            [of(Variant::Sotw), of(Variant::Delta)]
        });
        let mut pairs: Vec<Pair> = ads.into_iter().chain(single).collect();
        let mut snapshot = Snapshot::new();
        for _ in 0..50 {
            edit(&mut snapshot, &types, &mut random);
            let published = Arc::new(snapshot.clone());
            for pair in &mut pairs {
                pair.see(&published);
                pair.settle();
                for type_url in pair.client.types() {
                    let wanted = polled(&snapshot, type_url);
                    let mut state = pair.state(type_url);
                    if pair.client.variant() == Variant::Sotw && !type_url.rules().full_state {
                        // SotW cannot say that these are gone; their parents do (S-058).
                        state.retain(|name, _| wanted.contains_key(name));
                    }
                    assert_eq!(state, wanted, "seed {seed}, {type_url}");
                }
            }
        }
    }
}
