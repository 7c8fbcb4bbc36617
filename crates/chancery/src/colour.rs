//! Colours, on a terminal that has some and whose user wants them.

use std::env;
use std::io::{self, IsTerminal};

/// The colours of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    /// Colours as ANSI terminals have them.
    Ansi,
    /// There are no colours.
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    Faint,
    Red,
    Green,
    Yellow,
}

impl Paint {
    /// Returns the colours of stdout.
    pub(crate) fn of_stdout() -> Self {
        let dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
        let wanted = env::var_os("NO_COLOR").is_none();
        if io::stdout().is_terminal() && wanted && !dumb { Self::Ansi } else { Self::None }
    }

    pub(crate) fn with(self, colour: Colour, text: &str) -> String {
        let code = match colour {
            Colour::Faint => 2,
            Colour::Red => 31,
            Colour::Green => 32,
            Colour::Yellow => 33,
        };
        match self {
            Self::None => text.to_owned(),
            Self::Ansi => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        }
    }
}
