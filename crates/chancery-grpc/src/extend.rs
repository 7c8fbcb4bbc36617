//! The parts that a program adds: HTTP filters and balancing policies, by the names that resources have for them.
//!
//! They are for the whole process, as in other implementations of gRPC, and are there before the first channel or
//! server is made: what a resource means must not depend on which channel has read it. Not here: credentials,
//! which each channel and server is given.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use chancery_calls::balancing::{Balancer, CustomPolicies, PolicyFactory};
use chancery_calls::filters::{CustomFilter, FilterConfig};
use http::HeaderMap;
use tonic::Status;

use crate::server::ConnectionInfo;

/// Makes the filters of one type, each of a configuration.
pub trait HttpFilterFactory: fmt::Debug + Send + Sync + 'static {
    /// Returns the name of the message that configures it, or of the type that a `TypedStruct` stands for, as
    /// `example.com.Audit` without what is before the `/` of a type URL.
    fn type_name(&self) -> &str;

    /// Returns true if calls of this side have it. By default both sides do. A listener that asks for a filter on a
    /// side that does not have it is rejected, unless the filter is optional.
    fn is_for(&self, side: CallSide) -> bool {
        let _ = side;
        true
    }

    /// Reads a configuration, of a listener or of a route, which replaces that of the listener.
    ///
    /// # Errors
    ///
    /// If it is not valid: the resource is rejected for this reason.
    fn read(&self, config: FilterMessage<'_>) -> Result<Arc<dyn HttpFilter>, String>;
}

/// A filter with its configuration.
pub trait HttpFilter: fmt::Debug + Send + Sync + 'static {
    /// Sees a call before it is sent by a channel, or answered by a server. It may change the headers, may wait, and
    /// ends the call by an error. The call has the filter once, whatever the number of its attempts.
    fn before<'a>(&'a self, call: &'a mut FilteredCall<'_>) -> FilterFuture<'a>;
}

/// The work of a filter.
pub type FilterFuture<'a> = Pin<Box<dyn Future<Output = Result<(), Status>> + Send + 'a>>;

/// A call as filters see it.
#[derive(Debug)]
#[non_exhaustive]
pub struct FilteredCall<'a> {
    /// The side that the filter runs on.
    pub side: CallSide,
    /// The name of the service, as routes see it.
    pub authority: &'a str,
    /// The path of the method, as `/orders.v1.Orders/Get`.
    pub path: &'a str,
    /// The headers of the request.
    pub headers: &'a mut HeaderMap,
    /// The connection that the call has come by, at a server: addresses, and the certificate of the client.
    pub connection: Option<&'a ConnectionInfo>,
}

/// The side of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallSide {
    /// A channel makes the call.
    Client,
    /// A server answers it.
    Server,
}

/// The configuration of a filter or an audit logger, as the resource has it.
#[derive(Clone, Copy, Debug)]
pub enum FilterMessage<'a> {
    /// The bytes of the message.
    Protobuf(&'a [u8]),
    /// The fields of a `TypedStruct`, as JSON.
    Json(&'a str),
}

/// A filter of the program in a chain.
#[derive(Clone, Debug)]
pub(crate) struct ProgramFilter {
    kind: Arc<str>,
    filter: Arc<dyn HttpFilter>,
}

impl CustomFilter for ProgramFilter {
    fn kind(&self) -> &str {
        &self.kind
    }
}

impl ProgramFilter {
    /// Lets the filter see a call.
    pub(crate) async fn before(&self, mut call: FilteredCall<'_>) -> Result<(), Status> {
        self.filter.before(&mut call).await
    }
}

/// Adds filters to all channels and servers of the process, by the name of their type. Filters of this name that were
/// added before are replaced, for resources that are read from now on.
pub fn register_filter(factory: impl HttpFilterFactory) {
    // The program's own code does not run under the lock.
    let name = factory.type_name().to_owned();
    FILTERS.insert(name, Arc::new(factory));
}

/// Adds a balancing policy to all channels of the process, by its name in `load_balancing_policy`. A policy of this name
/// that was added before is replaced, for clusters that are read from now on.
///
/// `chancery-calls` has what policies are made of.
pub fn register_policy(factory: impl PolicyFactory + 'static) {
    // The program's own code does not run under the lock.
    let named = Named { name: factory.name().to_owned(), factory };
    let mut all = known_policies();
    *all = all.clone().with(named);
}

/// A factory of policies with the name that it said.
#[derive(Debug)]
struct Named<F> {
    name: String,
    factory: F,
}

impl<F: PolicyFactory> PolicyFactory for Named<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn read(&self, json: &str) -> Result<Arc<dyn Any + Send + Sync>, String> {
        self.factory.read(json)
    }

    fn policy(&self) -> Box<dyn Balancer> {
        self.factory.policy()
    }
}

/// The policies that the program has added.
pub(crate) fn policies() -> CustomPolicies {
    known_policies().clone()
}

/// Reads the configuration of a filter that the program has added for this side; `None` if it has added none.
pub(crate) fn read_filter(
    type_name: &str,
    side: Option<CallSide>,
    config: FilterMessage<'_>,
) -> Option<Result<FilterConfig, String>> {
    let factory = FILTERS.get(type_name)?;
    // Routes are read for both sides.
    if side.is_some_and(|side| !factory.is_for(side)) {
        return None;
    }
    let filter = factory.read(config).map(|filter| {
        let kind = factory.type_name().into();
        FilterConfig::Custom(Arc::new(ProgramFilter { kind, filter }))
    });
    Some(filter)
}

static FILTERS: Registry<dyn HttpFilterFactory> = Registry::new();

/// The factories that the program has added, by the names of their types.
pub(crate) struct Registry<F: ?Sized>(Mutex<BTreeMap<String, Arc<F>>>);

impl<F: ?Sized> Registry<F> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Adds a factory, in the place of one that has the name.
    pub(crate) fn insert(&self, name: String, factory: Arc<F>) {
        let replaced = self.lock().insert(name, factory);
        // The program's own code does not run under the lock.
        drop(replaced);
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<F>> {
        self.lock().get(name).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<F>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn known_policies() -> MutexGuard<'static, CustomPolicies> {
    static POLICIES: LazyLock<Mutex<CustomPolicies>> = LazyLock::new(Mutex::default);
    POLICIES.lock().unwrap_or_else(PoisonError::into_inner)
}
