//! The metrics of a server.

use std::time::Duration;

use prometheus_client::registry::Registry;

use super::within;

/// The metrics of a server, as text.
pub(crate) struct Scraped(pub(crate) Registry);

impl Scraped {
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.0).unwrap();
        text
    }

    /// Waits until the metrics have this line.
    pub(crate) async fn has(&self, line: &str) {
        let seen = async {
            while !self.text().lines().any(|it| it == line) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        within(seen).await;
    }

    /// Waits until a metric has this value.
    pub(crate) async fn has_at_least(&self, name: &str, least: usize) {
        let seen = async {
            while self.value(name).is_none_or(|value| value < least) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        within(seen).await;
    }

    pub(crate) fn value(&self, name: &str) -> Option<usize> {
        self.text().lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    }
}
