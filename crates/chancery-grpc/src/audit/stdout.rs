//! The audit log of gRPC on stdout: a line of JSON for each verdict.
//!
//! A thread writes the lines, so that no call waits for whoever reads them. Lines that it has no room for are lost,
//! and the log says how many. Not here: other logs.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, SystemTime};

use chancery_calls::filters::rbac::{AuditEvent, AuditLogger};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::timeout;

/// The name of the message that stands for this log.
pub(super) const TYPE_NAME: &str = "envoy.extensions.rbac.audit_loggers.stream.v3.StdoutAuditLog";
/// The lines that wait. Each has a path of a call, a name of a certificate, and two names of the configuration.
const QUEUED: usize = 4096;

/// The log of the process.
static LOG: OnceLock<Arc<StdoutLog>> = OnceLock::new();

/// The sender of lines.
#[derive(Debug)]
struct StdoutLog {
    lines: SyncSender<String>,
    /// The number of lines that were taken for writing.
    taken: AtomicU64,
    /// The number of them that the thread is done with.
    done: watch::Receiver<u64>,
    /// The number of lines that were lost, and that the log has not told yet.
    lost: Arc<AtomicU64>,
}

/// Returns the log.
pub(super) fn logger() -> Arc<dyn AuditLogger> {
    let log = LOG.get_or_init(|| StdoutLog::writing(io::stdout()));
    Arc::clone(log) as Arc<dyn AuditLogger>
}

/// Waits until the lines so far are written, if there is a log, but not longer than this. Those that are left then
/// may be lost.
pub(crate) async fn written(limit: Duration) {
    if let Some(log) = LOG.get() {
        log.written(limit).await;
    }
}

impl StdoutLog {
    /// Returns a log that is written here by a thread. Without one, all lines are lost.
    fn writing(to: impl Write + Send + 'static) -> Arc<Self> {
        let (lines, queue) = sync_channel(QUEUED);
        let (tell, done) = watch::channel(0);
        let lost = Arc::new(AtomicU64::new(0));
        let told = Arc::clone(&lost);
        let thread = thread::Builder::new().name("audit".to_owned());
        if let Err(error) = thread.spawn(move || write_all(&queue, to, &told, &tell)) {
            tracing::error!("there is no audit log: {error}");
        }
        Arc::new(Self { lines, taken: AtomicU64::new(0), done, lost })
    }

    async fn written(&self, limit: Duration) {
        let taken = self.taken.load(Ordering::Acquire);
        let mut done = self.done.clone();
        let is_written = timeout(limit, done.wait_for(|done| *done >= taken)).await;
        if !matches!(is_written, Ok(Ok(_))) {
            let left = taken.saturating_sub(*self.done.borrow());
            tracing::error!("{left} lines of the audit log are not written yet");
        }
    }
}

impl AuditLogger for StdoutLog {
    fn log(&self, event: &AuditEvent<'_>) {
        let line = line(event, SystemTime::now());
        match self.lines.try_send(line) {
            Ok(()) => self.taken.fetch_add(1, Ordering::Release),
            Err(_) => self.lost.fetch_add(1, Ordering::Relaxed),
        };
    }
}

/// A verdict in the form that gRPC has for it.
fn line(event: &AuditEvent<'_>, now: SystemTime) -> String {
    let entry = json!({
        "timestamp": prost_types::Timestamp::from(now).to_string(),
        "rpc_method": event.method,
        "principal": event.principal,
        "policy_name": event.filter,
        "matched_rule": event.policy,
        "authorized": event.is_permitted,
    });
    json!({"grpc_audit_log": entry}).to_string()
}

/// Writes what comes, until nobody sends any more.
fn write_all(
    queue: &Receiver<String>,
    mut to: impl Write,
    lost: &AtomicU64,
    done: &watch::Sender<u64>,
) {
    let mut has_failed = false;
    for line in queue {
        match write(&mut to, line) {
            Ok(()) => {
                has_failed = false;
                tell_lost(&mut to, lost);
            }
            Err(error) => {
                lost.fetch_add(1, Ordering::Relaxed);
                if !std::mem::replace(&mut has_failed, true) {
                    tracing::error!("the audit log cannot be written to stdout: {error}");
                }
            }
        }
        done.send_modify(|done| *done += 1);
    }
}

/// Says how many lines are lost, if there are any of which nothing was said.
fn tell_lost(to: &mut impl Write, lost: &AtomicU64) {
    let count = lost.swap(0, Ordering::Relaxed);
    if count == 0 {
        return;
    }
    tracing::error!("{count} lines of the audit log are lost");
    if write(to, json!({"grpc_audit_log_lost": count}).to_string()).is_err() {
        lost.fetch_add(count, Ordering::Relaxed);
    }
}

/// Writes a line in one piece, so that nothing else of the process comes between.
fn write(to: &mut impl Write, mut line: String) -> io::Result<()> {
    line.push('\n');
    to.write_all(line.as_bytes())?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Mutex;
    use std::sync::mpsc::{Sender, channel};

    use chancery_calls::filters::rbac::{
        ArrivedCall, Audit, AuditCondition, PeerCertificate, PeerIdentity, Permission, Principal,
        Rbac, RbacAction, RbacPolicy,
    };
    use http::HeaderMap;

    use super::*;

    /// A reader that may stop reading for a time.
    struct Stalling {
        written: Sender<String>,
        may_write: Receiver<()>,
        is_stalled: bool,
    }

    impl Write for Stalling {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.is_stalled {
                self.is_stalled = self.may_write.recv().is_err();
            }
            let text = String::from_utf8_lossy(bytes).into_owned();
            self.written.send(text).map_err(|_| io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A log that keeps its lines.
    #[derive(Debug, Default)]
    struct Kept(Mutex<Vec<String>>);

    impl AuditLogger for Kept {
        fn log(&self, event: &AuditEvent<'_>) {
            self.0.lock().expect("no panic").push(line(event, SystemTime::UNIX_EPOCH));
        }
    }

    /// Tells a log of a call that one of two policies permits.
    fn tell(log: Arc<dyn AuditLogger>) {
        let any = |who| RbacPolicy { permissions: vec![Permission::Any], principals: vec![who] };
        let nobody = Principal::Not(Box::new(Principal::Any));
        let policies = [("a".into(), any(nobody)), ("b".into(), any(Principal::Any))];
        let audit = Audit { condition: AuditCondition::Permitted, loggers: vec![log] };
        let headers = HeaderMap::new();
        let here = SocketAddr::from(([127, 0, 0, 1], 1));
        let uris = ["urn:a".to_owned(), "spiffe://a/b".to_owned()];
        let certificate = PeerCertificate { uris: &uris, dns_names: &[], subject: "" };
        let call = ArrivedCall {
            method: "POST",
            authority: "a",
            path: "/a.A/B",
            headers: &headers,
            local: here,
            peer: here,
            identity: PeerIdentity::Tls(Some(certificate)),
        };
        let rbac = |action| Rbac::new(action, policies.clone()).with_audit(audit.clone());
        assert!(rbac(RbacAction::Allow).judge("rbac", &call).is_permitted);
        assert!(!rbac(RbacAction::Deny).judge("rbac", &call).is_permitted);
        assert!(rbac(RbacAction::Ignore).judge("rbac", &call).is_permitted);
    }

    #[test]
    fn a_line_has_the_fields_of_grpc() {
        // gRFC A59
        let kept = Arc::new(Kept::default());
        tell(Arc::clone(&kept) as Arc<dyn AuditLogger>);
        let lines = kept.0.lock().expect("no panic");
        let [line] = lines.as_slice() else { panic!("{lines:?}") };
        let parsed: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let entry = json!({"timestamp": "1970-01-01T00:00:00Z", "rpc_method": "/a.A/B",
            "principal": "spiffe://a/b", "policy_name": "rbac", "matched_rule": "b",
            "authorized": true});
        assert_eq!(parsed, json!({"grpc_audit_log": entry}));
    }

    #[tokio::test]
    async fn lines_that_nobody_reads_are_counted() {
        let (written, lines) = channel();
        let (go_on, may_write) = channel();
        let log = StdoutLog::writing(Stalling { written, may_write, is_stalled: true });
        // One may be in the hands of the thread.
        let sent = QUEUED + 10;
        (0..sent).for_each(|_| tell(Arc::clone(&log) as Arc<dyn AuditLogger>));
        let lost = log.lost.load(Ordering::Relaxed);
        assert!((9..=10).contains(&lost), "{lost}");
        go_on.send(()).expect("the thread waits");
        let mut all = String::new();
        while !all.contains("grpc_audit_log_lost") {
            all += &lines.recv_timeout(Duration::from_secs(30)).expect("a line");
        }
        assert!(all.contains(&json!({"grpc_audit_log_lost": lost}).to_string()), "{all}");
        log.written(Duration::from_secs(30)).await;
        all.extend(lines.try_iter());
        assert_eq!(all.matches("rpc_method").count() as u64 + lost, sent as u64);
    }
}
