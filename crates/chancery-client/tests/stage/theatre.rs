//! A server that plays as it is told: well, or one of the ways in which servers are hostile.
//!
//! It takes every connection, until it is told to play another way: then it drops all of them.
#![allow(dead_code, reason = "each test uses some of it")]

use std::future::pending;
use std::sync::{Arc, Mutex};

use chancery_core::SotwRequest;
use chancery_proto::wire::decode_sotw;
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::message::{CDS, LDS, cluster, reply, response};
use super::{Call, Door, Peer};

/// The behaviour of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// As it should: the cluster `a`, with this text in it.
    Good(&'static str),
    /// Responses of a type that nobody asked for.
    Foreign,
    /// Listeners in a response with clusters.
    WrongInside,
    /// One name, two clusters.
    Twice,
    /// The same nonce again and again, and then none.
    Stale,
    /// Thousands of resources that nobody asked for.
    Unasked,
    /// A message above the client's limit.
    Huge,
    /// Messages that are no protobuf.
    Noise,
    /// A message that ends in its middle.
    Half,
    /// Something else than HTTP/2.
    Babbling,
    /// Connections are taken, and nothing is said.
    Deaf,
    /// Streams are taken, and nothing is said.
    Mute,
    /// Headers, and nothing after them.
    Bare,
    /// Trailers, and nothing before them.
    Trailers,
    /// The stream ends after each response.
    Hasty,
    /// The connection is retired after each second answer.
    Aging,
}

/// The record of the server.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) connections: usize,
    pub(crate) calls: usize,
    pub(crate) requests: usize,
    pub(crate) rejections: Vec<String>,
}

/// The server. It ends when this is dropped.
pub(crate) struct Theatre {
    manner: watch::Sender<Manner>,
    seen: Arc<Mutex<Seen>>,
    _task: JoinSet<()>,
}

impl Theatre {
    /// Plays as told at the end of these connections.
    pub(crate) fn new(door: Door, manner: Manner) -> Self {
        let (manner, told) = watch::channel(manner);
        let seen = Arc::default();
        let mut task = JoinSet::new();
        task.spawn(play(door, told, Arc::clone(&seen)));
        Self { manner, seen, _task: task }
    }

    /// Plays otherwise from now on.
    pub(crate) fn act(&self, manner: Manner) {
        self.manner.send_replace(manner);
    }

    /// Takes the record since the last call.
    pub(crate) fn seen(&self) -> Seen {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

async fn play(mut door: Door, mut told: watch::Receiver<Manner>, seen: Arc<Mutex<Seen>>) {
    loop {
        let manner = *told.borrow_and_update();
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                io = door.try_next() => {
                    let Some((_, io)) = io else { return };
                    seen.lock().unwrap().connections += 1;
                    connections.spawn(connection(io, manner, Arc::clone(&seen)));
                }
                changed = told.changed() => match changed {
                    Ok(()) => break,
                    Err(_) => return,
                },
            }
        }
    }
}

async fn connection(mut io: DuplexStream, manner: Manner, seen: Arc<Mutex<Seen>>) {
    match manner {
        Manner::Babbling => {
            let _ = io.write_all(b"220 mail.test ESMTP ready\r\n\0\xff\xfe garbage").await;
            return;
        }
        Manner::Deaf => return pending().await,
        _ => {}
    }
    let mut peer = Peer::over(io);
    let mut calls = JoinSet::new();
    loop {
        tokio::select! {
            call = peer.call_at_any_time() => {
                let Some(call) = call else { return };
                seen.lock().unwrap().calls += 1;
                calls.spawn(talk(call, manner, Arc::clone(&seen)));
            }
            Some(ended) = calls.join_next() => {
                if ended.is_ok_and(|retire| retire) {
                    peer.retire();
                }
            }
        }
    }
}

/// Plays one stream. Whether the connection is to be retired then.
async fn talk(mut call: Call, manner: Manner, seen: Arc<Mutex<Seen>>) -> bool {
    let mut turn = 0;
    while let Some(message) = call.heard_at_any_time().await {
        let request = decode_sotw(&message).unwrap();
        note(&seen, &request);
        turn += 1;
        match manner {
            // A server that answered each answer would never come to an end.
            Manner::Good(_) if !request.nonce.is_empty() => {}
            Manner::Mute => {}
            Manner::Bare => drop(call.open()),
            Manner::Trailers => {
                call.refuse(12);
                return false;
            }
            Manner::Half => {
                call.say_half(&answer(manner, turn));
                call.end(0);
                return false;
            }
            Manner::Hasty => {
                call.say(&answer(manner, turn));
                call.end(0);
                return false;
            }
            Manner::Aging if turn == 2 => {
                call.say(&answer(manner, turn));
                call.end(0);
                return true;
            }
            _ if turn <= TURNS => call.say(&answer(manner, turn)),
            _ => {}
        }
    }
    false
}

fn note(seen: &Mutex<Seen>, request: &SotwRequest) {
    let mut seen = seen.lock().unwrap();
    seen.requests += 1;
    seen.rejections.extend(request.error.iter().map(|error| error.message.clone()));
}

/// The response of a turn, by its number.
fn answer(manner: Manner, turn: usize) -> Vec<u8> {
    let nonce = turn.to_string();
    let kept = cluster("a", "kept");
    match manner {
        Manner::Good(text) => response(&nonce, &[cluster("a", text)]),
        Manner::Foreign => reply(LDS, &nonce, &[(LDS, cluster("a", "foreign"))]),
        Manner::WrongInside => reply(CDS, &nonce, &[(LDS, cluster("a", "wrong"))]),
        Manner::Twice => response(&nonce, &[cluster("a", "one"), cluster("a", "two")]),
        Manner::Stale => response(if turn.is_multiple_of(2) { "" } else { "1" }, &[kept]),
        Manner::Unasked => {
            let others = (0..5000).map(|number| cluster(&format!("other{number}"), "x"));
            response(&nonce, &others.chain([kept]).collect::<Vec<_>>())
        }
        Manner::Huge => vec![0; 2 << 20],
        Manner::Noise => vec![0xff; 100],
        _ => response(&nonce, &[kept]),
    }
}

/// The number of answers on one stream, if each answer makes the client send something.
const TURNS: usize = 20;
