//! The discovery messages as proto3 JSON.
