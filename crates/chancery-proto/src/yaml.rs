//! YAML and JSON as a tree that knows where everything stands.
