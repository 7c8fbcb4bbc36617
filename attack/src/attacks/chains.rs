//! Attacks by the certificates that clients show: long chains that are kept, and chains that lead
//! nowhere in very many ways.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::secrets::tls;
use crate::attack::Attack;
use crate::stage::{PATIENCE, Stage};
use crate::wire::ATTACKER;
use crate::wire::frame::{PREFACE, frame};
use crate::wire::tls::{Identity, LONG, authority, connect};

/// The attacks of this file.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "mtls-long-chains",
        about: "5,000 connections show a good certificate and 15 or 60 kB that belong to nothing",
        setup: tls,
        run: |stage| Box::pin(long_chains(stage)),
        growth: 250,
        in_ci: true,
    },
    Attack {
        name: "mtls-many-paths",
        about: "200 connections show a chain of 14 certificates that all could have signed each other",
        setup: tls,
        run: |stage| Box::pin(many_paths(stage)),
        growth: 100,
        in_ci: true,
    },
];

async fn long_chains(stage: &Stage) -> Result<String> {
    let ours = authority()?;
    let own = ours.sign(LONG)?;
    // The smaller ones are within what a client may show.
    let connectors = [
        ours.client_with(&own, vec![vec![0x30; 15_000]])?,
        ours.client_with(&own, vec![vec![0x30; 60_000]])?,
    ];
    let count = stage.scale(5_000, 500);
    let mut tasks = JoinSet::new();
    let mut open = Vec::new();
    for (at, connector) in connectors.iter().cycle().take(count).enumerate() {
        let (connector, to) = (connector.clone(), stage.xds());
        tasks.spawn(async move {
            let mut io = connect(&connector, ATTACKER, to).await?;
            io.write_all(&[PREFACE, &frame(4, 0, 0, &[])].concat()).await?;
            io.flush().await?;
            // The first frame of the server shows that it took the certificate.
            timeout(PATIENCE, io.read(&mut [0; 9])).await??;
            anyhow::Ok(io)
        });
        if at % 32 == 31 {
            while let Some(task) = tasks.join_next().await {
                open.extend(task?.ok());
            }
        }
    }
    while let Some(task) = tasks.join_next().await {
        open.extend(task?.ok());
    }
    tokio::time::sleep(stage.seconds()).await;
    stage.serves_others().await?;
    ensure!(open.len() > 100, "{} of {count} connections were served", open.len());
    Ok(format!("{} of {count} connections were served", open.len()))
}

/// A certificate that was signed by one of 14 authorities, and the certificates of these. All have the
/// same name, so each could have signed each other, and none of them leads to one that is known.
fn maze() -> Result<(Identity, Vec<Vec<u8>>)> {
    let named = |name: &str| -> Result<CertificateParams> {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, name);
        Ok(params)
    };
    let mut chain = Vec::new();
    let mut last = None;
    for _ in 0..14 {
        let key = KeyPair::generate()?;
        let mut params = named("anybody")?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        chain.push(params.self_signed(&key)?.der().to_vec());
        last = Some(Issuer::new(params, key));
    }
    let issuer = last.context("there are authorities")?;
    let key = KeyPair::generate()?;
    let own = named("nobody")?.signed_by(&key, &issuer)?;
    Ok(((own.pem(), key.serialize_pem()), chain))
}

/// Connects, and waits until the server refuses the certificate.
async fn refused(connector: &TlsConnector, to: SocketAddr) -> Result<()> {
    let mut io = connect(connector, ATTACKER, to).await?;
    // A client may think that it is connected before the server has looked at its certificate.
    timeout(PATIENCE, io.read(&mut [0; 9])).await??;
    Ok(())
}

async fn many_paths(stage: &Stage) -> Result<String> {
    let (own, chain) = maze()?;
    let connector = authority()?.client_with(&own, chain)?;
    let deadline = Instant::now() + 3 * stage.seconds();
    let mut tasks = JoinSet::new();
    for _ in 0..stage.scale(200, 40) {
        let (connector, to) = (connector.clone(), stage.xds());
        tasks.spawn(async move {
            let mut shown = 0;
            while Instant::now() < deadline {
                // Each is refused, or given up because it takes too long.
                shown += usize::from(refused(&connector, to).await.is_err());
            }
            shown
        });
    }
    let shown: usize = tasks.join_all().await.iter().sum();
    stage.serves_others().await?;
    ensure!(shown > 0, "no chain was refused");
    Ok(format!("{shown} chains were refused"))
}
