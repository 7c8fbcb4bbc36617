//! Faults of a directory, which hold something back, and warnings, which do not.
//!
//! Each fault states what it holds back, so that all else is served; all faults of a load are
//! reported at once. Not here: the faults inside of a document (`chancery_proto::document`), and
//! which warnings were reported before (`warnings`).

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use chancery_catalog::Layer;
use chancery_core::printable::Printable;
use chancery_core::{ResourceName, TypeUrl};
use chancery_files::{FileKind, ReadError};
use chancery_proto::document::{self, BrokenRule, Position};
use chancery_proto::rules::RuleName;

use crate::layer_name::InvalidLayerName;

/// One fault, with its place. All faults of a load are reported at once.
///
/// It quotes nothing of a file that lies outside of the directory, as symlinks may lead to one.
///
/// Displays as `FILE:LINE:COLUMN: PATH: MESSAGE`, without the parts that are not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The code of faults of this kind, which is stable, as in `unknown-field`.
    pub code: &'static str,
    /// The part that it holds back.
    pub scope: Scope,
    /// The file or directory, below the directory as it was given.
    pub file: PathBuf,
    /// The place in the file.
    pub position: Option<Position>,
    /// The field, as in `resources[0].name`; empty if it is not about a field.
    pub path: String,
    /// The description: what was found, and what was expected.
    pub message: String,
    /// Advice, if anything is known to help.
    pub hint: Option<String>,
    /// The resource it is about, if that could be read.
    pub resource: Option<FaultyResource>,
    /// The fault for people, with the line it is in.
    rendered: Option<String>,
}

/// The resource that a fault is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultyResource {
    /// Its type.
    pub type_url: TypeUrl,
    /// Its name.
    pub name: ResourceName,
    /// The rule of its message that it breaks.
    pub rule: RuleName,
}

/// The part that a fault holds back: the audiences that contain it keep their last good snapshot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// One layer.
    Layer(Layer),
    /// The groups that were known and are not found now.
    Groups,
    /// The nodes with overlays that were known and are not found now.
    Nodes,
    /// Everything.
    Directory,
}

/// Something that an operator should know and that holds nothing back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Warning {
    /// The file, if it is about one.
    pub file: Option<PathBuf>,
    /// The line in it, if known.
    pub line: Option<u32>,
    /// The column, if known.
    pub column: Option<u32>,
    /// The description.
    pub message: String,
    /// The code of warnings of this kind, which is stable, as in `dangling-reference`.
    pub code: &'static str,
    /// The type and the name of the resource that it is about, if it is about one in a file.
    pub resource: Option<(TypeUrl, ResourceName)>,
}

/// The faults of files that are found without parsing them, and those between files.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Wrong {
    #[error("the directory is not there")]
    Gone,
    #[error("is not a directory")]
    NotADirectory,
    #[error("holds no files any more, where there were {0}")]
    Emptied(usize),
    #[error("says nothing any more: it is empty, or holds comments alone; resources it had: {0}")]
    SaysNothing(usize),
    #[error("cannot be read")]
    Unreadable(#[source] io::Error),
    #[error("the symlink leads back to `{}`, which contains it", .0.display())]
    Cycle(PathBuf),
    #[error("the symlink leads nowhere")]
    LeadsNowhere,
    #[error("the symlink leads to itself, or through too many others")]
    Endless,
    #[error("is the same directory as `{}`, whose files would be read twice", .0.display())]
    Twice(PathBuf),
    #[error("is {0}, not a regular file")]
    NotRegular(FileKind),
    #[error("the file name is not UTF-8")]
    NameNotUtf8,
    #[error("is larger than {limit} bytes")]
    TooLarge { limit: u64 },
    #[error("there are more than {limit} files")]
    TooMany { limit: usize },
    #[error("the files have more than {limit} bytes together")]
    TooMuch { limit: u64 },
    #[error("there are more than {limit} directories")]
    TooManyDirectories { limit: usize },
    #[error("is more than {limit} directories deep")]
    TooDeep { limit: usize },
    #[error("the parser failed on this file")]
    Panicked,
    #[error(transparent)]
    Name(#[from] InvalidLayerName),
    #[error("{kind} `{name}` is defined twice: first at {first}")]
    Defined { kind: String, name: String, first: String },
    #[error(
        "values of {kind} `{name}` stand in another file than what the layer says of it: first at {first}"
    )]
    ValuesElsewhere { kind: String, name: String, first: String },
}

impl From<ReadError> for Wrong {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NotRegular(kind) => Self::NotRegular(kind),
            ReadError::TooLarge { limit } => Self::TooLarge { limit },
            other => Self::Unreadable(other.into()),
        }
    }
}

impl Wrong {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Emptied(_) => {
                Some("to serve nothing, leave one file that holds an empty list, `[]`")
            }
            Self::SaysNothing(_) => {
                Some("to take them away, write an empty list, `[]`, or remove the file")
            }
            Self::TooLarge { .. } => Some("split the file, or raise `max-file-bytes`"),
            Self::TooMany { .. } => Some("raise `max-files`"),
            Self::TooMuch { .. } => {
                Some("remove files, give the process more memory, or raise `max-directory-bytes`")
            }
            Self::TooManyDirectories { .. } => {
                Some("remove directories, or the symlink that leads to them, or raise `max-files`")
            }
            Self::Name(_) => Some("write `%` itself as `%25`"),
            Self::Cycle(_) | Self::Twice(_) => Some("remove the symlink"),
            Self::LeadsNowhere => Some("bring its target back, or remove the symlink"),
            Self::NotRegular(_) => {
                Some("move it elsewhere, or list it under `ignore` in chancery.yaml")
            }
            Self::Defined { .. } => Some("remove one of the two, or give it another name"),
            Self::ValuesElsewhere { .. } => {
                Some("put `values` into the file of the resource, behind `---`")
            }
            Self::Gone
            | Self::NotADirectory
            | Self::Unreadable(_)
            | Self::Endless
            | Self::NameNotUtf8
            | Self::TooDeep { .. }
            | Self::Panicked => None,
        }
    }

    /// The code of faults of this kind.
    fn code(&self) -> &'static str {
        match self {
            Self::Gone | Self::NotADirectory | Self::Emptied(_) => "directory",
            Self::SaysNothing(_) => "file/emptied",
            Self::Unreadable(_) => "file/unreadable",
            Self::Cycle(_) | Self::Endless | Self::LeadsNowhere | Self::Twice(_) => "file/symlink",
            Self::NotRegular(_) => "file/not-regular",
            Self::NameNotUtf8 | Self::Name(_) => "file/name",
            Self::TooLarge { .. }
            | Self::TooMany { .. }
            | Self::TooManyDirectories { .. }
            | Self::TooMuch { .. }
            | Self::TooDeep { .. } => "file/limit",
            Self::Panicked => "file/parser",
            Self::Defined { .. } | Self::ValuesElsewhere { .. } => "duplicate-name",
        }
    }

    /// Makes a fault of a file or directory.
    pub(crate) fn at(self, scope: Scope, file: &Path, position: Option<Position>) -> Fault {
        let hint = self.hint().map(str::to_owned);
        let message = match &self {
            Self::Unreadable(source) => format!("{self}: {source}"),
            _ => self.to_string(),
        };
        Fault {
            code: self.code(),
            scope,
            file: file.to_owned(),
            position,
            path: String::new(),
            message,
            hint,
            resource: None,
            rendered: None,
        }
    }
}

impl Fault {
    pub(crate) fn of_document(
        scope: Scope,
        file: &Path,
        fault: &document::Fault,
        rendered: String,
    ) -> Self {
        Self {
            code: fault.code,
            scope,
            file: file.to_owned(),
            position: fault.position,
            path: fault.path.clone(),
            message: fault.message.clone(),
            hint: fault.hint.clone(),
            resource: None,
            rendered: Some(rendered),
        }
    }

    /// The fault of a rule that a resource breaks.
    pub(crate) fn of_rule(self, broken: &BrokenRule) -> Self {
        let (type_url, name) = (broken.type_url.clone(), broken.name.clone());
        let resource = FaultyResource { type_url, name, rule: broken.rule };
        Self { resource: Some(resource), ..self }
    }

    /// The fault for a terminal: over several lines, with the line of the file it is in, unless
    /// that may hold a secret (S-138).
    pub fn render(&self) -> String {
        if let Some(rendered) = &self.rendered {
            return rendered.clone();
        }
        let help = self.hint.iter().map(|hint| format!("help: {}\n", Printable(hint)));
        let place = self.position.map(|at| format!(":{}:{}", at.line, at.column));
        format!(
            "error: {}\n --> {}{}\n{}",
            Printable(&self.message),
            Printable(self.file.display()),
            place.unwrap_or_default(),
            help.collect::<String>()
        )
    }
}

impl Warning {
    /// A warning about a whole file or directory.
    pub(crate) fn of_file(code: &'static str, file: &Path, message: impl Into<String>) -> Self {
        let file = Some(file.to_owned());
        let message = message.into();
        Self { file, line: None, column: None, message, code, resource: None }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Printable(self.file.display()))?;
        if let Some(Position { line, column }) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        if !self.path.is_empty() {
            write!(f, ": {}", Printable(&self.path))?;
        }
        write!(f, ": {}", Printable(&self.message))
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}:", Printable(file.display()))?;
            if let Some(line) = self.line {
                write!(f, "{line}:")?;
            }
            f.write_str(" ")?;
        }
        write!(f, "{}", Printable(&self.message))
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Layer(layer) => layer.fmt(f),
            Self::Groups => f.write_str("groups that are not found any more"),
            Self::Nodes => f.write_str("nodes that are not found any more"),
            Self::Directory => f.write_str("everything"),
        }
    }
}
