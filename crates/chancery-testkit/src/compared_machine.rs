//! A server's machine that is compared with one that shares nothing with other streams.
//!
//! Streams in the same state share their responses. A [`ComparedMachine`] drives two machines with
//! the same inputs: one that shares and one that works out every response by itself. Their responses
//! and events must be the same. It also adds up the edits of the demand, whose sum must be the
//! demand that the machine states.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chancery_core::server::{
    DemandEdit, Event, Input, Machine, NamesEdit, Response, Settings, Violation,
};
use chancery_core::{Scope, Time, TypeUrl, Variant};

/// A machine that shares responses, and one that does not.
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

    /// The first difference between the two, if there was one.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Gives an input to both.
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

    /// The reason of both to close the stream after polling.
    pub(crate) fn refusal(&mut self) -> Option<Violation> {
        let (refusal, alone) = (self.machine.refusal().cloned(), self.alone.refusal().cloned());
        self.compare("it refuses", &refusal, &alone);
        refusal
    }

    /// The event of both that everything has landed.
    pub(crate) fn landed(&mut self) -> Option<Event> {
        let (event, alone) = (self.machine.landed(), self.alone.landed());
        self.compare("it says after polling", &event, &alone);
        event
    }

    /// The time at which both have to be polled again.
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
        // A VHDS stream gets names that it did not ask for (T-20).
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
