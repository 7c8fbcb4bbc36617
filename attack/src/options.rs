//! The options of the program.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::stage::Circumstances;

/// The help text.
pub(crate) const HELP: &str = "\
cargo xtask attack [--only NAME,…] [--list] [--seconds N] [-o json]
cargo xtask attack soak [--minutes N]

Attacks the daemon, built with optimisation, with an innocent client beside each attack, and says
which attacks it holds.

  --only NAME,…    only the attacks whose names begin so
  --list           list the attacks
  --seconds N      the time for which an attack without an end of its own goes on (5)
  --memory MB      the bound on the memory of the server (600)
  --bounded        those of CI: less of everything, and no time is judged
  --program FILE   the daemon, if it is not to be built
  -o json          print all figures as JSON
  --minutes N      the time of the soak (20)

Everything is on loopback. The machine should do nothing else meanwhile.";

/// The options, read.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) circumstances: Circumstances,
    /// The beginnings of the names that were asked for.
    pub(crate) only: Vec<String>,
    pub(crate) lists: bool,
    pub(crate) helps: bool,
    pub(crate) prints_json: bool,
    /// The minutes of a soak, if one was asked for.
    pub(crate) soak: Option<f64>,
}

impl Options {
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self> {
        let circumstances = Circumstances {
            program: PathBuf::from("target/release/chancery"),
            seconds: 5,
            is_bounded: false,
            memory: 600 << 20,
        };
        let mut options = Self {
            circumstances,
            only: Vec::new(),
            lists: false,
            helps: false,
            prints_json: false,
            soak: None,
        };
        let mut words = words.peekable();
        while let Some(word) = words.next() {
            match word.as_str() {
                "soak" => options.soak = Some(20.0),
                "--list" => options.lists = true,
                "--help" | "-h" => options.helps = true,
                "--bounded" => options.circumstances.is_bounded = true,
                _ => {
                    let value = words
                        .next()
                        .with_context(|| format!("`{word}` is unknown or needs a value"))?;
                    options.set(&word, &value)?;
                }
            }
        }
        Ok(options)
    }

    fn set(&mut self, word: &str, value: &str) -> Result<()> {
        match word {
            "--only" => self.only = value.split(',').map(|name| name.trim().to_owned()).collect(),
            "--seconds" => self.circumstances.seconds = value.parse().context("`--seconds`")?,
            "--minutes" => self.soak = Some(value.parse().context("`--minutes`")?),
            "--memory" => {
                self.circumstances.memory = value.parse::<u64>().context("`--memory`")? << 20;
            }
            "--program" => self.circumstances.program = PathBuf::from(value),
            "-o" if value == "json" => self.prints_json = true,
            _ => bail!("unknown words `{word} {value}`\n\n{HELP}"),
        }
        Ok(())
    }

    /// Returns true if this attack was asked for, by the beginning of its name or because all were.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| name.starts_with(only.as_str()))
    }
}
