//! The discovery messages on the gRPC wire.
