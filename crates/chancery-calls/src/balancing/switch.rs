//! A child whose policy may become one of another kind: the old one takes the calls until the new one
//! can, so that no call fails because of the change.

use std::sync::Arc;

use chancery_core::Time;

use super::connectivity::{Connectivity, SubchannelState};
use super::context::{Context, Part, SubchannelId};
use super::description::{ChildName, DescribedChild, Description, TreePart, Turn};
use super::node::{Branch, Node, PolicyTarget};
use super::owners::Owners;
use super::picker::{Picker, Wake};
use super::policy::{Balancer, PolicyConfig, Update};

/// The policy of a child, and the one that is to replace it.
#[derive(Debug)]
pub struct Switch {
    config: PolicyConfig,
    current: Box<dyn Balancer>,
    pending: Option<(PolicyConfig, Box<dyn Balancer>)>,
    /// True for the parts of the pending policy.
    owners: Owners<bool>,
}

impl Switch {
    /// Returns a child with a policy of this kind, which knows no endpoints yet.
    pub(super) fn of_kind(config: &PolicyConfig) -> Self {
        let current = config.policy();
        Self { config: config.clone(), current, pending: None, owners: Owners::default() }
    }

    /// Lets the newest policy handle an update. One of another kind begins beside the present one,
    /// which goes on with its own configuration and the new endpoints: no call goes to an endpoint that
    /// is gone.
    pub(super) fn update_with(&mut self, update: &Update<'_>, cx: &mut Context<'_>) {
        if !self.newest_config().is_of_kind(update.config) {
            self.drop_pending(cx);
            if !self.config.is_of_kind(update.config) {
                self.pending = Some((update.config.clone(), update.config.policy()));
            }
        }
        if let Some((config, pending)) = &mut self.pending {
            config.clone_from(update.config);
            self.owners.within(&true, cx, |cx| pending.update(update, cx));
        } else {
            self.config.clone_from(update.config);
        }
        let (config, current) = (&self.config, &mut self.current);
        let update = Update { config, ..*update };
        self.owners.within(&false, cx, |cx| current.update(&update, cx));
        self.settle(cx);
    }

    fn newest_config(&self) -> &PolicyConfig {
        self.pending.as_ref().map_or(&self.config, |(config, _)| config)
    }

    fn with_owner(
        &mut self,
        part: Part,
        cx: &mut Context<'_>,
        handle: impl FnOnce(&mut dyn Balancer, &mut Context<'_>),
    ) {
        let Some(is_pending) = self.owners.of(part).copied() else { return };
        let owner = match &mut self.pending {
            Some((_, pending)) if is_pending => pending,
            _ => &mut self.current,
        };
        self.owners.within(&is_pending, cx, |cx| handle(&mut **owner, cx));
        self.settle(cx);
    }

    fn with_both(
        &mut self,
        cx: &mut Context<'_>,
        mut handle: impl FnMut(&mut dyn Balancer, &mut Context<'_>),
    ) {
        let current = &mut self.current;
        self.owners.within(&false, cx, |cx| handle(&mut **current, cx));
        if let Some((_, pending)) = &mut self.pending {
            self.owners.within(&true, cx, |cx| handle(&mut **pending, cx));
        }
        self.settle(cx);
    }

    /// Replaces the policy when the new one has an answer, or the old one has none.
    fn settle(&mut self, cx: &mut Context<'_>) {
        let is_due = |(_, pending): &mut (_, Box<dyn Balancer>)| {
            pending.connectivity() != Connectivity::Connecting
                || self.current.connectivity() != Connectivity::Ready
        };
        let Some((config, pending)) = self.pending.take_if(is_due) else { return };
        self.config = config;
        let mut old = std::mem::replace(&mut self.current, pending);
        self.owners.within(&false, cx, |cx| old.close(cx));
        self.owners.rename(&true, &false);
    }

    fn drop_pending(&mut self, cx: &mut Context<'_>) {
        if let Some((_, mut pending)) = self.pending.take() {
            self.owners.within(&true, cx, |cx| pending.close(cx));
        }
    }
}

impl Node for Switch {
    type Config = PolicyTarget;

    fn new(target: &PolicyTarget) -> Self {
        Self::of_kind(&target.config)
    }

    fn update(&mut self, target: &PolicyTarget, cx: &mut Context<'_>) {
        let note = target.note.as_ref();
        self.update_with(
            &Update { config: &target.config, endpoints: &target.endpoints, note },
            cx,
        );
    }
}

impl Branch for Switch {
    fn subchannel(&mut self, id: SubchannelId, state: &SubchannelState, cx: &mut Context<'_>) {
        let part = Part::Subchannel(id);
        self.with_owner(part, cx, |policy, cx| policy.subchannel(id, state, cx));
    }

    fn ejected(&mut self, id: SubchannelId, is_ejected: bool, cx: &mut Context<'_>) {
        let part = Part::Subchannel(id);
        self.with_owner(part, cx, |policy, cx| policy.ejected(id, is_ejected, cx));
    }

    fn wake(&mut self, wake: Wake, cx: &mut Context<'_>) {
        match wake {
            Wake::Endpoint(id) => {
                self.with_owner(Part::Endpoint(id), cx, |policy, cx| policy.wake(wake, cx));
            }
            Wake::All => self.with_both(cx, |policy, cx| policy.wake(Wake::All, cx)),
            // It is for the cluster, which is above.
            Wake::Session(_) => {}
        }
    }

    fn on_time(&mut self, cx: &mut Context<'_>) {
        self.with_both(cx, |policy, cx| policy.on_time(cx));
    }

    fn deadline(&self) -> Option<Time> {
        let pending = self.pending.as_ref().and_then(|(_, pending)| pending.deadline());
        [self.current.deadline(), pending].into_iter().flatten().min()
    }

    fn connectivity(&self) -> Connectivity {
        self.current.connectivity()
    }

    fn picker(&mut self) -> Arc<dyn Picker> {
        self.current.picker()
    }

    fn describe(&self) -> Description {
        let mut description = described(&self.config, &*self.current);
        if let Some((config, pending)) = &self.pending {
            description.children.push(DescribedChild {
                name: ChildName::Successor,
                turn: Turn::Spare,
                description: Some(described(config, &**pending)),
            });
        }
        description
    }

    fn close(&mut self, cx: &mut Context<'_>) {
        self.drop_pending(cx);
        let current = &mut self.current;
        self.owners.within(&false, cx, |cx| current.close(cx));
    }
}

/// Describes a policy, which does not know its own name.
fn described(config: &PolicyConfig, policy: &dyn Balancer) -> Description {
    let part = TreePart::Policy(config.name().into());
    Description { part, ..policy.describe() }
}
