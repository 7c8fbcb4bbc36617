//! The division of memory among peers, and the way to get some back.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use super::*;

const MIB: usize = 1 << 20;

fn budget(memory: usize) -> Arc<Budget> {
    let balancers = vec!["192.0.2.0/24".parse().unwrap()];
    Budget::new(&Limits { memory, balancers, max_streams: 80, ..Limits::default() })
}

fn peer(address: &str) -> Peer {
    let address: SocketAddr = address.parse().unwrap();
    Peer { address: Some(address), tls: false, certificates: Vec::new() }
}

/// Charges of one MiB each until the peer gets no more.
fn fill(share: &Arc<PeerShare>) -> Vec<MemoryCharge> {
    std::iter::from_fn(|| MemoryCharge::new(share, MIB).ok()).collect()
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn one_peer_holds_half_of_the_memory_and_the_next_one_half_of_the_rest() {
    let budget = budget(90 * MIB);
    let (one, two) = (budget.share_of(&peer("10.0.0.1:1")), budget.share_of(&peer("10.0.0.2:1")));
    let of_one = fill(&one);
    assert_eq!(of_one.len(), 40, "half of the pool without its reserve");
    assert_eq!(fill(&two).len(), 20);
    drop(of_one);
    assert_eq!(budget.memory_held(), 0);
}

#[test]
fn a_peer_is_its_certificate_or_else_its_address() {
    let budget = budget(90 * MIB);
    let share = |peer: &Peer| Arc::as_ptr(&budget.share_of(peer)) as usize;
    let held: Vec<_> =
        ["10.0.0.1:1", "[2001:db8::1]:1"].map(|it| budget.share_of(&peer(it))).into();
    assert_eq!(Arc::as_ptr(&held[0]) as usize, share(&peer("10.0.0.1:2")));
    assert_eq!(Arc::as_ptr(&held[0]) as usize, share(&peer("[::ffff:10.0.0.1]:2")));
    assert_eq!(Arc::as_ptr(&held[1]) as usize, share(&peer("[2001:db8::2:3:4]:9")));
    assert_ne!(Arc::as_ptr(&held[1]) as usize, share(&peer("[2001:db8:0:1::1]:9")));
    let shown = Peer { certificates: vec![vec![7], vec![8]], ..peer("10.0.0.1:1") };
    let elsewhere = Peer { certificates: vec![vec![7]], ..peer("10.0.0.2:1") };
    let certified = budget.share_of(&shown);
    assert_eq!(Arc::as_ptr(&certified) as usize, share(&elsewhere));
    assert_eq!(budget.peers(), 3);
    drop((held, certified));
    assert_eq!(budget.peers(), 0);
}

#[test]
fn a_balancer_and_a_unix_socket_have_no_share() {
    let budget = budget(90 * MIB);
    let balancer = budget.share_of(&peer("192.0.2.9:1"));
    assert_eq!(fill(&balancer).len(), 80);
    let local = Peer { address: None, tls: false, certificates: Vec::new() };
    let local = budget.share_of(&local);
    let streams = std::iter::from_fn(|| local.stream().ok()).collect::<Vec<_>>();
    assert_eq!(streams.len(), 80);
}

#[test]
fn streams_are_shared_by_the_same_rule() {
    let budget = budget(90 * MIB);
    let (one, two) = (budget.share_of(&peer("10.0.0.1:1")), budget.share_of(&peer("10.0.0.2:1")));
    let of_one = std::iter::from_fn(|| one.stream().ok()).collect::<Vec<_>>();
    let of_two = std::iter::from_fn(|| two.stream().ok()).collect::<Vec<_>>();
    assert_eq!((of_one.len(), of_two.len()), (40, 32), "a few are always given");
    drop(of_one);
    assert!(two.stream().is_ok());
}

#[test]
fn the_largest_holder_makes_room_for_a_smaller_peer() {
    let budget = budget(90 * MIB);
    let one = budget.share_of(&peer("10.0.0.1:1"));
    let (wakes, mut of_one) = (Arc::new(Wakes::default()), fill(&one));
    let waker = Waker::from(Arc::clone(&wakes));
    let two = budget.share_of(&peer("10.0.0.2:1"));
    let of_two = fill(&two);
    let small = budget.share_of(&peer("10.0.0.3:1"));
    assert_eq!(MemoryCharge::new(&small, 15 * MIB).err(), share_of_15_mib(), "nobody ends");
    assert!(of_one.iter().all(|charge| !charge.is_asked_back(&waker)));
    let of_small = MemoryCharge::new(&small, 15 * MIB).unwrap();
    assert_eq!(wakes.0.load(Ordering::Relaxed), 15, "no more than is needed ends");
    let before = of_one.len();
    of_one.retain(|charge| !charge.is_asked_back(&waker));
    assert_eq!(of_one.len(), before - 15);
    assert!(of_two.iter().all(|charge| !charge.is_asked_back(&waker)));
    drop((of_one, of_two, of_small));
    assert_eq!((budget.memory_held(), budget.peers()), (0, 3));
    drop((one, two, small));
    assert_eq!(budget.peers(), 0);
}

fn share_of_15_mib() -> Option<MemoryShortage> {
    Some(MemoryShortage::Share { held: 15 * MIB })
}

#[test]
fn a_balancer_makes_room_for_a_peer_if_nobody_else_can() {
    let budget = budget(90 * MIB);
    let balancer = budget.share_of(&peer("192.0.2.9:1"));
    let of_balancer = fill(&balancer);
    assert!(of_balancer.iter().all(|charge| !charge.is_asked_back(Waker::noop())));
    let small = budget.share_of(&peer("10.0.0.3:1"));
    assert!(MemoryCharge::new(&small, 2 * MIB).is_ok());
    let asked = of_balancer.iter().filter(|charge| charge.is_asked_back(Waker::noop())).count();
    assert_eq!(asked, 5, "a sixteenth of the pool");
}

#[test]
fn a_holder_that_can_end_nothing_is_passed_over() {
    let budget = budget(90 * MIB);
    let one = budget.share_of(&peer("10.0.0.1:1"));
    let _idle = fill(&one);
    let two = budget.share_of(&peer("10.0.0.2:1"));
    let of_two = fill(&two);
    assert!(of_two.iter().all(|charge| !charge.is_asked_back(Waker::noop())));
    let three = budget.share_of(&peer("10.0.0.3:1"));
    let _of_three = fill(&three);
    let small = budget.share_of(&peer("10.0.0.4:1"));
    let _of_small = fill(&small);
    assert!(of_two.iter().any(|charge| charge.is_asked_back(Waker::noop())));
}

#[test]
fn a_peer_with_very_little_is_given_more_although_nobody_can_make_room() {
    let budget = budget(90 * MIB);
    let balancer = budget.share_of(&peer("192.0.2.9:1"));
    let _idle = fill(&balancer);
    let small = budget.share_of(&peer("10.0.0.3:1"));
    let _little = MemoryCharge::new(&small, MIB).unwrap();
    assert_eq!(MemoryCharge::new(&small, MIB).err(), Some(MemoryShortage::Whole));
}

#[test]
fn peers_come_and_go_while_others_are_short_of_memory() {
    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
    let budget = budget(90 * MIB);
    let balancer = budget.share_of(&peer("192.0.2.9:1"));
    let _idle = fill(&balancer);
    let (done, ended) = std::sync::mpsc::channel();
    for from in ["10.0.0.1:1", "10.0.0.2:1"] {
        let (budget, done) = (Arc::clone(&budget), done.clone());
        std::thread::spawn(move || {
            for _ in 0..200_000 {
                let share = budget.share_of(&peer(from));
                std::thread::yield_now();
                drop(share);
            }
            done.send(())
        });
    }
    std::thread::spawn(move || {
        for _ in 0..200_000 {
            drop(budget.holders_of(0));
        }
        done.send(())
    });
    for _ in 0..3 {
        ended.recv_timeout(PATIENCE).expect("a thread waits for itself");
    }
}

#[test]
fn a_peer_is_not_helped_at_the_cost_of_one_that_holds_less() {
    let budget = budget(90 * MIB);
    let one = budget.share_of(&peer("10.0.0.1:1"));
    let of_one = fill(&one);
    assert!(of_one.iter().all(|charge| !charge.is_asked_back(Waker::noop())));
    let two = budget.share_of(&peer("10.0.0.2:1"));
    let _of_two = fill(&two);
    let greedy = budget.share_of(&peer("10.0.0.3:1"));
    let refused = MemoryCharge::new(&greedy, 30 * MIB).err();
    assert_eq!(refused, Some(MemoryShortage::Whole));
    assert!(of_one.iter().all(|charge| !charge.is_asked_back(Waker::noop())));
}

#[test]
fn a_charge_counts_in_steps_and_stays_as_it_is_when_it_may_not_grow() {
    let budget = budget(90 * MIB);
    let one = budget.share_of(&peer("10.0.0.1:1"));
    let charge = MemoryCharge::new(&one, 1).unwrap();
    assert_eq!(budget.memory_held(), 4096);
    charge.set(4096).unwrap();
    assert_eq!(budget.memory_held(), 4096);
    charge.set(4097).unwrap();
    assert_eq!(budget.memory_held(), 8192);
    assert!(charge.set(41 * MIB).is_err());
    assert_eq!(budget.memory_held(), 8192);
    charge.set(0).unwrap();
    assert_eq!(budget.memory_held(), 0);
}

#[test]
fn a_peer_states_as_many_sets_of_values_as_it_leaves_to_others() {
    let budget = Budget::new(&Limits { max_node_values: 1_000, ..Limits::default() });
    let (one, two) = (budget.share_of(&peer("10.0.0.1:1")), budget.share_of(&peer("10.0.0.2:1")));
    let all = |share: &Arc<PeerShare>, from: u64| -> Vec<_> {
        (from..).map_while(|number| ValuesPermit::take(share, number)).collect()
    };
    let of_one = all(&one, 0);
    assert_eq!(of_one.len(), 500);
    assert!(ValuesPermit::take(&one, 499).is_some(), "it has that already");
    let of_two = all(&two, 1_000);
    assert_eq!(of_two.len(), 250);
    let shared = ValuesPermit::take(&two, 0);
    assert!(shared.is_some(), "what others have costs nothing");
    drop(of_one);
    assert!(ValuesPermit::take(&one, 2_000).is_some());
    assert!(ValuesPermit::take(&two, 3_000).is_some());
    let local = budget.share_of(&Peer { address: None, ..peer("10.0.0.1:1") });
    let held: Vec<_> = (0..2_000).filter_map(|it| ValuesPermit::take(&local, it)).collect();
    assert_eq!(held.len(), 2_000, "who may open a socket is trusted");
}
