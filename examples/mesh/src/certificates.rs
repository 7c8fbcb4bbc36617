//! An authority, and a certificate of it for each service: files as they come from a certificate manager.
//!
//! A service is known by the URI `spiffe://shop.example/SERVICE` in its certificate. Not here: their renewal. The
//! certificates are good for a trial, since the key of the authority is thrown away.

use std::error::Error;
use std::fs;
use std::path::Path;

use rcgen::string::Ia5String;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};

/// The services that have certificates. `audit` may call nothing.
const SERVICES: [&str; 3] = ["storefront", "orders", "audit"];

/// Writes `ca.pem`, and for each service `SERVICE.pem` with `SERVICE.key`.
pub(crate) fn make(dir: &Path) -> Result<(), Box<dyn Error + Send + Sync>> {
    fs::create_dir_all(dir)?;
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, "the authority of the shop");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    fs::write(dir.join("ca.pem"), params.self_signed(&key)?.pem())?;
    let authority = Issuer::new(params, key);
    for service in SERVICES {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, service);
        let uri = format!("spiffe://shop.example/{service}");
        params.subject_alt_names.push(SanType::URI(Ia5String::try_from(uri)?));
        fs::write(dir.join(format!("{service}.pem")), params.signed_by(&key, &authority)?.pem())?;
        fs::write(dir.join(format!("{service}.key")), key.serialize_pem())?;
        println!("{}: spiffe://shop.example/{service}", dir.join(service).display());
    }
    Ok(())
}
