//! Audiences see the same after their states were cut into pieces, kept, and put together again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use chancery_catalog::{
    Catalog, ChangeSet, Entry, Gate, Hold, Kept, Key, Layer, Lineage, Memory, Origin, Piece,
    PieceId, Reader, Seen, Unreadable,
};
use chancery_core::{Resource, TypeUrl};
use chancery_proto::document::Position;
use chancery_proto::schema::Schema;
use proptest::collection::vec;
use proptest::prelude::*;

/// A type that no descriptor knows, so that any bytes are a resource.
fn things() -> TypeUrl {
    TypeUrl::new("test.Thing")
}

fn key(name: &str) -> Key {
    Key { type_url: things(), name: name.parse().unwrap() }
}

fn entry(name: &str, body: &[u8], line: u32) -> Entry {
    let resource = Resource::new(name.parse().unwrap(), body.to_vec().into());
    let (path, position) = (Path::new("dir/a.yaml").into(), Position { line, column: 1 });
    Entry::new(resource, Origin::File { path, position })
}

/// A gate that holds whatever leaves less.
struct NoLoss;

impl Gate for NoLoss {
    fn lets_pass(
        &self,
        _: &chancery_catalog::Audience,
        before: Option<&Seen>,
        after: &Seen,
    ) -> bool {
        before.is_none_or(|before| before.snapshot().len() <= after.snapshot().len())
    }
}

/// Pieces as somebody keeps them.
#[derive(Default)]
struct Store {
    pieces: BTreeMap<PieceId, Vec<u8>>,
    kept: Option<Kept>,
}

impl Store {
    /// Keeps the states of a catalog. Returns the bytes that this writes.
    fn keep(&mut self, catalog: &Catalog) -> usize {
        let (kept, made) = catalog.memory().cut(self.kept.as_ref());
        let written = made.iter().map(|piece| piece.bytes.len()).sum();
        for Piece { id, bytes } in made {
            self.pieces.insert(id, bytes.to_vec());
        }
        let needed = kept.pieces();
        self.pieces.retain(|id, _| needed.contains(id));
        assert_eq!(self.pieces.keys().copied().collect::<BTreeSet<_>>(), needed);
        self.kept = Some(kept);
        written
    }

    fn read(&self, known: &dyn Fn(&Layer, &Key) -> Option<Entry>) -> Result<Kept, Unreadable> {
        let piece = |id| self.pieces.get(&id).cloned();
        let reader = Reader { schema: &Schema::bundled(), piece: &piece, known, derived: true };
        Memory::read(self.kept.as_ref().unwrap().root(), &reader)
    }

    fn restored(&self) -> Catalog {
        let catalog = Catalog::gated(NoLoss);
        let kept = self.read(&|_, _| None).unwrap();
        assert!(catalog.restore(&kept.memory()));
        catalog
    }
}

/// The names and bodies that a node sees, if it sees anything.
type View = Option<Vec<(String, Vec<u8>)>>;

fn seen(catalog: &Catalog, group: Option<&str>, node: Option<&str>) -> View {
    let snapshot = catalog.snapshot(group, node)?;
    let all = snapshot.set(&things()).iter().map(|it| (it.name().to_string(), it.body().to_vec()));
    Some(all.collect())
}

fn all_seen(catalog: &Catalog) -> Vec<View> {
    let groups = [None, Some("g0"), Some("g1"), Some("g2")];
    let nodes = [None, Some("n0"), Some("n1")];
    groups
        .into_iter()
        .flat_map(|group| nodes.map(|node| (group, node)))
        .map(|(group, node)| seen(catalog, group, node))
        .collect()
}

#[derive(Clone, Debug)]
enum Edit {
    Put(usize, u8, u8),
    Take(usize, u8),
    Remove(usize),
    Hold(usize),
    Release(usize),
    Extend(bool),
}

fn layer(number: usize) -> Layer {
    match number {
        0 => Layer::Base,
        1..=3 => Layer::Group(format!("g{}", number - 1).into()),
        _ => Layer::Node(format!("n{}", number - 4).into()),
    }
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = 0..6_usize;
    prop_oneof![
        8 => (at.clone(), 0..40_u8, any::<u8>()).prop_map(|(at, name, body)| Edit::Put(at, name, body)),
        2 => (at.clone(), 0..40_u8).prop_map(|(at, name)| Edit::Take(at, name)),
        1 => at.clone().prop_map(Edit::Remove),
        1 => at.clone().prop_map(Edit::Hold),
        2 => at.prop_map(Edit::Release),
        1 => any::<bool>().prop_map(Edit::Extend),
    ]
}

fn apply(catalog: &Catalog, edits: &[Edit]) {
    let mut changes = ChangeSet::new("test");
    for edit in edits {
        match edit {
            Edit::Put(at, name, body) => {
                let entry = entry(&format!("r{name}"), &[*body], u32::from(*body));
                changes.put(&layer(*at), &things(), entry);
            }
            Edit::Take(at, name) => changes.remove(&layer(*at), key(&format!("r{name}"))),
            Edit::Remove(at) => changes.remove_layer(&layer(*at)),
            Edit::Hold(at) => changes.hold(Hold::Layer(layer(*at))),
            Edit::Release(at) => changes.release(Hold::Layer(layer(*at))),
            Edit::Extend(does) => {
                let lineage = does.then_some(("g1", "g0"));
                catalog.extend(Lineage::new(lineage).unwrap(), "test");
            }
        }
    }
    catalog.commit(changes);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Also what comes later is the same, so that whatever was held back stays so.
    #[test]
    fn a_catalog_that_was_kept_goes_on_where_it_was(
        loads in vec(vec(edit(), 1..8), 1..8),
        more in vec(vec(edit(), 1..8), 0..4),
    ) {
        let (catalog, mut store) = (Catalog::gated(NoLoss), Store::default());
        for edits in &loads {
            apply(&catalog, edits);
            store.keep(&catalog);
        }
        let restored = store.restored();
        prop_assert_eq!(all_seen(&catalog), all_seen(&restored));
        prop_assert_eq!(catalog.held_audiences(), restored.held_audiences());
        prop_assert_eq!(catalog.held_back(), restored.held_back());
        prop_assert_eq!(store.keep(&restored), 0, "nothing has changed");
        for edits in &more {
            apply(&catalog, edits);
            apply(&restored, edits);
            prop_assert_eq!(all_seen(&catalog), all_seen(&restored));
            store.keep(&restored);
        }
        prop_assert_eq!(all_seen(&catalog), all_seen(&store.restored()));
    }
}

/// A catalog with so many resources in base and in each of some groups.
fn large(base: usize, groups: usize, each: usize) -> Catalog {
    let catalog = Catalog::new();
    let mut changes = ChangeSet::new("test");
    let mut put = |layer: &Layer, at: usize| {
        let entry = entry(&format!("r{at}"), &[b'x'; 200], at.try_into().unwrap());
        changes.put(layer, &things(), entry);
    };
    (0..base).for_each(|at| put(&Layer::Base, at));
    for group in 0..groups {
        let layer = Layer::Group(format!("g{group}").into());
        (0..each).for_each(|at| put(&layer, at));
    }
    catalog.commit(changes);
    catalog
}

#[test]
fn an_edit_writes_what_it_changes_however_much_there_is() {
    for catalog in [large(20_000, 0, 0), large(10, 5_000, 2)] {
        let mut store = Store::default();
        let all = store.keep(&catalog);
        assert!(store.pieces.len() < 300, "{} pieces", store.pieces.len());
        for at in 0..5 {
            let mut changes = ChangeSet::new("test");
            changes.put(&Layer::Base, &things(), entry(&format!("r{at}"), b"y", 1));
            catalog.commit(changes);
            let written = store.keep(&catalog);
            assert!(written > 0 && written < all / 30, "{written} of {all}");
        }
    }
}

#[test]
fn a_resource_that_only_moves_in_its_file_writes_nothing() {
    let (catalog, mut store) = (large(1000, 0, 0), Store::default());
    store.keep(&catalog);
    let mut changes = ChangeSet::new("test");
    for at in 0..1000 {
        changes.put(&Layer::Base, &things(), entry(&format!("r{at}"), &[b'x'; 200], at + 7));
    }
    assert!(catalog.commit(changes).is_some());
    assert_eq!(store.keep(&catalog), 0);
}

#[test]
fn pieces_stay_few_when_most_of_a_layer_goes() {
    let (catalog, mut store) = (large(20_000, 0, 0), Store::default());
    store.keep(&catalog);
    for from in (0..20_000).step_by(500) {
        let mut changes = ChangeSet::new("test");
        let gone = (from..from + 500).filter(|at| at % 100 > 0);
        gone.for_each(|at| changes.remove(&Layer::Base, key(&format!("r{at}"))));
        catalog.commit(changes);
        store.keep(&catalog);
    }
    assert!(store.pieces.len() <= 10, "{} pieces for 200 resources", store.pieces.len());
}

#[test]
fn what_is_known_is_used_with_its_place() {
    let (catalog, mut store) = (large(10, 0, 0), Store::default());
    store.keep(&catalog);
    let other = entry("r1", b"other", 99);
    let known = |_: &Layer, of: &Key| match of.name.as_str() {
        "r1" => Some(other.clone()),
        name => catalog.content(&Layer::Base)?.get(&key(name)).cloned(),
    };
    let kept = store.read(&known).unwrap();
    let restored = Catalog::new();
    restored.restore(&kept.memory());
    let content = restored.content(&Layer::Base).unwrap();
    let before = catalog.content(&Layer::Base).unwrap();
    assert_eq!(content.get(&key("r2")), before.get(&key("r2")));
    let kept = content.get(&key("r1")).unwrap();
    assert_eq!(**kept.resource().unwrap().body(), [b'x'; 200]);
}

#[test]
fn no_piece_that_is_damaged_is_taken() {
    let (catalog, mut store) = (large(40, 3, 5), Store::default());
    store.keep(&catalog);
    for id in store.pieces.keys().copied().collect::<Vec<_>>() {
        let good = store.pieces[&id].clone();
        for at in (0..good.len()).step_by(good.len() / 50 + 1) {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            store.pieces.insert(id, bad);
            assert_eq!(store.read(&|_, _| None).unwrap_err(), Unreadable::Piece(id));
            store.pieces.insert(id, good[..at].to_vec());
            assert_eq!(store.read(&|_, _| None).unwrap_err(), Unreadable::Piece(id));
        }
        store.pieces.remove(&id);
        assert_eq!(store.read(&|_, _| None).unwrap_err(), Unreadable::Piece(id));
        store.pieces.insert(id, good);
    }
}

/// Whoever writes a piece with a right name and odd content finds that it is refused, or read, and that
/// nothing panics.
#[test]
fn no_bytes_make_a_reading_panic() {
    let (catalog, mut store) = (large(20, 3, 5), Store::default());
    store.keep(&catalog);
    let root = store.kept.as_ref().unwrap().root();
    let (mut refused, mut read) = (0, 0);
    for id in store.pieces.keys().copied().collect::<Vec<_>>() {
        for at in 0..store.pieces[&id].len() {
            let mut bad = store.pieces[&id].clone();
            bad[at] ^= 0x81;
            let other = PieceId::of(&bad);
            let mut pieces = store.pieces.clone();
            pieces.insert(other, bad);
            let mut leading = pieces[&root].clone();
            let place = leading.windows(16).position(|window| *window == digest(id));
            if let Some(place) = place {
                leading[place..place + 16].copy_from_slice(&digest(other));
            }
            let leading_id = if id == root { other } else { PieceId::of(&leading) };
            pieces.entry(leading_id).or_insert(leading);
            let piece = |id| pieces.get(&id).cloned();
            let reader = Reader {
                schema: &Schema::bundled(),
                piece: &piece,
                known: &|_, _| None,
                derived: true,
            };
            match Memory::read(leading_id, &reader) {
                Ok(_) => read += 1,
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 0 && read > 0, "{refused} refused, {read} read");
}

fn digest(id: PieceId) -> [u8; 16] {
    u128::from_str_radix(&id.to_string(), 16).unwrap().to_le_bytes()
}

#[test]
fn resources_that_are_not_derived_any_more_are_left_out() {
    let (catalog, mut store) = (Catalog::new(), Store::default());
    let mut changes = ChangeSet::new("test");
    let written = entry("a", b"x", 1);
    let derived = Entry::derived(written.resource().unwrap().clone(), written.origin.clone());
    changes.put(&Layer::Base, &things(), written);
    changes.put(&Layer::Base, &TypeUrl::new("test.OldThing"), derived);
    catalog.commit(changes);
    store.keep(&catalog);
    let piece = |id| store.pieces.get(&id).cloned();
    for (derived, count) in [(true, 2), (false, 1)] {
        let reader =
            Reader { schema: &Schema::bundled(), piece: &piece, known: &|_, _| None, derived };
        let kept = Memory::read(store.kept.as_ref().unwrap().root(), &reader).unwrap();
        let restored = Catalog::new();
        restored.restore(&kept.memory());
        assert_eq!(restored.snapshot(None, None).unwrap().len(), count);
    }
}

#[test]
fn a_group_that_is_made_to_stand_on_one_without_a_good_state_stays_as_it_is() {
    let (catalog, mut store) = (Catalog::gated(NoLoss), Store::default());
    apply(&catalog, &[Edit::Hold(1), Edit::Put(2, 0, 0)]);
    apply(&catalog, &[Edit::Extend(true)]);
    let as_before = Some(vec![("r0".to_owned(), vec![0])]);
    assert_eq!(seen(&catalog, Some("g1"), None), as_before, "nobody asked before");
    store.keep(&catalog);
    assert_eq!(seen(&store.restored(), Some("g1"), None), as_before);
}
