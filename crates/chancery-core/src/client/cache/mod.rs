pub(super) mod authority;
pub(super) mod entry;
pub(super) mod expiries;
pub(super) mod restored;
pub(super) mod slots;
