//! Policies that a program adds, by the names that configurations have for them (C-112, gRFC A52): the
//! end of the type URL of a `TypedStruct`. Not here: how resources are read.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::policy::{Balancer, PolicyConfig};

/// Makes the policies of one name.
///
/// A policy is a [`Balancer`]. One that is connected to all of its endpoints is a
/// [`ConnectAll`](super::ConnectAll) with a [`Choose`](super::Choose) of its own; one that leaves part of
/// its work to others has [`Switch`](super::Switch)es. `tests/balancing/custom.rs` has an example of
/// each.
pub trait PolicyFactory: Send + Sync + fmt::Debug {
    /// Returns the name, as `example.com/orders.ByShard` without what is before the `/`.
    fn name(&self) -> &str;

    /// Reads a configuration, which is the JSON of a `Struct`. The policy has it by
    /// [`CustomPolicy::config`].
    ///
    /// # Errors
    ///
    /// If it is not valid: the cluster is rejected for this reason.
    fn read(&self, json: &str) -> Result<Arc<dyn Any + Send + Sync>, String>;

    /// Returns a policy that was not updated yet.
    fn policy(&self) -> Box<dyn Balancer>;
}

/// The configuration of a policy that a program has added.
#[derive(Clone)]
pub struct CustomPolicy {
    factory: Arc<dyn PolicyFactory>,
    json: Arc<str>,
    config: Arc<dyn Any + Send + Sync>,
}

/// The policies that a program has added.
#[derive(Clone, Debug, Default)]
pub struct CustomPolicies(BTreeMap<String, Arc<dyn PolicyFactory>>);

impl CustomPolicies {
    /// Adds a policy. It replaces another one of the same name.
    #[must_use]
    pub fn with(mut self, factory: impl PolicyFactory + 'static) -> Self {
        self.0.insert(factory.name().to_owned(), Arc::new(factory));
        self
    }

    /// Reads the configuration of a policy; `None` if nobody has added one of this name.
    ///
    /// # Errors
    ///
    /// If its factory says that it is not valid.
    pub fn read(&self, name: &str, json: &str) -> Option<Result<PolicyConfig, String>> {
        let factory = self.0.get(name)?;
        let config = factory.read(json).map(|config| {
            let (factory, json) = (Arc::clone(factory), json.into());
            PolicyConfig::Custom(CustomPolicy { factory, json, config })
        });
        Some(config)
    }
}

impl CustomPolicy {
    /// Returns the name of the policy.
    pub fn name(&self) -> &str {
        self.factory.name()
    }

    /// Returns the configuration that the factory has read, if it is of this type.
    pub fn config<T: 'static>(&self) -> Option<&T> {
        self.config.downcast_ref()
    }

    pub(super) fn policy(&self) -> Box<dyn Balancer> {
        self.factory.policy()
    }
}

impl PartialEq for CustomPolicy {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name() && self.json == other.json
    }
}

impl fmt::Debug for CustomPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CustomPolicy").field(&self.name()).field(&self.json).finish()
    }
}
