//! A directory loaded to be judged: by the code of `serve`, and served to nobody.
//!
//! Not here: what is made of the faults, which is the business of each command.

use chancery_catalog::Catalog;
use chancery_proto::Schema;
use chancery_proto::clients::Clients;
use chancery_proto::document::Checks;
use chancery_sources::{Directory, LoadReport, Options};

use super::codes::Severity;
use super::findings::Findings;
use super::output;
use crate::config::{self, Config, FileContent, InvalidConfig, ServeFlags};
use crate::exit::Failure;
use crate::finding::Finding;
use crate::serve::{exists, schema};

/// A directory as `serve` would load it.
pub(crate) struct LoadedDirectory {
    pub(crate) config: Config,
    pub(crate) schema: Schema,
    pub(crate) catalog: Catalog,
    pub(super) report: LoadReport,
}

/// The failure to load a directory.
pub(super) enum NotLoaded {
    /// The configuration has this fault. Without it, nobody knows which files are resources.
    Config(Box<Finding>),
    Failed(Failure),
}

impl LoadedDirectory {
    /// The settings with which the directory of these flags can be followed, also while `chancery.yaml` has a
    /// fault.
    pub(super) fn source(flags: &ServeFlags) -> Result<(Options, Schema), Failure> {
        exists(&flags.dir)?;
        match config::parsed(flags, &FileContent::read(&flags.dir)) {
            Ok(config) => Ok((config.source(&flags.dir), schema(&config.descriptor_sets)?)),
            Err(InvalidConfig::Broken(_)) => Ok((Options::new(&flags.dir), Schema::bundled())),
            Err(unreadable) => Err(unreadable.into()),
        }
    }

    /// Loads the directory of these flags, for the clients that it declares, or for these.
    pub(super) fn load(flags: &ServeFlags, clients: Option<Clients>) -> Result<Self, NotLoaded> {
        let dir = &flags.dir;
        exists(dir)?;
        let content = FileContent::read(dir);
        let config = match config::parsed(flags, &content) {
            Ok(config) => config,
            Err(InvalidConfig::Broken(fault)) => return Err(NotLoaded::Config(fault)),
            Err(unreadable) => return Err(NotLoaded::Failed(unreadable.into())),
        };
        let schema = schema(&config.descriptor_sets)?;
        let mut source = config.source(dir);
        // Nothing is served, so whatever else is wrong with the layer is told too.
        source.hold_violations = false;
        if let Some(clients) = clients {
            source.checks = Checks { rules: config.gate.rules(), clients }.into();
        }
        // They are left out later, where it is known which of them leave nothing out.
        source.checks.allowed.clear();
        let mut directory = Directory::new(source, schema.clone());
        directory.catalog().extend(config.groups.lineage().clone(), config::FILE);
        let report = directory.load();
        Ok(Self { config, schema, catalog: directory.catalog(), report })
    }

    /// Loads a directory that has to be without faults. If it has some, the failure tells them as
    /// `check` does. Messages that break a rule are no fault if `is_served`: they are there.
    pub(crate) fn faultless(flags: &ServeFlags, is_served: bool) -> Result<Self, Failure> {
        let (findings, loaded) = match Self::load(flags, None) {
            Ok(mut loaded) => {
                if is_served {
                    loaded.report.violations.clear();
                    loaded.report.more_violations.clear();
                }
                let mut findings = Findings::of_load(&loaded.report);
                if !is_served {
                    let Self { config, catalog, schema, .. } = &loaded;
                    findings.add_references(config, catalog.clone(), schema);
                }
                (findings, Some(loaded))
            }
            Err(NotLoaded::Config(fault)) => (Findings::of_config(&fault), None),
            Err(NotLoaded::Failed(failure)) => return Err(failure),
        };
        let errors = findings.count(Severity::Error);
        match loaded {
            Some(loaded) if errors == 0 => Ok(loaded),
            _ => {
                let count = if errors == 1 { "1 error".into() } else { format!("{errors} errors") };
                let error = anyhow::anyhow!("`{}` has {count}", flags.dir.display());
                Err(Failure::broken(error).details(output::errors_as_text(findings)))
            }
        }
    }
}

impl From<Failure> for NotLoaded {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}
