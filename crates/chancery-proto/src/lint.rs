//! What gRPC clients would refuse in a resource.
