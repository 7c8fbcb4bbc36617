//! A server's machine beside one that shares nothing, and what both must agree on.
//!
//! Streams in the same state share their responses; a stream of its own works everything out by
//! itself. Whoever drives a [`Twin`] drives one of each, and every response and event must be the
//! same. The edits of the demand are added up, too: they must come to what the machine says is
//! wanted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chancery_core::server::{
    DemandEdit, Event, Input, Machine, NamesEdit, Response, Settings, Violation,
};
use chancery_core::{Scope, Time, TypeUrl, Variant};

/// A server's machine beside one that shares nothing.
#[derive(Debug)]
pub(crate) struct ComparedMachine {
    machine: Machine,
    alone: Machine,
    demand: BTreeMap<TypeUrl, DemandSum>,
    fault: Option<String>,
}

/// The sum of all edits of one type.
#[derive(Debug, Default)]
struct DemandSum {
    wildcard: bool,
    names: BTreeSet<Arc<str>>,
}

impl ComparedMachine {
    /// Two machines of a stream that was just opened.
    pub(crate) fn new(variant: Variant, scope: Scope, settings: Arc<Settings>) -> Self {
        let alone = Settings { share_responses: false, ..(*settings).clone() };
        Self {
            machine: Machine::new(variant, scope.clone(), settings),
            alone: Machine::new(variant, scope, Arc::new(alone)),
            demand: BTreeMap::new(),
            fault: None,
        }
    }

    /// The machine that shares.
    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// What the two do not agree on, once there is something.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Hands an input to both.
    pub(crate) fn handle(&mut self, now: Time, input: Input) -> Result<Vec<Event>, Violation> {
        let alone = self.alone.handle(now, input.clone());
        let events = self.machine.handle(now, input);
        self.compare("it says of an input", &events, &alone);
        for event in events.iter().flatten() {
            if let Event::Subscribed { demand, .. } = event {
                self.demand.entry(demand.type_url.clone()).or_default().apply(demand);
                self.check_demand(&demand.type_url);
            }
        }
        events
    }

    /// The next response of both.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Response> {
        let alone = self.alone.poll(now);
        let response = self.machine.poll(now);
        self.compare("it responds", &response, &alone);
        response
    }

    /// Whether both say that all has landed.
    pub(crate) fn landed(&mut self) -> Option<Event> {
        let (event, alone) = (self.machine.landed(), self.alone.landed());
        self.compare("it says after polling", &event, &alone);
        event
    }

    /// When both are to be polled again.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.machine.deadline()
    }

    fn compare<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, shared: &T, alone: &T) {
        if shared != alone && self.fault.is_none() {
            self.fault = Some(format!("{what} {shared:?}, and without sharing {alone:?}"));
        }
    }

    fn check_demand(&mut self, type_url: &TypeUrl) {
        let Some(demand) = self.demand.get(type_url) else { return };
        let Some(wanted) = self.machine.wanted(type_url) else { return };
        let names: BTreeSet<Arc<str>> = wanted.names().map(Arc::from).collect();
        let is_same = wanted.everything() == demand.wildcard && names == demand.names;
        // A VHDS stream is given names that it did not ask for (T-20).
        if !is_same && self.fault.is_none() && type_url.short() != "vhds" {
            self.fault = Some(format!("the edits come to {demand:?}, and it wants {names:?}"));
        }
    }
}

impl DemandSum {
    fn apply(&mut self, edit: &DemandEdit) {
        self.wildcard = edit.wildcard;
        match &edit.names {
            NamesEdit::All(names) => self.names = names.iter().cloned().collect(),
            NamesEdit::Change { added, removed } => {
                self.names.extend(added.iter().cloned());
                for name in removed {
                    self.names.remove(name);
                }
            }
        }
    }
}
