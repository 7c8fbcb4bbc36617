//! The longest time that a stream may take (C-102).

use std::time::Duration;

/// The limits of `max_stream_duration` of a route. A limit of 0 means none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamLimits {
    /// `grpc_timeout_header_max`; if it is set, the other limits do not count.
    pub grpc_timeout_header_max: Option<Duration>,
    /// `max_stream_duration`; if it is set, that of the connection manager does not count.
    pub max_stream_duration: Option<Duration>,
}

impl StreamLimits {
    /// The time that a call may take, from that of the application and that of the connection manager;
    /// `None` is no limit. The application's time is never made longer.
    pub fn timeout(
        &self,
        application: Option<Duration>,
        manager: Option<Duration>,
    ) -> Option<Duration> {
        let limit = self.grpc_timeout_header_max.or(self.max_stream_duration).or(manager);
        let limit = limit.filter(|limit| !limit.is_zero());
        [application, limit].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_grfc_a31() {
        let s = |seconds: u64| Some(Duration::from_secs(seconds));
        let rows = [
            (None, None, None, None),
            (None, None, s(0), None),
            (None, None, s(10), s(10)),
            (None, s(0), s(7), None),
            (None, s(10), s(7), s(10)),
            (s(20), None, None, s(20)),
            (s(20), None, s(0), s(20)),
            (s(20), None, s(10), s(10)),
            (s(20), s(0), s(7), s(20)),
            (s(20), s(10), s(7), s(10)),
        ];
        for (application, grpc_timeout_header_max, stream, expected) in rows {
            // The stream's limit is the route's, or else the connection manager's.
            for (max_stream_duration, manager) in [(stream, s(3)), (None, stream)] {
                let limits = StreamLimits { grpc_timeout_header_max, max_stream_duration };
                let is_default = stream.is_none() && manager.is_some();
                if is_default && grpc_timeout_header_max.is_none() {
                    continue; // No row has neither of the two.
                }
                assert_eq!(limits.timeout(application, manager), expected, "{limits:?}");
            }
        }
        // The application's time is not made longer.
        let limits = StreamLimits { grpc_timeout_header_max: s(30), max_stream_duration: None };
        assert_eq!(limits.timeout(s(20), None), s(20));
        assert_eq!(limits.timeout(s(0), None), s(0));
    }
}
