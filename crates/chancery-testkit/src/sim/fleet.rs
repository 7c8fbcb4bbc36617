//! A fleet of clients and replicas in virtual time: the history of a seed, and the checks at its
//! end.
//!
//! All chance comes from one generator, so a seed is one history. Not here: the draw of the
//! circumstances (`profile`), one client with its stream (`connection`), the content that is
//! published (`world`), and the rules at each step (`referee`, `crate::client`).

use std::sync::Arc;
use std::time::Duration;

use chancery_core::{Snapshot, Time};

use super::History;
use super::connection::ClientConnection;
use super::profile::{Profile, SubscriptionStyle};
use super::rng::Rng;
use super::world::{TYPES, World, judge, type_url};
use crate::client::{Client, Fault, Interest};

/// Clients of several servers that publish the same snapshots, each server at its own time.
#[derive(Debug)]
pub struct Fleet {
    rng: Rng,
    now: Time,
    profile: Arc<Profile>,
    world: World,
    latest: Arc<Snapshot>,
    replicas: Vec<Replica>,
    nodes: Vec<Member>,
}

/// A server: the snapshot it publishes, and those that will follow.
#[derive(Debug)]
struct Replica {
    published: Arc<Snapshot>,
    coming: Vec<(Time, Arc<Snapshot>)>,
}

/// A client and the replica it is connected to.
#[derive(Debug)]
struct Member {
    connection: ClientConnection,
    replica: usize,
    /// The time at which it connects again after its stream was lost.
    opens: Option<Time>,
}

impl Fleet {
    /// Draws a fleet of that many streams and servers.
    pub fn new(seed: u64, streams: usize, replicas: usize) -> Self {
        let mut rng = Rng::new(seed);
        let profile = Arc::new(Profile::new(&mut rng));
        let world = World::new(&mut rng, profile.dangers);
        let latest = Arc::new(world.snapshot(&Snapshot::new()));
        let replica = |_| Replica { published: Arc::clone(&latest), coming: Vec::new() };
        let replicas: Vec<_> = (0..replicas.max(1)).map(replica).collect();
        let node = |number| {
            let (quirks, node) = (profile.quirks.clone(), Arc::clone(&profile.node));
            let client = Client::new(profile.variant, node, quirks, judge);
            let label = format!("#{number}");
            let connection = ClientConnection::new(label, &profile, client, Arc::clone(&latest));
            Member { connection, replica: 0, opens: Some(Time::default()) }
        };
        let nodes = (0..streams).map(node).collect();
        Self { rng, now: Time::default(), profile, world, latest, replicas, nodes }
    }

    /// Makes the first subscriptions, in any order (S-104).
    fn subscribe_first(&mut self) {
        for member in 0..self.nodes.len() {
            let follows = match self.profile.style {
                SubscriptionStyle::Random => &[][..],
                SubscriptionStyle::Envoy => &["cds", "lds"][..],
                SubscriptionStyle::Grpc => &["lds"][..],
            };
            for short in follows {
                let client = &mut self.nodes[member].connection.client;
                let roots = match self.profile.style {
                    SubscriptionStyle::Grpc => Interest::names(["l0"]),
                    SubscriptionStyle::Random | SubscriptionStyle::Envoy => Interest::all(),
                };
                client.want(&type_url(short), roots);
            }
            for _ in 0..3 {
                self.resubscribe(member);
            }
        }
    }

    fn operation(&mut self) -> Result<(), Fault> {
        let member = usize::try_from(self.rng.draw() >> 1).unwrap_or(0) % self.nodes.len().max(1);
        if self.rng.chance(self.profile.losses) {
            self.lose(member);
            return Ok(());
        }
        match self.rng.below(10) {
            0..=4 => self.commit(),
            5..=6 => {
                self.resubscribe(member);
                Ok(())
            }
            7 => {
                self.ask_again(member);
                Ok(())
            }
            8 if self.profile.stalls => {
                let time = self.rng.time(Duration::from_secs(30));
                self.nodes[member].connection.stall(self.now, time);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Publishes some edits, at once or one replica after the other.
    fn commit(&mut self) -> Result<(), Fault> {
        for _ in 0..=self.rng.below(3) {
            self.world.edit(&mut self.rng);
        }
        self.publish()
    }

    fn publish(&mut self) -> Result<(), Fault> {
        let before = if self.rng.chance(80) { Arc::clone(&self.latest) } else { Arc::default() };
        self.latest = Arc::new(self.world.snapshot(&before));
        for number in 0..self.replicas.len() {
            let lag =
                if number == 0 { Duration::ZERO } else { self.rng.time(Duration::from_secs(5)) };
            let replica = &mut self.replicas[number];
            let last = replica.coming.last().map_or(self.now, |(at, _)| *at);
            replica.coming.push((last.max(self.now + lag), Arc::clone(&self.latest)));
        }
        self.arrive()
    }

    /// Makes the replicas publish the snapshots that have reached them.
    fn arrive(&mut self) -> Result<(), Fault> {
        for (number, replica) in self.replicas.iter_mut().enumerate() {
            while replica.coming.first().is_some_and(|(at, _)| *at <= self.now) {
                replica.published = replica.coming.remove(0).1;
                for member in self.nodes.iter_mut().filter(|it| it.replica == number) {
                    member.connection.publish(self.now, &replica.published)?;
                }
            }
        }
        Ok(())
    }

    fn lose(&mut self, member: usize) {
        let replica = usize::try_from(self.rng.draw() >> 1).unwrap_or(0) % self.replicas.len();
        let back = self.rng.time(Duration::from_secs(20));
        let member = &mut self.nodes[member];
        member.connection.cut(self.now);
        member.replica = replica;
        member.opens = Some(self.now + back);
    }

    /// Changes the subscription to one of the types that the client may choose.
    fn resubscribe(&mut self, member: usize) {
        let free: &[&str] = match self.profile.style {
            SubscriptionStyle::Random => &TYPES,
            SubscriptionStyle::Envoy | SubscriptionStyle::Grpc => &["sds", "rtds"],
        };
        let short = *self.rng.one_of(free);
        let interest = self.interest(short);
        self.nodes[member].connection.client.want(&type_url(short), interest);
    }

    fn interest(&mut self, short: &str) -> Interest {
        let letter = if short == "eds" { "c" } else { &short[..1] };
        let count = self.rng.below(4);
        let names = (0..count).map(|_| format!("{letter}{}", self.rng.below(7)).into());
        let names = names.collect();
        // Only a type whose empty list means everything, or a named wildcard, is for all.
        Interest { all: self.rng.chance(30), names }
    }

    fn ask_again(&mut self, member: usize) {
        let client = &mut self.nodes[member].connection.client;
        let types: Vec<_> = client.types().cloned().collect();
        if types.is_empty() {
            return;
        }
        let url = self.rng.one_of(&types);
        let names: Vec<_> = client.interest(url).names.into_iter().collect();
        let name =
            if names.is_empty() { "none".into() } else { Arc::clone(self.rng.one_of(&names)) };
        client.ask_again(url, &name);
    }

    /// Lets time pass, with everything that happens in it.
    fn pass(&mut self, time: Duration) -> Result<(), Fault> {
        let end = self.now + time;
        loop {
            self.open_due();
            self.arrive()?;
            for member in &mut self.nodes {
                member.connection.run(self.now, &mut self.rng)?;
            }
            match self.wake().filter(|wake| *wake <= end) {
                Some(wake) => self.now = wake,
                None => break,
            }
        }
        self.now = end;
        Ok(())
    }

    fn open_due(&mut self) {
        for member in &mut self.nodes {
            if member.opens.is_some_and(|at| at <= self.now) {
                member.opens = None;
                let published = Arc::clone(&self.replicas[member.replica].published);
                member.connection.open(self.now, &published);
            }
        }
    }

    fn wake(&self) -> Option<Time> {
        let coming = self.replicas.iter().filter_map(|it| it.coming.first()).map(|(at, _)| *at);
        let nodes = self.nodes.iter().flat_map(|it| [it.opens, it.connection.wake(self.now)]);
        coming.chain(nodes.flatten()).min()
    }

    /// Replaces bad bodies, waits until all waits are over, and checks that nothing moves any more.
    fn come_to_rest(&mut self) -> Result<(), Fault> {
        self.world.replace_bad();
        self.publish()?;
        for member in 0..self.nodes.len() {
            if !self.nodes[member].connection.is_open() && self.nodes[member].opens.is_none() {
                self.lose(member);
            }
        }
        self.pass(Duration::from_secs(180))?;
        self.nodes.iter().try_for_each(|member| member.connection.check_settled())?;
        let before = self.responses();
        self.pass(Duration::from_secs(600))?;
        if self.responses() != before {
            return Err(Fault("something is sent although nothing changes (S-106)".to_owned()));
        }
        self.nodes.iter().try_for_each(|member| member.connection.check_settled())
    }

    fn responses(&self) -> usize {
        self.nodes.iter().map(|member| member.connection.responses).sum()
    }
}

impl History for Fleet {
    fn record(&mut self) {
        for member in &mut self.nodes {
            member.connection.trace.get_or_insert_default();
        }
    }

    fn trace(&self) -> Vec<String> {
        let mut lines: Vec<_> =
            self.nodes.iter().filter_map(|it| it.connection.trace.clone()).flatten().collect();
        // The sort is stable, so that lines of one stream keep their order.
        lines.sort_by(|one, other| one[..9].cmp(&other[..9]));
        lines.insert(0, format!("{:?}", self.profile));
        lines
    }

    fn live(&mut self, operations: u64) -> Result<(), Fault> {
        self.subscribe_first();
        for _ in 0..operations {
            let pause = *self.rng.one_of(&[0, 10, 500, 4000, 15_000]);
            let pause = self.rng.time(Duration::from_millis(pause + 1));
            self.pass(pause)?;
            self.operation()?;
        }
        self.come_to_rest()
    }
}
