//! The credentials of a channel, which the program chooses: how its connections to endpoints are secured. Not
//! here: the credentials of the control plane, which are in the bootstrap.

use chancery_client::credentials::TlsFiles;

/// The security of the connections to endpoints.
///
/// ```
/// use chancery_grpc::Credentials;
///
/// // TLS where the control plane asks for it, and no encryption where it does not.
/// let mesh = Credentials::xds(Credentials::insecure());
/// // TLS everywhere: by the control plane where it has settings for it, else by the authorities of the system.
/// let strict = Credentials::xds(Credentials::tls(Default::default()));
/// # let _ = (mesh, strict);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    pub(crate) ordinary: Ordinary,
    /// True if the control plane has a say.
    pub(crate) is_xds: bool,
}

/// Credentials that no control plane has a say in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ordinary {
    Insecure,
    Tls(TlsFiles),
}

impl Credentials {
    /// Encrypts nothing and verifies nobody.
    pub fn insecure() -> Self {
        Self { ordinary: Ordinary::Insecure, is_xds: false }
    }

    /// Uses TLS with these files, by default with the authorities of the system. The certificate of a server has
    /// to be for the host in the target, or for the authority of the channel if that is set.
    pub fn tls(files: TlsFiles) -> Self {
        Self { ordinary: Ordinary::Tls(files), is_xds: false }
    }

    /// Leaves the security of a cluster to the control plane, and has the fallback for clusters that it has no
    /// settings for (C-121). The fallback is never used because of an error.
    pub fn xds(fallback: Self) -> Self {
        Self { is_xds: true, ..fallback }
    }
}
