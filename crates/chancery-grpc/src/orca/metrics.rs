//! The metrics of a server, and where a program records them.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Extensions;

/// The load of a server, or the cost of a call of it. What is not set is not reported.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerMetrics {
    /// The part of the processors that is used, from 0; it may be more than 1.
    pub cpu_utilization: Option<f64>,
    /// The part of the memory that is used, from 0 to 1.
    pub mem_utilization: Option<f64>,
    /// The part of its capacity that the program uses, by its own measure, from 0; it may be more than 1.
    pub application_utilization: Option<f64>,
    /// The calls that the server has in a second.
    pub qps: Option<f64>,
    /// Those that end with an error.
    pub eps: Option<f64>,
    /// The parts of other resources that are used, from 0 to 1, by the names of these.
    pub utilization: BTreeMap<String, f64>,
    /// The costs of a call, by names.
    pub request_cost: BTreeMap<String, f64>,
    /// Anything else, by names.
    pub named_metrics: BTreeMap<String, f64>,
}

/// Tells the metrics of a server whenever they are reported: a [`ServerMetricsRecorder`] that the program keeps
/// right, or a function that measures.
pub trait ServerMetricsProvider: Send + Sync + 'static {
    /// Returns the metrics of now.
    fn server_metrics(&self) -> ServerMetrics;
}

/// Records the load of a server, from any thread. Clones record the same.
///
/// A value that cannot be, as a part below 0, is not recorded; `None` takes a value back.
///
/// ```
/// use chancery_grpc::orca::{ServerMetricsProvider, ServerMetricsRecorder};
///
/// let load = ServerMetricsRecorder::default();
/// load.set_application_utilization(0.7);
/// load.set_qps(120.0);
/// load.set_named_utilization("disk", 0.4);
/// load.set_named_utilization("disk", None);
/// assert_eq!(load.server_metrics().qps, Some(120.0));
/// assert!(load.server_metrics().utilization.is_empty());
/// ```
#[derive(Clone, Default)]
pub struct ServerMetricsRecorder(Arc<Mutex<ServerMetrics>>);

/// Records what is reported with the end of one call: everything that a [`ServerMetricsRecorder`] takes, and the
/// costs of the call. [`CallMetricsLayer`](super::CallMetricsLayer) puts one into each request.
///
/// ```
/// use chancery_grpc::orca::CallMetricsRecorder;
/// use tonic::{Request, Response, Status};
///
/// async fn find(request: Request<String>) -> Result<Response<String>, Status> {
///     if let Some(metrics) = CallMetricsRecorder::of(request.extensions()) {
///         metrics.set_application_utilization(0.3);
///         metrics.set_request_cost("rows", 17.0);
///     }
///     Ok(Response::new(String::new()))
/// }
/// # let _ = find;
/// ```
#[derive(Clone, Default)]
pub struct CallMetricsRecorder(ServerMetricsRecorder);

impl ServerMetrics {
    /// Takes over what others say.
    pub(super) fn merge(&mut self, others: Self) {
        self.cpu_utilization = others.cpu_utilization.or(self.cpu_utilization);
        self.mem_utilization = others.mem_utilization.or(self.mem_utilization);
        self.application_utilization =
            others.application_utilization.or(self.application_utilization);
        self.qps = others.qps.or(self.qps);
        self.eps = others.eps.or(self.eps);
        self.utilization.extend(others.utilization);
        self.request_cost.extend(others.request_cost);
        self.named_metrics.extend(others.named_metrics);
    }
}

impl ServerMetricsRecorder {
    /// Records the part of the processors that is used.
    pub fn set_cpu_utilization(&self, value: impl Into<Option<f64>>) {
        set(&mut self.lock().cpu_utilization, value, is_load);
    }

    /// Records the part of the memory that is used.
    pub fn set_memory_utilization(&self, value: impl Into<Option<f64>>) {
        set(&mut self.lock().mem_utilization, value, is_part);
    }

    /// Records the part of its capacity that the program uses.
    pub fn set_application_utilization(&self, value: impl Into<Option<f64>>) {
        set(&mut self.lock().application_utilization, value, is_load);
    }

    /// Records the calls of a second. Without them `weighted_round_robin` makes no weight of a report.
    pub fn set_qps(&self, value: impl Into<Option<f64>>) {
        set(&mut self.lock().qps, value, is_load);
    }

    /// Records the calls of a second that end with an error.
    pub fn set_eps(&self, value: impl Into<Option<f64>>) {
        set(&mut self.lock().eps, value, is_load);
    }

    /// Records the part of another resource that is used.
    pub fn set_named_utilization(&self, name: impl Into<String>, value: impl Into<Option<f64>>) {
        set_named(&mut self.lock().utilization, name, value, is_part);
    }

    /// No code of others runs under the lock.
    fn lock(&self) -> MutexGuard<'_, ServerMetrics> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CallMetricsRecorder {
    /// Returns the recorder of a call, from the extensions of its request; `None` if the server has no
    /// [`CallMetricsLayer`](super::CallMetricsLayer).
    pub fn of(extensions: &Extensions) -> Option<&Self> {
        extensions.get()
    }

    /// Records a cost of the call.
    pub fn set_request_cost(&self, name: impl Into<String>, value: impl Into<Option<f64>>) {
        set_named(&mut self.0.lock().request_cost, name, value, f64::is_finite);
    }

    /// Records anything else.
    pub fn set_named_metric(&self, name: impl Into<String>, value: impl Into<Option<f64>>) {
        set_named(&mut self.0.lock().named_metrics, name, value, f64::is_finite);
    }
}

impl Deref for CallMetricsRecorder {
    type Target = ServerMetricsRecorder;

    fn deref(&self) -> &ServerMetricsRecorder {
        &self.0
    }
}

impl ServerMetricsProvider for ServerMetricsRecorder {
    fn server_metrics(&self) -> ServerMetrics {
        self.lock().clone()
    }
}

impl<F: Fn() -> ServerMetrics + Send + Sync + 'static> ServerMetricsProvider for F {
    fn server_metrics(&self) -> ServerMetrics {
        self()
    }
}

fn set(field: &mut Option<f64>, value: impl Into<Option<f64>>, can_be: fn(f64) -> bool) {
    let value = value.into();
    if value.is_none_or(can_be) {
        *field = value;
    }
}

fn set_named(
    fields: &mut BTreeMap<String, f64>,
    name: impl Into<String>,
    value: impl Into<Option<f64>>,
    can_be: fn(f64) -> bool,
) {
    match value.into() {
        Some(value) if can_be(value) => drop(fields.insert(name.into(), value)),
        Some(_) => {}
        None => drop(fields.remove(&name.into())),
    }
}

fn is_load(value: f64) -> bool {
    value.is_finite() && value >= 0.0
}

fn is_part(value: f64) -> bool {
    (0.0..=1.0).contains(&value)
}

impl fmt::Debug for ServerMetricsRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerMetricsRecorder").field(&*self.lock()).finish()
    }
}

impl fmt::Debug for CallMetricsRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CallMetricsRecorder").field(&*self.0.lock()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_cannot_be_leaves_the_one_before() {
        let of = CallMetricsRecorder::default();
        for wrong in [0.5, -0.1, f64::NAN, f64::INFINITY] {
            of.set_cpu_utilization(wrong);
            of.set_memory_utilization(wrong);
            of.set_application_utilization(wrong);
            of.set_qps(wrong);
            of.set_eps(wrong);
            of.set_named_utilization("disk", wrong);
            of.set_named_metric("queue", wrong.abs());
            of.set_request_cost("rows", wrong.abs());
        }
        of.set_memory_utilization(1.5);
        of.set_named_utilization("disk", 1.5);
        let named = |name: &str, value| BTreeMap::from([(name.to_owned(), value)]);
        let expected = ServerMetrics {
            cpu_utilization: Some(0.5),
            mem_utilization: Some(0.5),
            application_utilization: Some(0.5),
            qps: Some(0.5),
            eps: Some(0.5),
            utilization: named("disk", 0.5),
            request_cost: named("rows", 0.1),
            named_metrics: named("queue", 0.1),
        };
        assert_eq!(of.server_metrics(), expected);
        of.set_cpu_utilization(2.0);
        assert_eq!(of.server_metrics().cpu_utilization, Some(2.0), "more than one processor");
    }

    #[test]
    fn a_value_can_be_taken_back() {
        let of = CallMetricsRecorder::default();
        for value in [Some(0.5), None] {
            of.set_cpu_utilization(value);
            of.set_named_metric("queue", value);
        }
        assert_eq!(of.server_metrics(), ServerMetrics::default());
    }

    #[test]
    fn those_of_the_call_replace_those_of_the_server() {
        let named = |pairs: &[(&str, f64)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
        };
        let mut server = ServerMetrics {
            cpu_utilization: Some(0.1),
            qps: Some(3.0),
            utilization: named(&[("a", 0.1), ("b", 0.2)]),
            ..ServerMetrics::default()
        };
        let call = ServerMetrics {
            cpu_utilization: Some(0.2),
            eps: Some(1.0),
            utilization: named(&[("b", 0.3)]),
            ..ServerMetrics::default()
        };
        server.merge(call);
        let merged = ServerMetrics {
            cpu_utilization: Some(0.2),
            qps: Some(3.0),
            eps: Some(1.0),
            utilization: named(&[("a", 0.1), ("b", 0.3)]),
            ..ServerMetrics::default()
        };
        assert_eq!(server, merged);
    }
}
