//! The servers to measure: Chancery, and those beside it.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::programs::Programs;

/// A server to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Chancery,
    Tcp,
    TcpDraining,
    H2,
    GoSnapshot,
    GoLinear,
    RustControlPlane,
}

impl Side {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Chancery => "Chancery",
            Self::Tcp => "TCP loop",
            Self::TcpDraining => "TCP loop that reads ACKs",
            Self::H2 => "bare h2",
            Self::GoSnapshot => "go-control-plane, snapshot cache",
            Self::GoLinear => "go-control-plane, linear cache",
            Self::RustControlPlane => "rust-control-plane",
        }
    }

    pub(super) fn program(self, programs: &Programs) -> Result<&Path> {
        let path = match self {
            Self::Chancery => Ok(&programs.library),
            Self::Tcp | Self::TcpDraining => Ok(&programs.tcp),
            Self::H2 => Ok(&programs.h2),
            Self::GoSnapshot | Self::GoLinear => programs.go.as_ref(),
            Self::RustControlPlane => programs.rust_control_plane.as_ref(),
        };
        path.map(PathBuf::as_path).map_err(|why| anyhow::anyhow!("{why}"))
    }

    pub(super) fn flags(self) -> &'static str {
        match self {
            Self::TcpDraining => " --drain",
            Self::GoSnapshot => " --cache snapshot",
            Self::GoLinear => " --cache linear",
            // A stream for each node, and some more: it is the driver that numbers them.
            Self::RustControlPlane => " --nodes 50",
            _ => "",
        }
    }

    /// Returns true if the driver must count exactly the payload that the server states. The
    /// payload of other servers may differ by a little.
    pub(super) fn exact(self) -> bool {
        matches!(self, Self::Tcp | Self::TcpDraining)
    }
}
