//! The Go program with the generated code, as a child that ends in any case.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use prost_reflect::prost::Message as _;
use prost_reflect::{DynamicMessage, ReflectMessage};

/// The program that `cargo xtask fetch` built.
pub(crate) struct GeneratedRules(PathBuf);

/// The time for all answers. They take a second.
const PATIENCE: Duration = Duration::from_secs(120);

impl GeneratedRules {
    /// The program; or nothing, said aloud, if it is not built and this is not CI.
    pub(crate) fn find() -> Option<Self> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/real/go-rules");
        if path.with_extension("stamp").exists() {
            return Some(Self(path));
        }
        let is_ci = std::env::var_os("CHANCERY_CI").is_some();
        assert!(!is_ci, "`go-rules` is not built: `cargo xtask fetch`");
        // Not a print macro: the test runner would keep it to itself.
        let note = "\nSKIPPED: `go-rules` is not built; run `cargo xtask fetch`\n";
        std::io::stderr().write_all(note.as_bytes()).ok();
        None
    }

    /// The answers, one for each message.
    pub(crate) fn ask(&self, messages: &[DynamicMessage]) -> Vec<String> {
        let mut command = Command::new(&self.0);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (done, is_done) = mpsc::channel::<()>();
        let answers = thread::scope(|scope| {
            scope.spawn(move || {
                // The sender goes with the answers.
                let is_late =
                    is_done.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout);
                if is_late {
                    child.kill().unwrap();
                }
                let status = child.wait().unwrap();
                assert!(status.success() && !is_late, "{status}");
            });
            scope.spawn(move || {
                for message in messages {
                    to.write_all(&frame(message)).unwrap();
                }
            });
            let answers: Vec<_> = BufReader::new(from).lines().map(Result::unwrap).collect();
            drop(done);
            answers
        });
        assert_eq!(answers.len(), messages.len());
        answers
    }
}

/// The name of the type and the bytes, each after its length.
fn frame(message: &DynamicMessage) -> Vec<u8> {
    let (of, bytes) = (message.descriptor(), message.encode_to_vec());
    let parts = [of.full_name().as_bytes(), &bytes];
    let part = |part: &[u8]| {
        let length = u32::try_from(part.len()).unwrap().to_be_bytes();
        [&length[..], part].concat()
    };
    parts.map(part).concat()
}
