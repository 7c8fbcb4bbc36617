//! The resources that a client may be about to ask for, because what it has just accepted leads to them.
//!
//! A client that accepts a new cluster asks for its endpoints a moment later, and one that accepts a listener for its
//! routes; one that comes back asks for one type after the other. In between it has all that it asked for, and lacks
//! a part of what it should have. So a stream has not landed until the client has asked, or has let the time for it
//! pass. Nothing that is sent waits for that. Not here: what routes wait for ([`super::warming`]).

use std::time::Duration;

use super::subscriptions::Subscriptions;
use crate::{Api, Link, Resource, Time};

/// The time in which a client that accepted a resource has to ask for what that leads to.
pub(super) const ASKING_GRACE: Duration = Duration::from_millis(250);

/// The resources that a client may be about to ask for.
#[derive(Debug, Default)]
pub(super) struct Asking {
    sought: Option<Box<Sought>>,
    /// The types that the client let the time for pass, a bit for each API. As long as it has no subscription to one of
    /// them, nothing of it is sought any more.
    ignored: u16,
}

#[derive(Debug)]
struct Sought {
    links: Vec<Link>,
    until: Time,
}

/// The links that are sought at once: a client that asks for these asks for the others.
const MOST_LINKS: usize = 16;

/// The resources that are looked at for links. Most have none, or have one that is wanted already.
const MOST_RESOURCES: usize = 256;

impl Asking {
    /// Takes in that the client has these resources from now on.
    pub(super) fn accepted<R: AsRef<Resource>>(
        &mut self,
        now: Time,
        resources: impl Iterator<Item = R>,
        subscriptions: &Subscriptions,
    ) {
        let before = self.sought.take();
        let until = before.as_ref().map_or(now + ASKING_GRACE, |sought| sought.until);
        let mut links = before.map(|sought| sought.links).unwrap_or_default();
        for resource in resources.take(MOST_RESOURCES) {
            let followed = resource.as_ref().facts().links.iter().filter(|link| link.aggregated);
            for link in followed.filter(|link| self.may_ask_for(link, subscriptions)) {
                if links.len() >= MOST_LINKS {
                    break;
                }
                links.push(link.clone());
            }
        }
        if !links.is_empty() {
            // The links that are sought already keep their time: a client that accepts again and again lands in the end.
            self.sought = Some(Box::new(Sought { links, until }));
        }
    }

    fn may_ask_for(&self, link: &Link, subscriptions: &Subscriptions) -> bool {
        match subscriptions.get(&link.type_url) {
            Some(subscription) => !subscription.wants(&link.name),
            None => self.ignored & bit(link.type_url.api()) == 0,
        }
    }

    /// Looks whether the client has asked, or has let the time pass.
    pub(super) fn look(&mut self, now: Time, subscriptions: &Subscriptions) {
        let Some(sought) = &mut self.sought else { return };
        // From the end, so that each link is looked at once.
        while let Some(link) = sought.links.last()
            && subscriptions.get(&link.type_url).is_some_and(|it| it.wants(&link.name))
        {
            sought.links.pop();
        }
        if sought.links.is_empty() {
            self.sought = None;
        } else if now >= sought.until {
            for link in &sought.links {
                self.ignored |= bit(link.type_url.api());
            }
            self.sought = None;
        }
    }

    /// Returns true if the client may be about to ask.
    pub(super) fn is_awaited(&self) -> bool {
        self.sought.is_some()
    }

    /// The time at which nothing is awaited any more.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.sought.as_ref().map(|sought| sought.until)
    }

    /// The bytes that are kept, about. Names are those of resources.
    pub(super) fn held_bytes(&self) -> usize {
        let of =
            |sought: &Sought| size_of::<Sought>() + sought.links.capacity() * size_of::<Link>();
        self.sought.as_deref().map_or(0, of)
    }
}

fn bit(api: Api) -> u16 {
    1 << api as u16
}
