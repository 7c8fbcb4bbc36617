//! Entries that change between the listing of their directory and the look at them.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

/// A directory in which `a.yaml` is listed, and then becomes what `step` makes of it.
fn looked_at(step: impl Fn(&Path)) -> (Option<ScannedEntry>, Listing) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap();
    fs::write(path.join("a.yaml"), "[]").unwrap();
    let options = Options::new(&path);
    let mut scan = Scan::new(&options);
    let entry = fs::read_dir(&path).unwrap().next().unwrap().unwrap();
    fs::remove_file(path.join("a.yaml")).unwrap();
    step(&path.join("a.yaml"));
    let metadata = fs::metadata(&path).unwrap();
    let top = ScannedEntry { shown: path.clone(), real: path, is_link: false, metadata };
    let spot = scan.spot(&top, &entry, &Scope::Directory);
    (spot, scan.listing)
}

#[test]
fn a_symlink_that_takes_the_place_of_a_file_lends_it_no_stamp() {
    // S-138: the file would be quoted as if it lay in the directory
    let (spot, listing) = looked_at(|path| symlink("/etc/passwd", path).unwrap());
    assert!(spot.is_none() && listing.faults.is_empty());
    let (spot, _) = looked_at(|path| fs::write(path, "[] # anew").unwrap());
    assert!(spot.is_some_and(|spot| spot.metadata.len() == 9));
    let (spot, listing) = looked_at(|_| ());
    assert!(spot.is_none() && listing.faults.is_empty(), "it is gone");
}

#[test]
fn nothing_but_absence_counts_as_absence() {
    let found = |kind: io::ErrorKind| found::<()>(Err(kind.into()));
    assert!(matches!(found(io::ErrorKind::NotFound), Ok(None)));
    for kind in [io::ErrorKind::PermissionDenied, io::ErrorKind::StaleNetworkFileHandle] {
        assert!(matches!(found(kind), Err(Wrong::Unreadable(_))));
    }
}
