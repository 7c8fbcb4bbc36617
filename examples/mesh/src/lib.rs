//! Two small services on tonic, a storefront that calls orders, and what they need to become a mesh.
//!
//! ```text
//!   storefront   calls the service of orders      (channel of chancery-grpc)
//!   orders       answers with the name of its server      (tonic, or the server of chancery-grpc)
//!   certificates makes an authority and certificates for both
//!   api          the types, a client and a server of `proto/orders.proto`
//!   reflection   the types for tools, beside the service
//! ```
//!
//! docs/mesh.md goes through it step by step. Not here: the resources, which are files in the directories
//! of the steps.
#![expect(clippy::print_stdout, reason = "it is made to be watched")]

pub mod api;
mod certificates;
mod orders;
mod reflection;
mod storefront;

use std::error::Error;

/// The usage of the program.
const USAGE: &str = "usage:
  shop orders ADDRESS NAME            serve orders, as an ordinary server of tonic
  shop orders ADDRESS NAME --fails N  the same, with a failure in every Nth call
  shop orders ADDRESS NAME --xds      the same, as a server that a control plane configures
  shop storefront TARGET [STATUS]     get an order five times a second; STATUS is an address for CSDS
  shop certificates DIR               make an authority, and a certificate for each service";

/// Runs the program with these words of the command line.
///
/// # Errors
/// If the words are wrong, or what they ask for cannot be done.
pub async fn run(words: &[&str]) -> Result<(), Box<dyn Error + Send + Sync>> {
    match words {
        ["orders", address, name] => orders::serve(address, name, None).await,
        ["orders", address, name, "--fails", every] => {
            orders::serve(address, name, Some(every.parse()?)).await
        }
        ["orders", address, name, "--xds"] => orders::serve_xds(address, name).await,
        ["storefront", target] => storefront::run(target, None).await,
        ["storefront", target, status] => storefront::run(target, Some(status.parse()?)).await,
        ["certificates", dir] => certificates::make(dir.as_ref()),
        _ => Err(USAGE.into()),
    }
}
