//! The profile of a seed: the client, the network and the world, as they stay for a whole history.

use std::sync::Arc;
use std::time::Duration;

use chancery_core::server::Settings;
use chancery_core::{Node, Variant};

use super::rng::Rng;
use super::world::Dangers;
use crate::client::Quirks;

/// The way in which a client chooses its subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionStyle {
    /// Random names of all types.
    Random,
    /// All clusters and listeners, and the resources they refer to.
    Envoy,
    /// One listener, and the resources that follow from it.
    Grpc,
}

/// Everything that stays the same for one seed.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The variant of the protocol.
    pub variant: Variant,
    /// The way in which subscriptions are chosen.
    pub style: SubscriptionStyle,
    /// The differences between the clients and simple ones.
    pub quirks: Quirks,
    /// The difficulties among the resources.
    pub dangers: Dangers,
    /// The node of the client.
    pub node: Arc<Node>,
    /// The server's settings.
    pub settings: Arc<Settings>,
    /// The longest delay of a message.
    pub delay: Duration,
    /// The number of responses that fit on the wire.
    pub window: usize,
    /// True if clients pause reading at times.
    pub stalls: bool,
    /// The share of operations in which a stream is lost, in percent.
    pub losses: u64,
}

impl Profile {
    /// Draws a profile.
    pub fn new(rng: &mut Rng) -> Self {
        let variant = *rng.one_of(&[Variant::Sotw, Variant::Delta]);
        let style = *rng.one_of(&[
            SubscriptionStyle::Random,
            SubscriptionStyle::Envoy,
            SubscriptionStyle::Grpc,
        ]);
        let dangers = Dangers { bad: rng.chance(40), ttl: rng.chance(20) };
        let features = match rng.below(3) {
            _ if dangers.ttl => {
                &["xds.config.supports-resource-ttl", "xds.config.resource-in-sotw"][..]
            }
            0 => &["xds.config.resource-in-sotw"][..],
            _ => &[][..],
        };
        let client_features = features.iter().map(|it| (*it).to_owned()).collect();
        let node = Node { id: "node".to_owned(), client_features, ..Node::default() };
        Self {
            variant,
            style,
            quirks: quirks(rng),
            dangers,
            node: Arc::new(node),
            settings: Arc::new(settings(rng)),
            delay: Duration::from_millis(*rng.one_of(&[1, 50, 1000])),
            window: usize::try_from(1 + rng.below(3)).unwrap_or(1),
            // A client that reads too late loses resources with a TTL, and the server cannot know.
            stalls: rng.chance(30) && !dangers.ttl,
            losses: *rng.one_of(&[0, 5, 15]),
        }
    }

    pub(super) fn delay(&self, rng: &mut Rng) -> Duration {
        rng.time(self.delay)
    }
}

fn quirks(rng: &mut Rng) -> Quirks {
    Quirks {
        star: rng.chance(30),
        foreign_nonce: rng.chance(20),
        forgetful: rng.chance(20),
        blank: rng.chance(10),
        separate: rng.chance(30),
        piecemeal: rng.chance(50),
    }
}

fn settings(rng: &mut Rng) -> Settings {
    let mut settings = Settings { report_missing: rng.chance(20), ..Settings::default() };
    if rng.chance(20) {
        settings.max_response_bytes = 200;
    }
    settings
}
