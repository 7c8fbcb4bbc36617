//! The end of the command: one failure type, one function to exit codes, one way of printing.
//!
//! The exit code is 0 for success, 1 for a negative answer (a configuration with faults, no such
//! resource), 2 for a failure (an address that cannot be bound), and 64 for misuse of the command
//! line. So a script can tell a negative answer from a question that could not be answered.

use std::fmt::{self, Display, Formatter};
use std::process::ExitCode;

use anyhow::anyhow;
use chancery_core::printable::{PrintForm, Printable, printable};
use clap::error::ErrorKind;

use crate::admin::InvalidTokens;
use crate::config::InvalidConfig;

/// The kinds of failure, each with an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FailureKind {
    /// The question was answered, and the answer is no.
    Negative,
    /// Something the command needs did not work.
    Broken,
    /// The command line makes no sense.
    Misuse,
}

/// The failure that ends the command.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: FailureKind,
    /// The misuse of the command line, in clap's words.
    misuse: Option<clap::Error>,
    /// The findings, on several lines, with a line feed at the end.
    details: String,
    error: Option<anyhow::Error>,
    hint: Option<String>,
}

impl Failure {
    /// Returns true if it was caused by an error of this type.
    pub(crate) fn is_by<E: std::error::Error + Send + Sync + 'static>(&self) -> bool {
        self.error.as_ref().is_some_and(|error| error.chain().any(|cause| cause.is::<E>()))
    }

    /// A negative answer.
    pub(crate) fn negative(error: impl Into<anyhow::Error>) -> Self {
        Self::new(FailureKind::Negative, error.into())
    }

    /// A negative answer that was given on stdout, so that nothing is left to say.
    pub(crate) fn told() -> Self {
        let (details, misuse, error, hint) = (String::new(), None, None, None);
        Self { kind: FailureKind::Negative, misuse, details, error, hint }
    }

    /// Something the command needs did not work.
    pub(crate) fn broken(error: impl Into<anyhow::Error>) -> Self {
        Self::new(FailureKind::Broken, error.into())
    }

    /// Flags that are well formed and cannot be meant together. The usage is added by
    /// [`Self::with_usage`].
    pub(crate) fn misuse(why: impl Display) -> Self {
        clap::Error::raw(ErrorKind::ArgumentConflict, why).into()
    }

    /// Adds the usage of the command that was called to a misuse that has none.
    #[must_use]
    pub(crate) fn with_usage(self, called: impl FnOnce() -> clap::Command) -> Self {
        Self { misuse: self.misuse.map(|error| error.format(&mut called())), ..self }
    }

    /// Returns the same failure as one that kept the command from answering the question.
    #[must_use]
    pub(crate) fn breaks(self) -> Self {
        Self { kind: FailureKind::Broken, ..self }
    }

    /// Tells a path by another name, where nobody can look at the path any more.
    #[must_use]
    pub(crate) fn renaming(mut self, path: &str, shown: &str) -> Self {
        self.details = self.details.replace(path, shown);
        self.error = self.error.map(|error| anyhow!(format!("{error:#}").replace(path, shown)));
        self
    }

    /// Adds findings, which are printed before everything else.
    #[must_use]
    pub(crate) fn details(mut self, details: impl Into<String>) -> Self {
        self.details = details.into();
        self
    }

    /// Adds a hint on how to repair it.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The exit code of the process.
    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(code(self.kind))
    }

    fn new(kind: FailureKind, error: anyhow::Error) -> Self {
        Self { kind, misuse: None, details: String::new(), error: Some(error), hint: None }
    }
}

/// The command line makes no sense; clap says why in its own words.
impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Self {
        let kind = FailureKind::Misuse;
        Self { kind, misuse: Some(error), details: String::new(), error: None, hint: None }
    }
}

impl From<InvalidConfig> for Failure {
    fn from(invalid: InvalidConfig) -> Self {
        match invalid {
            InvalidConfig::Unreadable { .. } => Self::broken(invalid),
            InvalidConfig::Broken(finding) => {
                let details = format!("{}\n", finding.rendered());
                Self::negative(anyhow!("the configuration has 1 fault")).details(details)
            }
        }
    }
}

impl From<InvalidTokens> for Failure {
    fn from(invalid: InvalidTokens) -> Self {
        match invalid {
            InvalidTokens::Unreadable { .. } => Self::broken(invalid),
            _ => Self::negative(invalid),
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::broken(error)
    }
}

/// The misuse or the details, then `chancery: outer: inner`, then the hint on a line of its own.
impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(error) = &self.misuse {
            write!(f, "{}", error.render())?;
        }
        // An escaped text stays as it is.
        f.write_str(&printable(&self.details, PrintForm::Lines))?;
        if let Some(error) = &self.error {
            writeln!(f, "chancery: {}", Printable(format_args!("{error:#}")))?;
        }
        match &self.hint {
            Some(hint) => writeln!(f, "hint: {}", Printable(hint)),
            None => Ok(()),
        }
    }
}

/// The one place where exit codes are chosen.
fn code(kind: FailureKind) -> u8 {
    match kind {
        FailureKind::Negative => 1,
        FailureKind::Broken => 2,
        FailureKind::Misuse => 64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_failure_has_its_code() {
        assert_eq!(
            [FailureKind::Negative, FailureKind::Broken, FailureKind::Misuse].map(code),
            [1, 2, 64]
        );
    }

    #[test]
    fn a_failure_is_told_from_the_outside_in_and_then_what_helps() {
        let error = anyhow!("address in use").context("cannot listen on `127.0.0.1:1`");
        let failure = Failure::broken(error).hint("give another with `--listen`");
        assert_eq!(
            failure.to_string(),
            "chancery: cannot listen on `127.0.0.1:1`: address in use\n\
             hint: give another with `--listen`\n"
        );
    }

    #[test]
    fn a_misuse_is_told_with_the_usage_of_the_command() {
        let command = || clap::Command::new("chancery").arg(clap::arg!(<DIR>));
        let failure = Failure::misuse("`-o binary` is one response").with_usage(command);
        assert_eq!(
            failure.to_string(),
            "error: `-o binary` is one response\n\nUsage: chancery <DIR>\n\n\
             For more information, try '--help'.\n"
        );
    }

    #[test]
    fn what_was_found_comes_first() {
        let failure = Failure::negative(anyhow!("1 fault")).details("error: a\n --> b:1:1\n\n");
        assert_eq!(failure.to_string(), "error: a\n --> b:1:1\n\nchancery: 1 fault\n");
    }
}
