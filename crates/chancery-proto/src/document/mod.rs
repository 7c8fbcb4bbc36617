//! Files and bodies of resources in YAML, JSON, text or binary.
