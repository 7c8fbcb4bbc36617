//! The goals: the measured quantity, the required value, and the hoped-for value. All values are
//! upper bounds.

/// One goal, or one part of a goal that has several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spec {
    pub(crate) goal: &'static str,
    /// The name of this part, if the goal has several.
    pub(crate) part: &'static str,
    pub(crate) what: &'static str,
    pub(crate) must: f64,
    pub(crate) hope: Option<f64>,
    /// The unit of the value; empty for a ratio.
    pub(crate) unit: &'static str,
}

/// The goal, or this part of it.
pub(crate) fn spec(goal: &str, part: &str) -> Option<&'static Spec> {
    SPECS.iter().find(|spec| spec.goal == goal && spec.part == part)
}

/// Every goal, in the order of the document.
pub(crate) const SPECS: &[Spec] = &[
    of("G1", "", "CPU per message, 1.1 KB delta to 1,000 ACKing streams, over bare h2", 1.3)
        .hope(1.15),
    of("G2", "", "CPU per message of the same, over go-control-plane", THIRD).hope(1.0 / 6.0),
    of("G3", "", "CPU per response, 3.2 MB SotW to 200 streams, over the plain TCP loop", 1.8)
        .hope(1.4),
    of("G4", "", "memory growth during that, over streams × payload", 0.05).hope(0.01),
    of("G5", "cpu", "CPU per response of the same, over go-control-plane", 0.25).hope(0.125),
    of("G5", "memory", "peak memory of the same, over go-control-plane", 0.1).hope(0.02),
    of("G6", "", "memory per idle ADS stream of four types on its own connection", 32.0)
        .hope(16.0)
        .unit("KB"),
    of("G7", "", "the same over go-control-plane", THIRD).hope(0.125),
    of("G8", "", "memory per subscribed name and stream, beyond the first 100 names", 40.0)
        .hope(10.0)
        .unit("B"),
    of("G9", "", "exponent of CPU per change in resources, 1k to 100k, delta, 100 streams", 0.15)
        .hope(0.05),
    of("G10", "snapshot", "CPU per change at 100k, over go-control-plane's snapshot cache", 0.01),
    of("G10", "linear", "CPU per change at 100k, over go-control-plane's linear cache", THIRD),
    of("G11", "", "exponent of fan-out CPU in streams, 100 to 10,000", 1.25).hope(1.18),
    of("G12", "", "publish to the last of 1,000 clients after idle, over the TCP loop", 2.0)
        .hope(1.5),
    of("G13", "", "cold start, 200 × 3.2 MB: the median client over the last", 0.6).hope(0.5),
    of("G14", "", "file rename to first receipt, 10,000 resources, settling excluded", 20.0)
        .hope(5.0)
        .unit("ms"),
    of("G15", "bytes", "resources sent to 1,000 clients that return with 10,000 names", 0.0)
        .unit("B"),
    of("G15", "cpu", "CPU of that, over go-control-plane", THIRD),
    of("G16", "", "p99 with 10 stalled readers among 1,000, over the run without them", 1.1),
    of("G17", "", "start to `/ready` with 10,000 clusters in YAML", 1.5).hope(0.5).unit("s"),
    of(
        "G18",
        "cpu",
        "CPU per message to 10,000 nodes with one resource each, over one audience",
        1.3,
    )
    .hope(1.1),
    of(
        "G18",
        "memory",
        "memory of such a node over a base of 1,000, beyond that of its stream",
        8.0,
    )
    .hope(4.0)
    .unit("KB"),
    of("G18", "go cpu", "CPU per message of the same, over go-control-plane", 0.1),
    of("G18", "go memory", "peak memory of the same, over go-control-plane", 0.1),
    of("G19", "start", "start of a fleet with the gate, over the start without it", 1.3),
    of("G19", "check", "`chancery check` of that fleet, over the start without the gate", 1.5),
    of("G19", "edit", "an endpoint set among 100,000 resources to first receipt, gate on", 20.0)
        .hope(5.0)
        .unit("ms"),
    of("G20", "summary", "CPU of `/api/v1/status`, 10,000 nodes × 4 types × 100 resources", 50.0)
        .hope(25.0)
        .unit("ms"),
    of("G20", "node", "CPU of `/api/v1/nodes/ID` there", 5.0).hope(2.5).unit("ms"),
    of("G20", "memory", "memory of status there, for each node", 3.0).hope(1.0).unit("KB"),
    of("G21", "push", "change to the last of 1,000 clients, 10 readers of events, over none", 1.1),
    of("G21", "missed", "events of 10,000 in a second that a reader misses", 0.0),
    of("G22", "", "core used by reports of 10,000 clients on 20 clusters every 10 s", 0.3)
        .hope(0.15),
    of(
        "G23",
        "tonic cpu",
        "CPU of a unary call, 64 at a time, over a plain channel of tonic",
        1.15,
    )
    .hope(1.05),
    of("G23", "tonic p99", "p99 of the same, over the same", 1.2).hope(1.05),
    of("G23", "go cpu", "CPU of the same, over gRPC for Go with xDS", 1.0).hope(0.5),
    of("G24", "", "memory of an idle channel with 100 clusters of 20 endpoints", 2.0).unit("MB"),
    of("G25", "", "core used by updates of 1,000 endpoints, one replaced each 10 ms", 0.05),
    of("G25", "go", "CPU of the same, over gRPC for Go with xDS", 1.0),
];

const THIRD: f64 = 1.0 / 3.0;

const fn of(goal: &'static str, part: &'static str, what: &'static str, must: f64) -> Spec {
    Spec { goal, part, what, must, hope: None, unit: "" }
}

impl Spec {
    const fn hope(self, hope: f64) -> Self {
        Self { hope: Some(hope), ..self }
    }

    const fn unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_goal_of_the_issue_is_there_once() {
        for number in 1..=25 {
            let goal = format!("G{number}");
            assert!(SPECS.iter().any(|spec| spec.goal == goal), "{goal}");
        }
        for spec in SPECS {
            let same =
                SPECS.iter().filter(|other| (other.goal, other.part) == (spec.goal, spec.part));
            assert_eq!(same.count(), 1, "{} {}", spec.goal, spec.part);
            assert!(spec.hope.is_none_or(|hope| hope < spec.must), "{}", spec.goal);
        }
    }
}
