pub(super) mod events;
pub(super) mod watchers;
