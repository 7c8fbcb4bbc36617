//! Policies that a program adds (C-112): one that chooses among endpoints in a way of its own, and one
//! that stands above another policy.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;

use chancery_calls::balancing::{
    Balancer, Branch, Choose, ConnectAll, Connectivity, Context, CustomPolicies, Member, Node,
    Observers, Pick, PickArgs, Picked, Picker, PolicyConfig, PolicyFactory, PolicyTarget,
    SubchannelId, SubchannelState, Switch, Update, Wake,
};
use chancery_calls::{Failure, SeededDice};
use chancery_core::Time;

use crate::support::{Play, address, endpoints};

/// Sends the calls of each method to some of the endpoints only, so that these have in memory what the
/// method needs.
#[derive(Debug)]
struct ByMethodFactory;

/// The number of endpoints for each method.
struct Shards(usize);

#[derive(Debug, Default)]
struct ByMethod {
    shards: usize,
}

#[derive(Debug)]
struct ByMethodPicker {
    ready: Vec<Picked>,
    shards: usize,
}

impl PolicyFactory for ByMethodFactory {
    fn name(&self) -> &'static str {
        "examples.ByMethod"
    }

    fn read(&self, json: &str) -> Result<Arc<dyn Any + Send + Sync>, String> {
        let value: serde_json::Value =
            serde_json::from_str(json).map_err(|error| error.to_string())?;
        let shards = value["shards"].as_u64().and_then(|it| usize::try_from(it).ok());
        let shards = shards.filter(|it| *it > 0).ok_or("`shards` is not a number above 0")?;
        Ok(Arc::new(Shards(shards)))
    }

    fn policy(&self) -> Box<dyn Balancer> {
        Box::new(ConnectAll::<ByMethod>::default())
    }
}

impl Choose for ByMethod {
    type Kept = ();

    fn update(&mut self, config: &PolicyConfig, _: &mut [Member], _: &mut Context<'_>) {
        if let PolicyConfig::Custom(policy) = config
            && let Some(Shards(shards)) = policy.config()
        {
            self.shards = *shards;
        }
    }

    fn picker(&mut self, endpoints: &[Member]) -> Arc<dyn Picker> {
        let ready = endpoints.iter().filter_map(|it| it.picked(Observers::new())).collect();
        Arc::new(ByMethodPicker { ready, shards: self.shards })
    }
}

impl Picker for ByMethodPicker {
    fn pick(&self, call: &mut PickArgs<'_>) -> Pick {
        let first: usize = call.path.bytes().map(usize::from).sum();
        let shard = usize::try_from(call.dice.below(self.shards as u64)).expect("a small number");
        Pick::To(self.ready[(first + shard) % self.ready.len()].clone())
    }
}

/// Fails calls without a header, and leaves the others to round robin.
#[derive(Debug)]
struct GuardedFactory;

#[derive(Debug)]
struct Guarded(Switch);

#[derive(Debug)]
struct GuardedPicker(Arc<dyn Picker>);

impl PolicyFactory for GuardedFactory {
    fn name(&self) -> &'static str {
        "examples.Guarded"
    }

    fn read(&self, _: &str) -> Result<Arc<dyn Any + Send + Sync>, String> {
        Ok(Arc::new(()))
    }

    fn policy(&self) -> Box<dyn Balancer> {
        Box::new(Guarded(Switch::new(&child(&[]))))
    }
}

fn child(endpoints: &[Arc<chancery_calls::balancing::Endpoint>]) -> PolicyTarget {
    PolicyTarget { config: PolicyConfig::RoundRobin, endpoints: endpoints.into(), note: None }
}

impl Picker for GuardedPicker {
    fn pick(&self, call: &mut PickArgs<'_>) -> Pick {
        match call.metadata.contains_key("x-guest") {
            true => Pick::Drop(Failure::unavailable("no guests")),
            false => self.0.pick(call),
        }
    }
}

impl Balancer for Guarded {
    fn update(&mut self, update: &Update<'_>, cx: &mut Context<'_>) {
        self.0.update(&child(update.endpoints), cx);
    }
}

impl Branch for Guarded {
    fn subchannel(&mut self, id: SubchannelId, state: &SubchannelState, cx: &mut Context<'_>) {
        self.0.subchannel(id, state, cx);
    }

    fn ejected(&mut self, id: SubchannelId, is_ejected: bool, cx: &mut Context<'_>) {
        self.0.ejected(id, is_ejected, cx);
    }

    fn wake(&mut self, wake: Wake, cx: &mut Context<'_>) {
        self.0.wake(wake, cx);
    }

    fn on_time(&mut self, cx: &mut Context<'_>) {
        self.0.on_time(cx);
    }

    fn deadline(&self) -> Option<Time> {
        self.0.deadline()
    }

    fn connectivity(&self) -> Connectivity {
        self.0.connectivity()
    }

    fn picker(&mut self) -> Arc<dyn Picker> {
        Arc::new(GuardedPicker(self.0.picker()))
    }

    fn close(&mut self, cx: &mut Context<'_>) {
        self.0.close(cx);
    }
}

fn policies() -> CustomPolicies {
    CustomPolicies::default().with(ByMethodFactory).with(GuardedFactory)
}

fn read(name: &str, json: &str) -> PolicyConfig {
    policies().read(name, json).expect("it was added").expect("it is valid")
}

/// C-112: TypedStruct names select registered custom policies.
#[test]
fn a_policy_of_the_program_chooses_endpoints() {
    let mut play = Play::new();
    let two = read("examples.ByMethod", r#"{"shards": 2}"#);
    play.up("1 2 3 4").update(&two, &endpoints("1 2 3 4"));
    let picker = play.tree.picker().expect("there was an update");
    let used = |path: &str| -> BTreeSet<_> {
        let (metadata, mut dice) = (http::HeaderMap::new(), SeededDice(7));
        let pick = |_| {
            let dice = &mut dice;
            let mut call = PickArgs {
                path,
                metadata: &metadata,
                hash: None,
                session: None,
                dice,
                wake: None,
                permit: None,
                by_session: false,
            };
            let Pick::To(picked) = picker.pick(&mut call) else { panic!("it is ready") };
            picked.endpoint.addresses[0]
        };
        (0..100).map(pick).collect()
    };
    assert_eq!(used("/a"), [address("1"), address("2")].into());
    assert_eq!(used("/b"), [address("2"), address("3")].into());
    let one = read("examples.ByMethod", r#"{"shards": 1}"#);
    play.update(&one, &endpoints("1 2 3 4"));
    assert_eq!(play.spread(10).len(), 1);
    assert_eq!(play.dialled().len(), 4, "another configuration is no other policy");
}

/// C-112: a policy may stand above others, and one of another name takes over when it can.
#[test]
fn a_policy_of_the_program_stands_above_others() {
    let mut play = Play::new();
    play.up("1 2").update(&read("examples.ByMethod", r#"{"shards": 1}"#), &endpoints("1 2"));
    play.update(&read("examples.Guarded", "{}"), &endpoints("1 2"));
    assert_eq!(play.dialled().len(), 4, "it has its own connections");
    assert_eq!(play.spread(10), [(address("1"), 5), (address("2"), 5)].into());
    assert_eq!(play.call_with("x-guest", &["1"]), "drop: no guests");
    let within = PolicyConfig::WrrLocality(Arc::new(read("examples.Guarded", "{}")));
    play.update(&within, &endpoints("1 2"));
    assert_eq!(play.call_with("x-guest", &["1"]), "drop: no guests");
}

/// C-112: nothing supported is a NACK, and so is what its policy does not take.
#[test]
fn a_configuration_is_read_when_it_comes() {
    assert_eq!(policies().read("examples.Unknown", "{}"), None);
    let refused = policies().read("examples.ByMethod", r#"{"shards": 0}"#);
    assert_eq!(refused, Some(Err("`shards` is not a number above 0".to_owned())));
    let (one, other) = (r#"{"shards": 1}"#, r#"{"shards": 2}"#);
    assert_eq!(read("examples.ByMethod", one), read("examples.ByMethod", one));
    assert_ne!(read("examples.ByMethod", one), read("examples.ByMethod", other));
}
