//! Programs that a test runs, and no wait for them without a bound: for their end, for their output.
//!
//! A wait in vain fails with the command line and with what the program has printed so far. The
//! names are those of `std::process`, which waits for ever.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use mio::unix::pipe::Receiver;
use mio::{Events, Interest, Poll, Token};

/// Far more than anything here takes, also on a machine with other work.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The time between two checks whether a program has ended.
pub(crate) const PAUSE: Duration = Duration::from_millis(5);

/// The number of bytes of a program's output that are kept to be shown.
const TAIL: usize = 4096;

/// A program to run, and how.
pub(crate) struct Program(Command);

/// A program that ends with the test, also with one that fails.
pub(crate) struct Running {
    child: Child,
    /// Its standard output, if it was started with `Stdio::piped()`.
    pub(crate) stdout: Option<Pipe>,
    pub(crate) stderr: Option<Pipe>,
    command: String,
}

/// One output of a running program. A read that waits too long is an error that says for whom.
pub(crate) struct Pipe {
    receiver: Receiver,
    poll: Poll,
    events: Events,
    command: String,
    tail: VecDeque<u8>,
}

impl Program {
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        Self(Command::new(program))
    }

    pub(crate) fn arg(&mut self, word: impl AsRef<OsStr>) -> &mut Self {
        self.0.arg(word);
        self
    }

    pub(crate) fn args(&mut self, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> &mut Self {
        self.0.args(words);
        self
    }

    pub(crate) fn env(&mut self, name: &str, value: impl AsRef<OsStr>) -> &mut Self {
        self.0.env(name, value);
        self
    }

    pub(crate) fn env_remove(&mut self, name: &str) -> &mut Self {
        self.0.env_remove(name);
        self
    }

    pub(crate) fn current_dir(&mut self, dir: impl AsRef<Path>) -> &mut Self {
        self.0.current_dir(dir);
        self
    }

    pub(crate) fn stdin(&mut self, from: impl Into<Stdio>) -> &mut Self {
        self.0.stdin(from);
        self
    }

    pub(crate) fn stdout(&mut self, to: impl Into<Stdio>) -> &mut Self {
        self.0.stdout(to);
        self
    }

    pub(crate) fn stderr(&mut self, to: impl Into<Stdio>) -> &mut Self {
        self.0.stderr(to);
        self
    }

    pub(crate) fn spawn(&mut self) -> io::Result<Running> {
        let words = std::iter::once(self.0.get_program()).chain(self.0.get_args());
        let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        let command = words.join(" ");
        let mut child = self.0.spawn()?;
        let pipe = |receiver| Pipe::new(receiver, &command);
        let stdout = child.stdout.take().map(Receiver::from).map(pipe).transpose()?;
        let stderr = child.stderr.take().map(Receiver::from).map(pipe).transpose()?;
        Ok(Running { child, stdout, stderr, command })
    }

    /// Runs it to its end, and collects what it says.
    #[track_caller]
    pub(crate) fn output(&mut self) -> io::Result<Output> {
        let mut running = self.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (stdout, stderr) = (running.stdout.take(), running.stderr.take());
        let (stdout, stderr) = thread::scope(|scope| {
            let stderr = scope.spawn(move || collect(stderr));
            (collect(stdout), stderr.join().expect("it does not panic"))
        });
        let (stdout, stderr) = match (stdout, stderr) {
            (Ok(stdout), Ok(stderr)) => (stdout, stderr),
            (Err(fault), other) | (other, Err(fault)) => {
                panic!("{fault}; its other output: {:?}", other.map(|text| shown(&text)))
            }
        };
        Ok(Output { status: running.wait()?, stdout, stderr })
    }

    /// Runs it to its end.
    #[track_caller]
    pub(crate) fn status(&mut self) -> io::Result<ExitStatus> {
        self.output().map(|output| output.status)
    }
}

fn collect(pipe: Option<Pipe>) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    pipe.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut text))?;
    Ok(text)
}

fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

impl Running {
    pub(crate) fn start(program: &mut Program) -> Self {
        program.spawn().unwrap()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, name: &str) {
        let arguments = [format!("-{name}"), self.id().to_string()];
        assert!(Program::new("kill").args(arguments).status().unwrap().success());
    }

    pub(crate) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> io::Result<ExitStatus> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            assert!(start.elapsed() < PATIENCE, "`{}` has not ended in {PATIENCE:?}", self.command);
            thread::park_timeout(PAUSE);
        }
    }

    /// Waits for its end: the code, and what is left of its standard error.
    #[track_caller]
    pub(crate) fn ended(&mut self) -> (Option<i32>, String) {
        let told = collect(self.stderr.take()).unwrap();
        (self.wait().unwrap().code(), shown(&told))
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        // Fails only if it has ended already.
        self.child.kill().ok();
        // Nothing holds up the end of a killed program.
        self.child.wait().ok();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Pipe {
    fn new(mut receiver: Receiver, command: &str) -> io::Result<Self> {
        receiver.set_nonblocking(true)?;
        let poll = Poll::new()?;
        poll.registry().register(&mut receiver, Token(0), Interest::READABLE)?;
        let (command, tail) = (command.to_owned(), VecDeque::new());
        Ok(Self { receiver, poll, events: Events::with_capacity(1), command, tail })
    }

    fn remember(&mut self, read: &[u8]) {
        self.tail.extend(read);
        self.tail.drain(..self.tail.len().saturating_sub(TAIL));
    }

    fn out_of_patience(&mut self) -> io::Error {
        let text = format!(
            "`{}` has said nothing for {PATIENCE:?}; the last it said: {:?}",
            self.command,
            shown(self.tail.make_contiguous())
        );
        io::Error::new(io::ErrorKind::TimedOut, text)
    }
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.receiver.read(buffer) {
                Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => {}
                Ok(size) => {
                    self.remember(&buffer[..size]);
                    return Ok(size);
                }
                Err(fault) => return Err(fault),
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.out_of_patience());
            }
            match self.poll.poll(&mut self.events, Some(left)) {
                Err(fault) if fault.kind() != io::ErrorKind::Interrupted => return Err(fault),
                _ => {}
            }
        }
    }
}
