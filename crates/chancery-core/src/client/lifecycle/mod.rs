pub(super) mod backoff;
pub(super) mod token_bucket;
