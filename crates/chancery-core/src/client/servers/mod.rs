pub(super) mod server;
pub(super) mod subscription;
