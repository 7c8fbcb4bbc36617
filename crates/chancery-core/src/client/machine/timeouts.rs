//! All that follows from the time alone: resources that did not come ([does not exist], C-065,
//! C-066, [gRFC A88]), those that were not renewed ([TTL], C-045), and servers that say nothing.
//!
//! Not here: how the times are kept (`servers`, `cache`).
//!
//! [does not exist]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#knowing-when-a-requested-resource-does-not-exist
//! [TTL]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#ttl
//! [gRFC A88]: https://github.com/grpc/proposal/blob/master/A88-xds-data-error-handling.md

use super::Machine;
use crate::client::cache::{OnError, Statement};
use crate::client::error::{ErrorKind, WatchError};
use crate::client::event::Event;
use crate::client::ids::ServerId;
use crate::client::setup::Setup;
use crate::client::watching::is_collection;
use crate::{ResourceName, Time, TypeUrl};

impl Machine {
    pub(super) fn pass_time(&mut self, now: Time) {
        self.watchers.stop_waiting(now, self.setup.settings.patience);
        self.servers.presume_reachable(now);
        while let Some((server, type_url, name)) = self.servers.next_timed_out(now) {
            self.time_out(server, &type_url, &name);
        }
        let setup = &self.setup;
        self.cache.expire(now, &mut self.watchers, |server, type_url, name| {
            let why = "its time to live is over and the server did not renew it";
            let name = name.as_str();
            setup.resource_error(ErrorKind::Missing, server, type_url, name, why)
        });
    }

    /// A resource, or a collection, did not come in time (C-065, C-066). The silence of a server
    /// that is not believed means nothing, and while a source cannot be used, what it does not say
    /// means nothing either (C-043).
    fn time_out(&mut self, server: ServerId, type_url: &TypeUrl, name: &ResourceName) {
        let believing = self.cache.of_name_believing(server, type_url, name);
        let Some(is_usable) = believing.map(|cache| cache.is_usable()) else { return };
        if let Some(collection) = self.cache.collection_mut(type_url, name) {
            let notifier = &mut self.watchers.local_notifier();
            if collection.is_in_parts() {
                collection.set_error(cut_off(&self.setup, server, type_url, name), notifier);
            }
            collection.mark_complete(notifier);
        }
        if is_usable {
            let statement = Statement { server, type_url, name };
            if is_collection(name) {
                self.time_out_members(statement);
            } else {
                self.time_out_resource(statement);
            }
        }
    }

    fn time_out_resource(&mut self, statement: Statement<'_>) {
        let Statement { server, type_url, name } = statement;
        let error = late(&self.setup, server, type_url, name);
        // A resource that the server does not have is a data error, as its removal is (C-070).
        let on_error = if error.is_missing() {
            OnError::of_data(self.setup.features(server))
        } else {
            OnError::Keep
        };
        if self.cache.time_out(statement, error, on_error, &mut self.watchers) {
            let (type_url, name) = (type_url.clone(), name.clone());
            self.events.push(Event::TimedOut { server, type_url, name });
        }
    }

    fn time_out_members(&mut self, statement: Statement<'_>) {
        let Statement { server, type_url, .. } = statement;
        let (setup, asked) = (&self.setup, &self.servers[server]);
        let was_announced = |name: &ResourceName| asked.was_announced(type_url, name);
        let error = |name: &ResourceName| late(setup, server, type_url, name);
        self.cache.time_out_members(statement, was_announced, error, &mut self.watchers);
    }
}

/// Returns the error of a collection of which only a part came in time (S-110).
fn cut_off(setup: &Setup, server: ServerId, type_url: &TypeUrl, name: &ResourceName) -> WatchError {
    let timeout = setup.settings.resource_timeout(setup.features(server));
    let why = format!("only a part of it came, and the rest did not within {timeout:?}");
    setup.resource_error(ErrorKind::Late, server, type_url, name.as_str(), &why)
}

/// Returns the error of a resource that did not come in time.
fn late(setup: &Setup, server: ServerId, type_url: &TypeUrl, name: &ResourceName) -> WatchError {
    let features = setup.features(server);
    let kind = if features.resource_timer_is_transient_error {
        ErrorKind::Late
    } else {
        ErrorKind::Missing
    };
    let why = format!("it did not come within {:?}", setup.settings.resource_timeout(features));
    setup.resource_error(kind, server, type_url, name.as_str(), &why)
}
