//! The flags of commands that read a directory and serve nothing: how a `serve` would read it.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::BoolishValueParser;

use super::ServeFlags;

/// The flags of `serve` that change how resources are read.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ResourceFlags {
    /// File with more message types, a FileDescriptorSet; may be given several times
    #[arg(long = "descriptor-set", value_name = "FILE", env = "CHANCERY_DESCRIPTOR_SET")]
    #[arg(value_delimiter = ',', help_heading = "Resources", hide_env_values = true)]
    descriptor_sets: Vec<PathBuf>,

    /// Read as a server that has the v2 types too
    #[arg(long, env = "CHANCERY_ENABLE_V2", help_heading = "Resources", hide_env_values = true)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(value_parser = BoolishValueParser::new(), value_name = "BOOL", hide_possible_values = true)]
    enable_v2: Option<bool>,
}

impl ResourceFlags {
    /// The flags of a `serve` that would read `dir` in the same way.
    pub(crate) fn of_serve(&self, dir: &Path) -> ServeFlags {
        ServeFlags {
            dir: dir.to_owned(),
            descriptor_sets: self.descriptor_sets.clone(),
            enable_v2: self.enable_v2,
            ..ServeFlags::default()
        }
    }
}
