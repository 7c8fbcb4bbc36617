//! The descriptor pool: every message the resources of a server may be made of.
